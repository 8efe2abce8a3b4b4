"""A recorded conversation for tests, made step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Raw

from duologue.recording.format import Entry, FrameDirection, encode_line

HEADER = '{"duologue":"recording","version":2,"started":"2026-11-15T12:00:00.000+00:00"}\n'
OPTIONS = [
    {"optionId": "a", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "r", "name": "Reject", "kind": "reject_once"},
]
CAPABILITIES = {1: ("clientCapabilities", "agentCapabilities"), 2: ("capabilities", "capabilities")}
CLIENT: dict[int, dict[str, Any]] = {
    1: {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
        "auth": {"terminal": True},
        "elicitation": {"form": {}, "url": {}},
        "plan": {},
        "subagents": {},
    },
    2: {"auth": {"terminal": {}}, "elicitation": {"form": {}, "url": {}}},
}
"""Everything that a client can advertise."""
AGENT: dict[int, dict[str, Any]] = {
    1: {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": True},
        "sessionCapabilities": {
            "list": {}, "delete": {}, "additionalDirectories": {}, "resume": {}, "close": {}, "fork": {}, "archive": {},
        },
        "auth": {"logout": {}, "status": {}},
    },
    2: {
        "session": {
            "delete": {}, "additionalDirectories": {}, "prompt": {"image": {}}, "mcp": {"stdio": {}, "http": {}},
        },
        "auth": {"status": {}},
    },
}  # fmt: skip
"""Everything that an agent can advertise, as far as tests need it."""


def handshake(version: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the params and the result of `initialize`."""
    client, agent = {"name": "zed", "version": "0.2"}, {"name": "gem", "version": "0.8"}
    names = ("clientInfo", "agentInfo") if version == 1 else ("info", "info")
    offered, agreed = CAPABILITIES[version]
    return (
        {"protocolVersion": version, names[0]: client, offered: CLIENT[version]},
        {"protocolVersion": version, names[1]: agent, agreed: AGENT[version]},
    )


class RecordedRun:
    """Entries of a recording, each a tenth of a second after the one before.

    Args:
        session: Id of the session.
    """

    def __init__(self, session: str = "s1") -> None:
        self.entries: list[Entry] = []
        self.session = session
        self._id = 0

    @property
    def _t(self) -> float:
        return round(len(self.entries) / 10, 1)

    def frame(self, direction: FrameDirection, **message: Any) -> RecordedRun:
        raw = Raw(json.dumps({"jsonrpc": "2.0", **message}).encode())
        self.entries.append(Entry(t=self._t, dir=direction, frame=raw))
        return self

    def raw(self, direction: FrameDirection, frame: bytes) -> RecordedRun:
        self.entries.append(Entry(t=self._t, dir=direction, frame=Raw(frame)))
        return self

    def other(self, **fields: Any) -> RecordedRun:
        self.entries.append(Entry(t=self._t, **fields))
        return self

    def request(self, direction: FrameDirection, method: str, params: Any, result: Any) -> RecordedRun:
        self._id += 1
        self.frame(direction, id=self._id, method=method, params=params)
        back: FrameDirection = "to_client" if direction == "to_agent" else "to_agent"
        is_error = isinstance(result, dict) and "code" in result
        return self.frame(back, id=self._id, **{"error" if is_error else "result": result})

    def opened(
        self,
        version: int = 1,
        *,
        client: dict[str, Any] | None = None,
        agent: dict[str, Any] | None = None,
        auth: list[dict[str, Any]] | None = None,
    ) -> RecordedRun:
        """Add the handshake and a session; both sides advertise everything unless these capabilities are given."""
        self.initialized(version, client=client, agent=agent, auth=auth)
        return self.request(
            "to_agent", "session/new", {"cwd": "/project", "mcpServers": []}, {"sessionId": self.session}
        )

    def initialized(
        self,
        version: int = 1,
        *,
        client: dict[str, Any] | None = None,
        agent: dict[str, Any] | None = None,
        auth: list[dict[str, Any]] | None = None,
    ) -> RecordedRun:
        """Add the handshake."""
        offer, result = handshake(version)
        if client is not None:
            offer[CAPABILITIES[version][0]] = client
        if agent is not None:
            result[CAPABILITIES[version][1]] = agent
        if auth is not None:
            result["authMethods"] = auth
        return self.request("to_agent", "initialize", offer, result)

    def prompt(self, text: str) -> RecordedRun:
        self._id += 1
        self._prompt_id = self._id
        content = [{"type": "text", "text": text}]
        return self.frame(
            "to_agent", id=self._id, method="session/prompt", params={"sessionId": self.session, "prompt": content}
        )

    def stop(self, reason: str = "end_turn") -> RecordedRun:
        return self.frame("to_client", id=self._prompt_id, result={"stopReason": reason})

    def update(self, tag: str, /, **members: Any) -> RecordedRun:
        params = {"sessionId": self.session, "update": {"sessionUpdate": tag, **members}}
        return self.frame("to_client", method="session/update", params=params)

    def text(self, *chunks: str, kind: str = "agent_message_chunk") -> RecordedRun:
        for chunk in chunks:
            self.update(kind, content={"type": "text", "text": chunk})
        return self

    def permission(self, tool_call_id: str, chosen: str = "a") -> RecordedRun:
        return self.request(
            "to_client", "session/request_permission",
            {"sessionId": self.session, "toolCall": {"toolCallId": tool_call_id}, "options": OPTIONS},
            {"outcome": {"outcome": "selected", "optionId": chosen}},
        )  # fmt: skip

    def save(self, path: Path) -> Path:
        path.write_bytes(HEADER.encode() + b"".join(encode_line(entry) + b"\n" for entry in self.entries))
        return path


def whole_run(session: str = "s1") -> RecordedRun:
    """Return a conversation with everything that usually happens."""
    run = RecordedRun(session).opened().prompt("Fix the test")
    run.text("I should ", "look first", kind="agent_thought_chunk")
    run.update("plan", entries=[{"content": "Read", "priority": "high", "status": "pending"}])
    run.update("tool_call", toolCallId="c1", title="Read a.py", kind="read", status="in_progress")
    run.other(stderr="WARN slow\n").other(stderr="WARN disk\n")
    run.request(
        "to_client", "fs/read_text_file", {"sessionId": session, "path": "/project/a.py"}, {"content": "import b\n"}
    )
    result = {"type": "content", "content": {"type": "text", "text": "import b"}}
    run.update("tool_call_update", toolCallId="c1", status="completed", content=[result])
    diff = {"type": "diff", "path": "/project/a.py", "oldText": "import b\n", "newText": "import c\n"}
    run.update("tool_call", toolCallId="c2", title="Edit a.py", kind="edit", status="pending", content=[diff])
    run.permission("c2").update("tool_call_update", toolCallId="c2", status="completed")
    return run.text("I have ", "fixed it.").stop()
