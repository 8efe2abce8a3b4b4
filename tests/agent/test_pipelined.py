"""A client that does not wait for answers: a person who pipes lines into an agent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.fault("LIF-01")
def test_lines_piped_into_an_agent_are_all_answered_before_it_leaves(tmp_path: Path) -> None:
    requests: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
        ("session/list", {}),
        ("logout", {}),
    ]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(requests)
    ]
    command = [sys.executable, "-m", "duologue.cli.main", "agent", "--sessions", str(tmp_path / "kept")]
    output = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, timeout=60, check=True
    ).stdout

    messages = [json.loads(line) for line in output.splitlines()]
    answers = {message["id"]: message for message in messages if "id" in message}
    assert sorted(answers) == [0, 1, 2, 3]
    assert answers[1]["result"]["sessionId"]
    assert answers[3]["error"]["code"] == -32601
