"""An agent with endless text; the first argument says which. Writes raw lines and does not use this library."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

PIECE = 8192


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def update(**fields: Any) -> None:
    send(method="session/update", params={"sessionId": "s", "update": fields})


def send_text(text: str) -> None:
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def flood(kind: str) -> Iterator[str]:
    match kind:
        case "line":
            yield from ("x" * PIECE for _ in range(100))
        case "fence":
            yield "```\n"
            yield from ("\n" * PIECE for _ in range(100))
            yield "```\n\n"
        case "once":
            yield "- a\n\n" * 100_000
        case _:
            pass


def diff() -> None:
    old = "".join(f"{number % 150}\n" for number in range(400_000))
    change = {"type": "diff", "path": "/w/a", "oldText": old, "newText": old[::-1]}
    update(sessionUpdate="tool_call", toolCallId="t", title="Edit", kind="edit", status="completed", content=[change])


def main() -> None:
    kind = sys.argv[1]
    for line in sys.stdin:
        message = json.loads(line)
        number = message.get("id")
        match message.get("method"):
            case "initialize":
                send(id=number, result={"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                send(id=number, result={"sessionId": "s"})
            case "session/prompt":
                for text in flood(kind):
                    send_text(text)
                if kind == "diff":
                    diff()
                send_text("\n\nthat was all\n\n")
                send(id=number, result={"stopReason": "end_turn"})
            case _ if number is not None:
                send(id=number, result={})
            case _:
                pass
        sys.stdout.flush()


if __name__ == "__main__":
    main()
