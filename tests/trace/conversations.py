"""Recordings for tests, written message by message."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from duologue.recording.format import Entry, FrameDirection

SESSION = "sess_recorded_1"


class Conversation:
    """Builds the entries of a recording; each message comes a tenth of a second after the one before."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, direction: FrameDirection, message: dict[str, Any]) -> Conversation:
        frame = Raw(msgspec.json.encode({"jsonrpc": "2.0", **message}))
        self.entries.append(Entry(t=round(len(self.entries) / 10, 3), dir=direction, frame=frame))
        return self

    def ask(self, method: str, request_id: int, result: Any = None, **params: Any) -> Conversation:
        """Add a request of the client, and its result if there is one."""
        self.add("to_agent", {"id": request_id, "method": method, "params": params})
        return self if result is None else self.respond(request_id, result)

    def respond(self, request_id: int, result: Any) -> Conversation:
        return self.add("to_client", {"id": request_id, "result": result})

    def fail(self, request_id: int, code: int, message: str = "no") -> Conversation:
        return self.add("to_client", {"id": request_id, "error": {"code": code, "message": message}})

    def notify(self, method: str, **params: Any) -> Conversation:
        """Add a notification of the client."""
        return self.add("to_agent", {"method": method, "params": params})

    def update(self, update: str, /, session: str = SESSION, **members: Any) -> Conversation:
        params = {"sessionId": session, "update": {"sessionUpdate": update, **members}}
        return self.add("to_client", {"method": "session/update", "params": params})

    def say(self, text: str) -> Conversation:
        return self.update("agent_message_chunk", content={"type": "text", "text": text})

    def tool(self, call: str, kind: str, status: str = "completed") -> Conversation:
        self.update("tool_call", toolCallId=call, title=f"Do {call}", kind=kind, status="pending")
        return self.update("tool_call_update", toolCallId=call, status=status)

    def request(self, method: str, request_id: int, result: Any = None, **params: Any) -> Conversation:
        """Add a request of the agent, and the client's result if there is one."""
        self.add("to_client", {"id": request_id, "method": method, "params": {"sessionId": SESSION, **params}})
        return self if result is None else self.add("to_agent", {"id": request_id, "result": result})

    def open(self, version: int = 1, cwd: str = "/recorded/dir") -> Conversation:
        """Add the beginning of each conversation: `initialize` and `session/new`."""
        self.ask("initialize", 1, {"protocolVersion": version}, protocolVersion=version)
        return self.ask("session/new", 2, {"sessionId": SESSION}, cwd=cwd, mcpServers=[])

    def prompt(self, text: str, request_id: int) -> Conversation:
        return self.ask("session/prompt", request_id, sessionId=SESSION, prompt=[{"type": "text", "text": text}])


def tour() -> Conversation:
    """Return a turn with a text, a tool call, a permission, a file and a terminal."""
    made = Conversation().open().prompt("tour", 3).say("Hel").say("lo").tool("call_recorded_1", "edit")
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "call_recorded_1"}
    made.request(
        "session/request_permission",
        1,
        {"outcome": {"outcome": "selected", "optionId": "yes"}},
        toolCall=call,
        options=options,
    )
    made.request("fs/read_text_file", 2, {"content": "text"}, path="/recorded/dir/a.txt")
    made.request("terminal/create", 3, {"terminalId": "t1"}, command="ls")
    made.request("terminal/release", 4, {}, terminalId="t1")
    return made.respond(3, {"stopReason": "end_turn"})
