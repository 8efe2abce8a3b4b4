"""Drive an agent with raw messages in one version of the protocol: initialize, sessions, turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

import duologue
from duologue.conformance.case import CaseSkipped, NotProvoked
from duologue.conformance.client_services import ClientServices
from duologue.conformance.raw_peer import Json, PeerFailed, RawPeer, ReceivedMessage, is_same, objects

AUTH_REQUIRED = -32000
OF_SESSION = ("available_commands_update", "config_option_update", "current_mode_update", "session_info_update")
"""Updates that tell the state of a session; an agent may send them when a session is new, without any turn."""
CLIENT_INFO = {"name": "duologue-check", "title": "duologue check", "version": duologue.__version__}
V1_CAPABILITIES: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
    "elicitation": {"form": {}, "url": {}},
}
V2_CAPABILITIES: Json = {"elicitation": {"form": {}, "url": {}}}


class DrivenAgent:
    """An agent at the other end of a connection.

    Args:
        peer: The connection, entered.
        version: Version of the protocol to request.
        services: What answers the agent's requests.
        cwd: Directory of sessions.

    Attributes:
        initialized: The response to `initialize`.
        login_method: Login method to use if the agent wants a login; none if empty.
    """

    def __init__(self, peer: RawPeer, version: int, services: ClientServices, cwd: Path) -> None:
        self.peer = peer
        self.version = version
        self.services = services
        self.cwd = cwd
        self.initialized: ReceivedMessage | None = None
        self.login_method = ""
        services.attach(peer)

    @property
    def result(self) -> Json:
        """The agent's result of `initialize`."""
        return self.initialized.result if self.initialized is not None else {}

    def has(self, *path: str) -> bool:
        """Return True if the agent advertises a capability: a true value or an object at this path."""
        value: Any = self.result.get("agentCapabilities" if self.version == 1 else "capabilities")
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return value is True or isinstance(value, Mapping)

    def require(self, *path: str) -> None:
        """Skip the case if the agent does not advertise a capability.

        Raises:
            CaseSkipped: It does not.
        """
        if not self.has(*path):
            raise CaseSkipped(f"the agent does not advertise {'.'.join(path)}")

    def initialize_params(self, capabilities: Json | None = None, version: int | None = None) -> Json:
        """Return the parameters of `initialize`."""
        number = self.version if version is None else version
        if self.version == 1:
            offered = V1_CAPABILITIES if capabilities is None else capabilities
            return {"protocolVersion": number, "clientCapabilities": offered, "clientInfo": CLIENT_INFO}
        offered = V2_CAPABILITIES if capabilities is None else capabilities
        return {"protocolVersion": number, "info": CLIENT_INFO, "capabilities": offered}

    async def initialize(self, capabilities: Json | None = None) -> ReceivedMessage:
        """Send `initialize` and return its response.

        Raises:
            PeerFailed: It failed.
        """
        response = await self.peer.request("initialize", self.initialize_params(capabilities))
        if response.error:
            raise PeerFailed(f"initialize failed: {response.error}")
        if response.result.get("protocolVersion") != self.version:
            raise CaseSkipped(f"the agent does not support version {self.version} of the protocol")
        self.initialized = response
        return response

    def session_params(self, **others: Any) -> Json:
        """Return the parameters of `session/new`."""
        return {"cwd": str(self.cwd), "mcpServers": [], **others}

    async def new_session(self, **others: Any) -> str:
        """Open a session and return its id.

        Raises:
            CaseSkipped: The agent wants a login first.
            PeerFailed: It failed.
        """
        response = await self.open_session(**others)
        session = response.result.get("sessionId")
        if not isinstance(session, str):
            raise PeerFailed(f"session/new returned no session id: {response.message}")
        return session

    async def open_session(self, **others: Any) -> ReceivedMessage:
        """Send `session/new`, after a login if the agent wants one and the profile has one, and return the response.

        Raises:
            CaseSkipped: The agent wants a login first.
            PeerFailed: There is no response.
        """
        response = await self.peer.request("session/new", self.session_params(**others))
        if response.code != AUTH_REQUIRED:
            return response
        if not self.auth_methods:
            raise PeerFailed("session/new wants a login (-32000), and initialize offered no login methods")
        if not self.login_method:
            raise CaseSkipped("the agent requires a login before it opens a session; name one in a profile: login")
        await self.log_in(self.login_method)
        return await self.peer.request("session/new", self.session_params(**others))

    async def log_in(self, method: str) -> ReceivedMessage:
        """Log in with a method and return the response."""
        return await self.peer.request("authenticate" if self.version == 1 else "auth/login", {"methodId": method})

    @property
    def auth_methods(self) -> list[Json]:
        """The login methods that the agent advertises."""
        return objects(self.result.get("authMethods"))

    def has_session_method(self, name: str) -> bool:
        """Return True if the agent advertises `session/<name>`."""
        if self.version == 1:
            return self.has("loadSession") if name == "load" else self.has("sessionCapabilities", name)
        if name in ("list", "resume", "close"):
            return self.has("session")
        return name != "load" and self.has("session", name)

    def require_session_method(self, *names: str) -> None:
        """Skip the case if the agent does not advertise these methods.

        Raises:
            CaseSkipped: It does not.
        """
        for name in names:
            if not self.has_session_method(name):
                raise CaseSkipped(f"the agent does not advertise session/{name}")

    def start_prompt(self, session: str, *blocks: str | Json) -> DrivenTurn:
        """Send a prompt without waiting for the end of its turn."""
        content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]
        position = len(self.peer.received)
        id_ = self.peer.start_request("session/prompt", {"sessionId": session, "prompt": content})
        return DrivenTurn(self, session, id_, position)

    async def prompt(self, session: str, *blocks: str | Json) -> TurnEnd:
        """Send a prompt and wait for the end of its turn.

        Raises:
            PeerFailed: It does not end in time.
        """
        return await self.start_prompt(session, *blocks).end()

    def cancel(self, session: str) -> int:
        """Send `session/cancel`; return the number of the message."""
        return self.peer.notify("session/cancel", {"sessionId": session})


class TurnEnd(Struct, frozen=True):
    """How a turn ended.

    Attributes:
        response: The response to the prompt.
        last: The message that ended the turn: the response in version 1, the idle state in version 2.
        stop_reason: Its stop reason; empty if there is none.
        updates: The session updates of the turn, in order.
    """

    response: ReceivedMessage
    last: ReceivedMessage
    stop_reason: str
    updates: tuple[ReceivedMessage, ...]

    @property
    def text(self) -> str:
        """The text of the agent's messages."""
        return text_of(self.updates)

    def of_kind(self, *kinds: str) -> list[ReceivedMessage]:
        """Return the updates of these kinds."""
        return [each for each in self.updates if each.update_kind in kinds]


class DrivenTurn:
    """A turn that runs.

    Args:
        agent: The agent.
        session: Id of the session.
        id: Id of the prompt request.
        position: Number of messages that were received before the prompt was sent.
    """

    def __init__(self, agent: DrivenAgent, session: str, id: int, position: int) -> None:
        self.session = session
        self.id = id
        self.position = position
        self._agent = agent

    async def update(self, *kinds: str) -> ReceivedMessage:
        """Wait for the first session update of these kinds, or of any kind, in this turn.

        Raises:
            PeerFailed: There is none in time.
        """
        return await self._agent.peer.wait_for(
            lambda each: self.is_own(each) and (not kinds or each.update_kind in kinds),
            f"session/prompt ({' or '.join(kinds) or 'an update'} was expected)",
            self.position,
        )

    async def started(self) -> None:
        """Wait until the agent works on the prompt: it has sent an update or a request, or a response.

        Raises:
            NotProvoked: There is no sign of it in time, or the response is an error.
        """
        try:
            sign = await self._agent.peer.wait_for(
                lambda each: self._is_work(each) or each.is_request or self._is_response(each),
                "session/prompt (an update was expected)",
                self.position,
            )
        except PeerFailed as error:
            raise NotProvoked(f"the agent does not show that it works on the prompt: {error}") from error
        if sign.error:
            raise NotProvoked(f"the agent answered the prompt with an error: {sign.error}")

    async def request(self, method: str) -> ReceivedMessage:
        """Wait for a request of the agent in this turn.

        Raises:
            NotProvoked: There is none in time, or the turn ends without it.
        """
        try:
            found = await self._agent.peer.wait_for(
                lambda each: (each.is_request and each.method == method) or self._is_end(each),
                f"session/prompt ({method} was expected)",
                self.position,
            )
        except PeerFailed as error:
            raise NotProvoked(f"the agent did not send {method}: {error}") from error
        if found.method != method:
            raise NotProvoked(f"the agent did not send {method} in its turn")
        return found

    async def response(self) -> ReceivedMessage:
        """Wait for the response to the prompt.

        Raises:
            PeerFailed: There is none in time.
        """
        return await self._agent.peer.response(self.id, "session/prompt")

    async def end(self) -> TurnEnd:
        """Wait for the end of the turn.

        Raises:
            PeerFailed: It does not end in time.
        """
        response = last = await self.response()
        if self._agent.version == 2 and not response.error:
            waited_for = "session/prompt (the state idle was expected)"
            last = await self._agent.peer.wait_for(self.is_idle, waited_for, self.position)
        received = self._agent.peer.received
        until = received.index(last)
        updates = tuple(each for each in received[self.position : until] if self.is_own(each))
        reason = last.result.get("stopReason") if self._agent.version == 1 else last.update.get("stopReason")
        return TurnEnd(response, last, reason if isinstance(reason, str) else "", updates)

    @property
    def has_ended(self) -> bool:
        """True if the end of the turn was received."""
        return any(map(self._is_end, self._agent.peer.received[self.position :]))

    def is_own(self, message: ReceivedMessage) -> bool:
        """Return True if a message is an update of the session."""
        return message.method == "session/update" and message.params.get("sessionId") == self.session

    def _is_work(self, message: ReceivedMessage) -> bool:
        is_state = message.update_kind in OF_SESSION or message.update.get("state") == "idle"
        return self.is_own(message) and not is_state

    def _is_response(self, message: ReceivedMessage) -> bool:
        return message.is_response and is_same(message.message["id"], self.id)

    def _is_end(self, message: ReceivedMessage) -> bool:
        if self._agent.version == 1 or message.error:
            return self._is_response(message)
        return self.is_idle(message)

    def is_idle(self, message: ReceivedMessage) -> bool:
        """Return True if a message reports that the turn's work has ended, not that the session was idle before it."""
        if not self.is_own(message) or message.update.get("state") != "idle":
            return False
        received = self._agent.peer.received
        earlier = received[self.position : received.index(message)]
        has_run = any(self.is_own(each) and each.update.get("state") == "running" for each in earlier)
        return has_run or "stopReason" in message.update


def text_of(updates: Iterable[ReceivedMessage]) -> str:
    """Return the text of the agent's messages in session updates; a whole message replaces the chunks of its id."""
    texts: dict[str, str] = {}
    for each in updates:
        id_, content = str(each.update.get("messageId")), each.update.get("content")
        if each.update_kind == "agent_message_chunk":
            texts[id_] = texts.get(id_, "") + _text(objects([content]))
        elif each.update_kind == "agent_message" and "content" in each.update:
            texts[id_] = _text(objects(content))
    return "".join(texts.values())


def _text(blocks: list[Json]) -> str:
    return "".join(str(each.get("text", "")) for each in blocks)
