"""An agent without duologue that writes each method it receives to the file `log`: `counting_agent.py DIRECTORY`."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def say(session: str, text: str) -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send({"method": "session/update", "params": {"sessionId": session, "update": chunk}})


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    session = f"s{os.getpid()}"
    match method:
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}
        case "session/new":
            say(session, "before ")
            return {"sessionId": session}
        case "session/prompt":
            text = params["prompt"][0]["text"]
            if text == "die":
                os.kill(os.getpid(), 9)
            if text == "wait":
                time.sleep(600)
            say(session, f"{os.environ.get('MARK')}")
            return {"stopReason": "end_turn"}
        case _:
            return {}


def main() -> None:
    with open(os.path.join(sys.argv[1], "log"), "a", buffering=1) as log:
        log.write(f"start {os.getpid()}\n")
        is_known = False
        for line in sys.stdin:
            message = json.loads(line)
            log.write(f"{message['method']} {os.getpid()}\n")
            if "id" in message:
                if message["method"] == "session/new" and os.environ.get("LOGIN") and not is_known:
                    send({"id": message["id"], "error": {"code": -32000, "message": "Authentication required"}})
                    continue
                is_known = is_known or message["method"] == "authenticate"
                send({"id": message["id"], "result": answer(message["method"], message["params"])})
                if message["method"] == "session/new":
                    say(f"s{os.getpid()}", "after ")
        log.write(f"end {os.getpid()}\n")


if __name__ == "__main__":
    main()
