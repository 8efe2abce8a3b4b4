"""The agent that a client under test sees: answers everything a client needs, and does what a case asks for."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import duologue
from duologue.conformance.raw_peer import Json, PeerFailed, RawPeer, ReceivedMessage

AGENT_INFO = {"name": "duologue-check", "title": "duologue check", "version": duologue.__version__}
V1_CAPABILITIES: Json = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
}
V2_CAPABILITIES: Json = {
    "session": {"delete": {}, "additionalDirectories": {}, "prompt": {"image": {}, "audio": {}, "embeddedContext": {}}}
}
OPENING = ("session/new", "session/load", "session/resume")
"""Methods that open a session."""
LISTED_PAGES = 3


class PlayedAgent:
    """An agent without a model, at the other end of a client's connection.

    Args:
        peer: The connection.
        newest: Newest version of the protocol to accept.
        capabilities: What it advertises; by default everything.

    Attributes:
        version: Version of the protocol that was negotiated; 0 before that.
        initialize: The client's `initialize` request.
        initialized: Set when the version is negotiated.
        opened: The requests that opened sessions, by id of the session.
        result: Members that replace those of the result of `initialize`.
        setup: Members of the results that open sessions.
        prompt_error: The error that answers the next prompts instead of a turn.
    """

    def __init__(self, peer: RawPeer, newest: int, capabilities: Json | None = None) -> None:
        self.peer = peer
        self.version = 0
        self.initialize: ReceivedMessage | None = None
        self.opened: dict[str, ReceivedMessage] = {}
        self.result: Json = {}
        self.setup: Json = {}
        self.prompt_error: Json | None = None
        self._newest = newest
        self._capabilities = capabilities
        self._turns: dict[int, asyncio.Future[Json]] = {}
        self.initialized = asyncio.Event()
        self._inserted: dict[int, asyncio.Event] = {}
        peer.responders |= {
            "initialize": self._initialize,
            "session/new": self._open,
            "session/load": self._reopen,
            "session/resume": self._reopen,
            "session/list": self._list,
            "session/close": self._accept,
            "session/delete": self._accept,
            "session/set_mode": self._accept,
            "session/set_config_option": self._set_option,
            "authenticate": self._accept,
            "auth/login": self._accept,
            "session/prompt": self._hold_prompt,
        }

    def client_has(self, *path: str) -> bool:
        """Return True if the client advertises a capability."""
        params = self.initialize.params if self.initialize is not None else {}
        value: Any = params.get("clientCapabilities" if self.version == 1 else "capabilities")
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return value is True or isinstance(value, dict)

    @property
    def asked_version(self) -> int:
        """The version in the client's `initialize`; 0 if there is none."""
        asked = None if self.initialize is None else self.initialize.params.get("protocolVersion")
        return asked if isinstance(asked, int) else 0

    async def _initialize(self, request: ReceivedMessage) -> Json:
        self.initialize = request
        asked = self.asked_version
        self.version = min(asked, self._newest) if asked >= 1 else self._newest
        self.initialized.set()
        if self.version == 1:
            offered = V1_CAPABILITIES if self._capabilities is None else self._capabilities
            result: Json = {"agentCapabilities": offered, "agentInfo": AGENT_INFO, "authMethods": []}
        else:
            offered = V2_CAPABILITIES if self._capabilities is None else self._capabilities
            result = {"capabilities": offered, "info": AGENT_INFO}
        return {"result": {"protocolVersion": self.version, **result, **self.result}}

    async def _open(self, request: ReceivedMessage) -> Json:
        session = f"session-{len(self.opened) + 1}"
        self.opened[session] = request
        return {"result": {"sessionId": session, **self.setup}}

    async def _reopen(self, request: ReceivedMessage) -> Json:
        session = str(request.params.get("sessionId", ""))
        self.opened[session] = request
        if self.version == 2:
            self.update(session, "state_update", state="idle")
        return {"result": self.setup}

    async def _list(self, request: ReceivedMessage) -> Json:
        """Answer with one of several pages, so that the client needs the cursors."""
        cursor = str(request.params.get("cursor") or "page-1")
        number = int(cursor.removeprefix("page-")) if cursor.removeprefix("page-").isdigit() else LISTED_PAGES
        cwd = str(request.params.get("cwd") or "/")
        page: Json = {"sessions": [{"sessionId": f"listed-{number}", "cwd": cwd, "title": f"session {number}"}]}
        if number < LISTED_PAGES:
            page["nextCursor"] = f"page-{number + 1}"
        return {"result": page}

    async def _set_option(self, _: ReceivedMessage) -> Json:
        return {"result": {"configOptions": []}}

    async def _accept(self, _: ReceivedMessage) -> Json:
        return {"result": {}}

    def cwd(self, session: str) -> str:
        """Return the working directory of a session; empty if the client named none."""
        opened = self.opened.get(session)
        cwd = None if opened is None else opened.params.get("cwd")
        return cwd if isinstance(cwd, str) else ""

    # Turns

    async def _hold_prompt(self, request: ReceivedMessage) -> Json | None:
        if self.prompt_error is not None:
            with contextlib.suppress(PeerFailed):
                self.peer.send({"id": request.message["id"], "error": self.prompt_error})
            self._insertion(request).set()
            return None
        if self.version != 2:
            ended = await self._end_of(request)
            del self._turns[id(request)]
            return ended
        session, message = str(request.params.get("sessionId", "")), f"message-{request.number}"
        with contextlib.suppress(PeerFailed):
            self.peer.send({"id": request.message["id"], "result": {"messageId": message}})
            self.update(session, "user_message", messageId=message, content=request.params.get("prompt") or [])
            self.update(session, "state_update", state="running")
        self._insertion(request).set()
        return None

    async def prompted(self, after: int = 0, seconds: float | None = None) -> ReceivedMessage:
        """Wait for the client's next prompt, and until its turn runs or has failed.

        Raises:
            PeerFailed: There is none in time.
        """
        prompt = await self.peer.wait_for(lambda each: each.method == "session/prompt", "a prompt", after, seconds)
        if self.version == 2 or self.prompt_error is not None:
            await self._insertion(prompt).wait()
        return prompt

    def _insertion(self, prompt: ReceivedMessage) -> asyncio.Event:
        return self._inserted.setdefault(id(prompt), asyncio.Event())

    def update(self, session: str, kind: str, /, **fields: Any) -> int:
        """Send a session update; return the number of the message."""
        return self.peer.notify("session/update", {"sessionId": session, "update": {"sessionUpdate": kind, **fields}})

    def say(self, session: str, text: str, message: str = "answer-1") -> int:
        """Send a chunk of the agent's message."""
        return self.update(session, "agent_message_chunk", content={"type": "text", "text": text}, messageId=message)

    def end_turn(self, prompt: ReceivedMessage, stop_reason: str = "end_turn") -> None:
        """End the turn of a prompt."""
        if self.version == 2:
            self.update(str(prompt.params.get("sessionId", "")), "state_update", state="idle", stopReason=stop_reason)
        else:
            ended = self._end_of(prompt)
            if not ended.done():
                ended.set_result({"result": {"stopReason": stop_reason}})

    def _end_of(self, prompt: ReceivedMessage) -> asyncio.Future[Json]:
        """Return the future of the response to a prompt; the case may ask for it before the responder does."""
        if id(prompt) not in self._turns:
            self._turns[id(prompt)] = asyncio.get_running_loop().create_future()
        return self._turns[id(prompt)]
