"""Agents that do what no agent should; the first argument says which. Speaks raw lines, and imports nothing of ours."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def send_text(text: str, kind: str = "agent_message_chunk") -> None:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": "s", "update": update})


def answer(kind: str, message: dict[str, Any]) -> None:
    method, number = message.get("method"), message.get("id")
    match method:
        case "initialize":
            capabilities: dict[str, Any] = (
                {"sessionCapabilities": {"list": {}, "resume": {}}} if kind == "forgetful" else {}
            )
            send(id=number, result={"protocolVersion": 99 if kind == "newer" else 1, "agentCapabilities": capabilities})
        case "session/list":
            # All of them, although those of one directory were asked for.
            here = {"sessionId": "s", "cwd": message["params"]["cwd"], "updatedAt": "2026-01-01T00:00:00Z"}
            there = {"sessionId": "t", "cwd": "/elsewhere", "updatedAt": "2026-02-02T00:00:00Z"}
            send(id=number, result={"sessions": [there, here]})
        case "session/new":
            if kind == "locked":
                send(id=number, error={"code": -32000, "message": "who are you"})
                return
            send(id=number, result={"sessionId": "s", "unlisted": True})
            if kind == "early":
                send_text("before;")
        case "session/prompt":
            prompt(kind, number)
        case _ if number is not None:
            send(id=number, result={})
        case _:
            pass


def ask_url(number: Any) -> None:
    """Ask to visit the address of the second argument, and say what came of it."""
    about = {"mode": "url", "message": "Log in", "url": sys.argv[2], "elicitationId": "e", "sessionId": "s"}
    send(id="ask", method="elicitation/create", params=about)
    answered = json.loads(sys.stdin.readline())
    error = answered.get("error")
    send_text(f"refused with {error['code']}: {error['message']}" if error else f"answered {answered['result']}")
    send(id=number, result={"stopReason": "end_turn"})


def prompt(kind: str, number: Any) -> None:
    if kind == "asks-url":
        ask_url(number)
        return
    if kind == "stuck":
        send_text("I never end\n")
        return
    if kind == "env":
        send_text(os.environ.get("GREETING", "nothing"))
    if kind == "early":
        send_text("during;")
    if kind == "forgetful":
        send_text("this is the older one, here")
    if kind == "echo":
        for text in sys.argv[2:]:
            send_text(text, "user_message_chunk")
        send_text("heard")
    if kind == "ask":
        options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
        asked = {"sessionId": "s", "toolCall": json.loads(Path(sys.argv[2]).read_text()), "options": options}
        send(id="ask", method="session/request_permission", params=asked)
        send_text(f"you chose {json.loads(sys.stdin.readline())['result']['outcome']['optionId']}")
    if kind == "error":
        send(id=number, error=json.loads(sys.argv[2]))
        return
    if kind == "broken":
        send(id=number, result={"stopReason": 7})
        return
    send(id=number, result={"stopReason": "end_turn"})


def main() -> None:
    kind = sys.argv[1]
    if kind == "deaf":
        for path in sys.argv[2:]:
            Path(path).write_text("here")
        sys.stdin.read()
        return
    for line in sys.stdin:
        answer(kind, json.loads(line))


if __name__ == "__main__":
    main()
