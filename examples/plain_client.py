"""A client without any library, as it could be written in any language: `plain_client.py PROMPT COMMAND...`.

It prints the agent's text. Its exit code is 0 if the turn ended well and the agent exited with 0.
"""

import json
import subprocess
import sys
from pathlib import Path

agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert agent.stdin
assert agent.stdout


def send(**message: object) -> None:
    assert agent.stdin
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    agent.stdin.flush()


def request(number: int, method: str, **params: object) -> dict[str, object]:
    """Send a request, handle what comes before its response, and return its result."""
    assert agent.stdout
    send(id=number, method=method, params=params)
    for line in agent.stdout:
        try:
            message = json.loads(line)
        except ValueError:
            continue  # some agents print other things
        if message.get("method") == "session/update":
            update = message["params"]["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                print(update["content"]["text"], end="")
        elif message.get("method") == "session/request_permission":
            kinds = {option["kind"]: option["optionId"] for option in message["params"]["options"]}
            outcome = {"outcome": "selected", "optionId": kinds["allow_once"]}
            send(id=message["id"], result={"outcome": outcome})
        elif "method" in message and "id" in message:
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})
        elif "method" not in message and message.get("id") == number:
            if "error" in message:
                sys.exit(f"{method}: {message['error']['message']}")
            result: dict[str, object] = message["result"]
            return result
    sys.exit(f"the agent disconnected before it answered {method}")


request(0, "initialize", protocolVersion=1, clientCapabilities={})
session = request(1, "session/new", cwd=str(Path.cwd()), mcpServers=[])
turn = request(2, "session/prompt", sessionId=session["sessionId"], prompt=[{"type": "text", "text": sys.argv[1]}])
agent.stdin.close()
sys.exit(agent.wait() or turn["stopReason"] != "end_turn")
