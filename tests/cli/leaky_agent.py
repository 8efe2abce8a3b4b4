"""An agent that writes the lines of two files for each of its first prompts: `leaky_agent.py FRAMES STDERR`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

RESULTS: dict[str, dict[str, object]] = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {}},
    "session/new": {"sessionId": "s"},
    "session/prompt": {"stopReason": "end_turn"},
}
WRITTEN = 2
"""Prompts for which it writes the lines; for others it would only repeat them."""

prompts = 0
for line in sys.stdin:
    try:
        message: Any = json.loads(line)
    except ValueError:
        continue
    if not isinstance(message, dict) or "method" not in message or "id" not in message:
        continue
    is_prompt = cast("str", message["method"]) == "session/prompt"
    prompts += is_prompt
    if is_prompt and prompts <= WRITTEN:
        sys.stderr.write(Path(sys.argv[2]).read_text("utf-8"))
        sys.stderr.flush()
        sys.stdout.write(Path(sys.argv[1]).read_text("utf-8"))
    result = RESULTS.get(cast("str", message["method"]), {})
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
    sys.stdout.flush()
