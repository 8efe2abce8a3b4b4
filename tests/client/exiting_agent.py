"""An agent that exits on request. It speaks raw lines and imports nothing of duologue.

    exiting_agent.py DIRECTORY [FEATURE…]

Everything it receives is written to DIRECTORY/received, its process ids to DIRECTORY/pids. If there is a
DIRECTORY/fatal, it prints that text at its next start and exits. While there is a DIRECTORY/slow it reads nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

DIRECTORY = Path(sys.argv[1])
FEATURES = sys.argv[2:]
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def send_chunk(session_id: str, text: str, kind: str = "agent_message_chunk") -> None:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": session_id, "update": update})


def die(message: str) -> None:
    sys.stderr.write(message)
    sys.stderr.flush()
    os._exit(3)


def prompt(session_id: str, text: str) -> dict[str, Any]:
    send_chunk(session_id, f"{text};")
    if text == "die":
        die("out of memory")
    if text == "hang":
        sys.stdin.read()
    if text == "wait":
        while "session/cancel" not in sys.stdin.readline():
            pass
        return {"stopReason": "cancelled"}
    return {"stopReason": "end_turn"}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            sessions: dict[str, Any] = {name: {} for name in FEATURES if name in ("resume", "close", "list")}
            capabilities = {"loadSession": "load" in FEATURES, "sessionCapabilities": sessions}
            return {"protocolVersion": 1, "agentCapabilities": capabilities}
        case "session/new":
            return {"sessionId": f"s{os.getpid()}", "modes": MODES}
        case "session/load":
            send_chunk(params["sessionId"], "die", "user_message_chunk")
            send_chunk(params["sessionId"], "die;")
            return {"modes": MODES}
        case "session/resume":
            return {"modes": MODES}
        case "session/list":
            return {"sessions": []}
        case "session/prompt":
            return prompt(params["sessionId"], params["prompt"][0]["text"])
        case _:
            return {}


def main() -> None:
    with (DIRECTORY / "pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    if (DIRECTORY / "fatal").exists():
        die((DIRECTORY / "fatal").read_text())
    while (DIRECTORY / "slow").exists():
        time.sleep(0.01)
    for line in sys.stdin:
        with (DIRECTORY / "received").open("a") as received:
            received.write(line)
        message = json.loads(line)
        if "id" in message:
            send(id=message["id"], result=answer(message["method"], message["params"]))


if __name__ == "__main__":
    main()
