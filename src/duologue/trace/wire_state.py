"""The state of a connection as its messages tell it: open requests, sessions, prompts, tool calls and terminals."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from duologue.protocol.shared.capabilities import is_advertised
from duologue.protocol.values import AGENT_CAPABILITIES, CLIENT_CAPABILITIES
from duologue.schema.base import JsonObject
from duologue.schema.lenient_errors import is_object
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import member, number, objects, text
from duologue.trace.remembered import Remembered

RequestKey: TypeAlias = tuple[str, int | str | None]
"""Receiver and id of a request."""
OPENING = ("session/new", "session/load", "session/resume", "session/fork")
"""Requests that open a session."""
CLOSING = ("session/close", "session/delete")
"""Requests that end a session."""
MAX_PARAMS_SIZE = 16_384
"""Bytes of a request whose parameters are remembered until its response; rules need those of small ones."""
MAX_PARAMS_TOTAL = 16 * 1024 * 1024
"""Bytes of all requests whose parameters are remembered."""

_PARTS = {"request": "params", "notification": "params", "response": "result", "error": "error"}
_AGENT_CAPABILITIES = {row.name: row for row in AGENT_CAPABILITIES}
_CLIENT_CAPABILITIES = {row.name: row for row in CLIENT_CAPABILITIES}


class OpenRequest(Struct, kw_only=True):
    """A request without a response so far.

    Attributes:
        number: Number of its message.
        t: When it was sent, in seconds since the start of the recording.
        method: Its method.
        session: Session that it is about.
        options: Options that a permission request offers, and the kind of each.
        tool: Tool call that a permission is asked for.
        size: Bytes of the parameters that are remembered.
        params: Its parameters; None if they are not remembered.
    """

    number: int
    t: float
    method: str
    session: str = ""
    options: dict[str, str] = {}
    tool: str = ""
    size: int = 0
    params: JsonObject | None = None


class WireState:
    """Follows the messages of one connection, in bounded memory.

    Attributes:
        message: The current message; empty if it is not JSON.
        body: Its `params`, `result` or `error`.
        update: The session update in it.
        requests: Requests without a response.
        answered: Requests with a response, and the number of that.
        sessions: Sessions that are open, and the number of the message that opened each.
        closed: Sessions that were closed or deleted.
        prompts: Number of the prompt that runs in each session.
        tools: Tool calls by session and id.
        terminals: Terminals by session and id; False after their release.
        loads: How often each session was loaded or resumed; what was sent before may be replayed after that.
        initialize: Number of the request `initialize`.
        initialized: Number of its response.
        offer: Parameters of `initialize`.
        agreed: Result of `initialize`.
    """

    def __init__(self) -> None:
        self.message: JsonObject = {}
        self.body: JsonObject = {}
        self.update: JsonObject = {}
        self.requests: Remembered[RequestKey, OpenRequest] = Remembered()
        self.answered: Remembered[RequestKey, int] = Remembered()
        self.sessions: Remembered[str, int] = Remembered()
        self.closed: Remembered[str, int] = Remembered()
        self.prompts: Remembered[str, int] = Remembered()
        self.tools: Remembered[tuple[str, str], int] = Remembered()
        self.terminals: Remembered[tuple[str, str], bool] = Remembered()
        self.loads: Remembered[str, int] = Remembered()
        self.initialize: int | None = None
        self.initialized: int | None = None
        self.offer: JsonObject = {}
        self.agreed: JsonObject = {}
        self._is_partial = False
        self._opening: set[RequestKey] = set()
        """Open requests for a session whose id is not known before their response."""
        self._params_size = 0

    def look(self, frame: TracedFrame) -> None:
        """Decode a message before it is checked."""
        self.message = self.body = self.update = {}
        if frame.kind in _PARTS and isinstance(frame.entry.frame, Raw):
            try:
                self.message = msgspec.json.decode(frame.entry.frame, type=dict[str, Any])
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return
            body = self.message.get(_PARTS[frame.kind])
            self.body = body if is_object(body) else {}
            update = self.body.get("update")
            self.update = update if frame.update and is_object(update) else {}

    def request_of(self, frame: TracedFrame) -> OpenRequest | None:
        """Return the request that a response answers."""
        return self.requests.get(answered_key(frame))

    @property
    def is_partial(self) -> bool:
        """True if messages are missing, or too many to remember, so that what is unknown may have been in them."""
        return self._is_partial

    @property
    def is_opening(self) -> bool:
        """True if a request that opens a session has no response yet."""
        return bool(self._opening)

    @property
    def asked_tool(self) -> str:
        """Tool call that the current message asks a permission for; empty if it is none."""
        return text(self.body, "toolCall", "toolCallId") or text(self.body, "subject", "toolCall", "toolCallId")

    @property
    def error_code(self) -> int | None:
        """Code of the error in the current message."""
        return number(self.message, "error", "code")

    def agent_has(self, capability: str, version: int) -> bool:
        """Return True if the agent advertised a capability (a field of `AgentCapabilities`)."""
        tree = member(self.agreed, "agentCapabilities" if version == 1 else "capabilities")
        cell = _AGENT_CAPABILITIES[capability][version]
        return bool(cell) and is_advertised(tree if is_object(tree) else {}, cell)

    def client_has(self, capability: str, version: int) -> bool:
        """Return True if the client advertised a capability (a field of `ClientCapabilities`)."""
        tree = member(self.offer, "clientCapabilities" if version == 1 else "capabilities")
        cell = _CLIENT_CAPABILITIES[capability][version]
        return bool(cell) and is_advertised(tree if is_object(tree) else {}, cell)

    def apply(self, frame: TracedFrame) -> None:
        """Change the state by a message after it was checked."""
        match frame.kind:
            case "gap":
                self._is_partial = True
                self.requests.clear()
                self.prompts.clear()
                self._opening.clear()
                self._params_size = 0
            case "request":
                self._request(frame)
            case "notification":
                self._notification(frame)
            case "response" | "error":
                self._response(frame)
            case _:
                return
        known = (self.requests, self.sessions, self.closed, self.prompts, self.tools, self.terminals)
        if not self._is_partial and any(entries.is_partial for entries in known):
            self._is_partial = True
        if self._is_partial and len(self._opening) > len(self.requests):
            self._opening.intersection_update(self.requests)

    def _request(self, frame: TracedFrame) -> None:
        key = frame.dir, frame.id
        opened = OpenRequest(number=frame.number, t=frame.t, method=frame.method, session=frame.session)
        if frame.method == "session/request_permission":
            opened.options = {
                text(option, "optionId"): text(option, "kind") for _, option in objects(self.body, "options")
            }
            opened.tool = self.asked_tool
        elif frame.size <= MAX_PARAMS_SIZE and self._params_size + frame.size <= MAX_PARAMS_TOTAL:
            opened.params, opened.size = self.body, frame.size
            self._params_size += frame.size
        self.requests[key] = opened
        self.answered.pop(key, None)
        if frame.method == "initialize":
            self.initialize = frame.number
            self.offer = self.body
        elif frame.method in ("session/new", "session/fork"):
            self._opening.add(key)
        elif frame.method in ("session/load", "session/resume"):
            self.sessions[frame.session] = frame.number  # its updates may precede the response
            self.closed.pop(frame.session, None)
            self.loads[frame.session] = self.loads.get(frame.session, 0) + 1
        elif frame.method == "session/prompt":
            if frame.session not in self.prompts:
                self.prompts[frame.session] = frame.number
        elif frame.method == "session/request_permission" and opened.tool:
            self.tools[frame.session, opened.tool] = frame.number
        elif frame.method == "terminal/release":
            self.terminals[frame.session, text(self.body, "terminalId")] = False

    def _notification(self, frame: TracedFrame) -> None:
        if frame.update == "subagent_update" and (child := text(self.update, "sessionId")):
            self.sessions[child] = frame.number
        if frame.update == "state_update" and text(self.update, "state") == "idle":
            self.prompts.pop(frame.session, None)
        if tool := text(self.update, "toolCallId"):
            self.tools[frame.session, tool] = frame.number

    def _response(self, frame: TracedFrame) -> None:
        key = answered_key(frame)
        request = self.requests.pop(key, None)
        self._opening.discard(key)
        if request is None:
            return
        self._params_size -= request.size
        self.answered[key] = frame.number
        is_error = frame.kind == "error"
        if request.method == "initialize" and not is_error:
            self.initialized = frame.number
            self.agreed = self.body
        elif request.method in OPENING and not is_error:
            opened = text(self.body, "sessionId") or request.session
            self.sessions[opened] = frame.number
            self.closed.pop(opened, None)
        elif request.method in CLOSING and not is_error:
            self.sessions.pop(request.session, None)
            self.closed[request.session] = frame.number
        elif request.method == "session/prompt" and (is_error or frame.version == 1):
            self.prompts.pop(request.session, None)
        elif request.method == "terminal/create" and (terminal := text(self.body, "terminalId")):
            self.terminals[request.session, terminal] = True


def answered_key(frame: TracedFrame) -> RequestKey:
    """Return the key of the request that a response answers."""
    return "to_agent" if frame.dir == "to_client" else "to_client", frame.id
