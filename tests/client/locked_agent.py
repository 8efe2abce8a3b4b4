"""An agent that requires a login. It speaks raw lines and imports nothing of duologue.

    locked_agent.py DIRECTORY [FEATURE…] [--login WORD]

It is logged in while DIRECTORY/key exists, or `LOCKED_KEY` is in its environment. Each run is written to
DIRECTORY/runs, and everything it receives to DIRECTORY/received.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

DIRECTORY = Path(sys.argv[1])
METHODS = [
    {"id": "shell", "name": "Shell", "type": "terminal", "args": ["--login", "now"], "env": {"COLOUR": "red"}},
    {
        "id": "older",
        "name": "Older",
        "_meta": {"terminal-auth": {"command": "tool", "args": ["login"], "env": {"A": "1"}}},
    },
    {"id": "key", "name": "Key", "type": "env_var", "vars": [{"name": "LOCKED_KEY"}]},
]


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method: str) -> dict[str, Any]:
    is_open = (DIRECTORY / "key").exists() or "LOCKED_KEY" in os.environ
    match method:
        case "initialize":
            sessions: dict[str, Any] = {name: {} for name in sys.argv[2:] if not name.startswith("-")}
            capabilities = {"sessionCapabilities": sessions}
            return {"result": {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": METHODS}}
        case "session/new" | "session/resume" | "session/prompt" if not is_open:
            return {"error": {"code": -32000, "message": "who are you?"}}
        case "session/new":
            return {"result": {"sessionId": "s"}}
        case "session/prompt":
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "welcome"}}
            send(method="session/update", params={"sessionId": "s", "update": update})
            return {"result": {"stopReason": "end_turn"}}
        case _:
            return {"result": {}}


def main() -> None:
    run = {"argv": sys.argv[1:], "colour": os.environ.get("COLOUR"), "key": os.environ.get("LOCKED_KEY")}
    with (DIRECTORY / "runs").open("a") as runs:
        runs.write(json.dumps({**run, "pid": os.getpid()}) + "\n")
    if "--login" in sys.argv:
        if sys.stdin.isatty():
            sys.stdout.write("Your name? ")
            sys.stdout.flush()
            if sys.stdin.readline().strip() != "Ada":
                sys.exit(3)
        (DIRECTORY / "key").write_text("")
        return
    for line in sys.stdin:
        with (DIRECTORY / "received").open("a") as received:
            received.write(line)
        message = json.loads(line)
        if "id" in message:
            send(id=message["id"], **answer(message["method"]))


if __name__ == "__main__":
    main()
