"""An agent that sends the permission requests of a JSON file, and reports each answer. Writes raw lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def send_text(text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": "s", "update": update})


def answer(message: dict[str, Any], questions: list[dict[str, Any]]) -> None:
    match message.get("method"):
        case "initialize":
            result: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": {}}
        case "session/new":
            result = {"sessionId": "s"}
        case "session/prompt":
            for number, question in enumerate(questions):
                send(id=f"q{number}", method="session/request_permission", params={"sessionId": "s", **question})
                outcome = json.loads(sys.stdin.readline())["result"]["outcome"]
                send_text(f"answer {number}: {outcome.get('optionId', outcome['outcome'])}\n\n")
            result = {"stopReason": "end_turn"}
        case _:
            result = {}
    if "id" in message:
        send(id=message["id"], result=result)


def main() -> None:
    questions = json.loads(Path(sys.argv[1]).read_text())
    for line in sys.stdin:
        answer(json.loads(line), questions)


if __name__ == "__main__":
    main()
