"""An MCP server in a page of standard Python that misbehaves on demand: `small.py BEHAVIOUR…`.

It starts in a fraction of the time the SDK needs, and does what the SDK would never do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

BEHAVIOURS = set(sys.argv[1:])


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


TOOLS = ["echo", "die", "environment", "huge", "nameless", "odd", "family", "rename", "refuse", "wait", "flood", "ask"]


def note_start(mark: str) -> None:
    """Report to the test that a start begins or has ended."""
    if path := os.environ.get("STARTS"):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, mark.encode())
        os.close(fd)


class Server:
    def __init__(self) -> None:
        self.description = "repeats its input"
        self.is_silent = "mute" in BEHAVIOURS

    def listing(self, params: dict[str, Any]) -> dict[str, Any]:
        tools = [tool(name, self.description) for name in TOOLS]
        if "endless" in BEHAVIOURS:
            return {"tools": [], "nextCursor": "again"}
        if "paged" not in BEHAVIOURS:
            return {"tools": tools}
        at = int(params.get("cursor", "0"))
        page: dict[str, Any] = {"tools": tools[at : at + 3]}
        if at + 3 < len(tools):
            page["nextCursor"] = str(at + 3)
        return page

    def call(self, id: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        text = ""
        match name:
            case "echo":
                text = json.dumps(arguments)
            case "environment":
                text = json.dumps({**os.environ, "PID": str(os.getpid())})
            case "die":
                sys.stderr.write("last line\n")
                sys.stderr.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            case "huge":
                text = "x" * arguments["size"]
            case "nameless":
                sys.stdout.write('{"result":{"content":[{"type":"text","text":"' + "x" * arguments["size"])
                sys.stdout.write('"}]},"jsonrpc":"2.0","id":' + str(id) + "}\n")
                sys.stdout.flush()
                return None
            case "flood":
                for _ in range(arguments["size"] // 1024):
                    sys.stderr.write("e" * 1023 + "\n")
                    sys.stdout.write("o" * 1023 + "\n")
            case "odd":
                return {"content": [{"type": "hologram", "data": 7}, {"type": "text", "text": "t", "new": [1]}], "x": 1}
            case "family":
                text = str(self.start_family())
            case "rename":
                self.description = "does something else now"
                self.is_silent = arguments.get("and", "") == "hush"
                write({"method": "notifications/tools/list_changed"})
            case "wait":
                return None
            case "ask":
                write({"id": f"about {id}", "method": "elicitation/create", "params": arguments})
                return None
            case _:
                raise LookupError(name)
        return {"content": [{"type": "text", "text": text}]}

    def answered(self, answer: dict[str, Any]) -> None:
        """Handle the answer to an elicitation: report it and finish the call."""
        write({"method": "notifications/elicitation/complete", "params": {"elicitationId": "bill"}})
        text = json.dumps(answer.get("result", answer.get("error")))
        if answer["id"] == "out of the blue":
            sys.stderr.write(f"I received {text}\n")
            os._exit(1)
        number = int(str(answer["id"]).removeprefix("about "))
        write({"id": number, "result": {"content": [{"type": "text", "text": text}]}})

    def start_family(self) -> int:
        """Start a child that leaves the process group, ignores SIGTERM and outlives our stdin."""
        code = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
        assert child.stdout is not None
        child.stdout.readline()
        return child.pid

    def answer(self, request: dict[str, Any]) -> None:
        params = request.get("params", {})
        match request["method"]:
            case "initialize":
                result: dict[str, Any] | None = {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "small", "version": "1"},
                }
            case "tools/list" if self.is_silent:
                write({"id": request["id"], "error": {"code": -32000, "message": "I do not tell"}})
                return
            case "tools/list" if "no-tools" not in BEHAVIOURS:
                note_start("-")
                result = self.listing(params)
                if "curious" in BEHAVIOURS:
                    asked: dict[str, Any] = {
                        "message": "Well?",
                        "requestedSchema": {"type": "object", "properties": {}},
                    }
                    write({"id": "out of the blue", "method": "elicitation/create", "params": asked})
            case "tools/call" if params["name"] != "refuse":
                result = self.call(request["id"], params["name"], params.get("arguments", {}))
            case _:
                write({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
                return
        if result is not None:
            write({"id": request["id"], "result": result})


def main() -> None:
    note_start("+")
    if "exit" in BEHAVIOURS:
        sys.exit("I do not want to")
    if "hang" in BEHAVIOURS:
        sys.stderr.write("Ok to proceed? (y)\n")
        sys.stderr.flush()
        sys.stdin.read()
        sys.exit()
    if "stubborn" in BEHAVIOURS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "noise" in BEHAVIOURS:
        sys.stdout.write("Welcome to small!\n\x1b[31mred\x1b[0m\n\n[1, 2]\n{not json}\n")
    server = Server()
    for line in sys.stdin:
        request = json.loads(line)
        if "method" not in request:
            server.answered(request)
        elif "id" in request:
            server.answer(request)
    if "stubborn" in BEHAVIOURS:
        signal.pause()


if __name__ == "__main__":
    main()
