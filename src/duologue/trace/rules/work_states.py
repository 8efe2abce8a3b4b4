"""Rules about the work of version 2: states, messages of prompts, cancellation, background work."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from duologue.schema.lenient_errors import is_array
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import text
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import OpenRequest, RequestKey, WireState, answered_key

_OUTPUT = frozenset(
    {"agent_message", "agent_message_chunk", "agent_thought", "agent_thought_chunk", "tool_call_update",
     "tool_call_content_chunk", "plan_update"}
)  # fmt: skip
"""Updates that report work."""
_FROM_USER = ("user_message", "user_message_chunk")
MAX_IDS = 1000
"""Messages and permission requests of a session that are remembered."""


class _Session(Struct):
    """State of a session.

    Attributes:
        started: Number of the update that reported work since the session was idle; 0: none did.
        inserted: Ids of prompts' messages without an update so far, and the number of the response.
        sent: Ids of messages of the user without a response so far.
        prompted: Number of the response to a prompt since the session was idle.
        output: Number of the first update with output since then.
        cancelled: Number of `session/cancel` since the work started.
        closing: Number of `session/close` while work runs.
        has_background: A state update had a list of background work.
        is_background_busy: The last one was not empty.
        asked: Permission requests that are open, and whether they were withdrawn.
    """

    started: int = 0
    inserted: dict[str, int] = {}
    sent: set[str] = set()
    prompted: int = 0
    output: int = 0
    cancelled: int = 0
    closing: int = 0
    has_background: bool = False
    is_background_busy: bool = False
    asked: dict[RequestKey, bool] = {}


class WorkStates(ProtocolRule):
    """States of a session frame the work in it."""

    numbers = (141, 142, 143, 144, 150, 179)
    methods = frozenset(
        {"session/update", "session/prompt", "session/cancel", "session/close", "session/request_permission",
         "$/cancel_request"}
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._sessions: Remembered[str, _Session] = Remembered()
        self._questions: Remembered[RequestKey, str] = Remembered()
        """Sessions of open permission requests."""

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report work without states, and states that do not fit."""
        if frame.version == 1:
            return
        if frame.method == "$/cancel_request":
            id_ = wire.body.get("requestId")
            if isinstance(id_, int | str) and (asking := self._questions.get((frame.dir, id_))) is not None:
                self._session(asking).asked[frame.dir, id_] = True
            return
        session = self._session(frame.session)
        if frame.kind == "notification" and frame.update:
            yield from self._update(frame, wire, session)
        elif frame.kind == "notification" and session.started:
            session.cancelled = frame.number
        elif frame.kind == "request":
            self._request(frame, session)
        elif (request := wire.request_of(frame)) is not None:
            yield from self._response(frame, wire, session, request)

    def _session(self, name: str) -> _Session:
        if name not in self._sessions:
            self._sessions[name] = _Session()
        return self._sessions[name]

    def _request(self, frame: TracedFrame, session: _Session) -> None:
        if frame.method == "session/close" and session.started:
            session.closing = frame.number
        elif frame.method == "session/request_permission" and len(session.asked) < MAX_IDS:
            session.asked[frame.dir, frame.id] = False
            self._questions[frame.dir, frame.id] = frame.session

    def _response(
        self, frame: TracedFrame, wire: WireState, session: _Session, request: OpenRequest
    ) -> Iterator[Violation]:
        if frame.method == "session/request_permission":
            session.asked.pop(answered_key(frame), None)
            self._questions.pop(answered_key(frame), None)
        elif frame.method == "session/close":
            if session.closing:
                self.observe("agent", 144)
                if session.started and frame.kind == "response":
                    message = "session/close is answered while work runs: no `idle` came before"
                    yield Violation(144, message, (frame.number, request.number), "$.result")
            session.closing = 0
        elif frame.method == "session/prompt" and frame.kind == "response":
            self.observe("agent", 141)
            message_id = text(wire.body, "messageId")
            if not message_id:
                yield Violation(141, "a prompt is answered without `messageId`", (frame.number,), "$.result.messageId")
            elif message_id in session.sent:
                session.sent.discard(message_id)
            elif len(session.inserted) < MAX_IDS:
                session.inserted[message_id] = frame.number
            session.prompted = session.prompted or frame.number

    def _update(self, frame: TracedFrame, wire: WireState, session: _Session) -> Iterator[Violation]:
        if frame.update in _FROM_USER and (message_id := text(wire.update, "messageId")):
            if session.inserted.pop(message_id, None) is None and len(session.sent) < MAX_IDS:
                session.sent.add(message_id)
        elif frame.update in _OUTPUT and session.prompted:
            session.output = session.output or frame.number
        elif frame.update == "state_update":
            yield from self._background(frame, wire, session)
            if text(wire.update, "state") == "idle":
                yield from self._idle(frame, wire, session)
            elif not session.started:
                session.started = frame.number

    def _background(self, frame: TracedFrame, wire: WireState, session: _Session) -> Iterator[Violation]:
        listed = wire.update.get("background")
        if is_array(listed):
            session.has_background, session.is_background_busy = True, bool(listed)
        elif session.has_background:
            message = "a state update without `background`, which earlier ones had"
            yield Violation(150, message, (frame.number,), "$.params.update.background")
        if session.has_background:
            self.observe("agent", 150)

    def _idle(self, frame: TracedFrame, wire: WireState, session: _Session) -> Iterator[Violation]:
        for message_id, inserted in session.inserted.items():
            message = f"no update has the message {message_id[:200]!r} of the prompt"
            yield Violation(141, message, (frame.number, inserted), "$.params.update.state")
        if session.prompted:
            self.observe("agent", 142)
            if session.output and not session.started:
                message = "`idle` after work that no `running` announced"
                yield Violation(142, message, (frame.number, session.output), "$.params.update.state")
        if session.cancelled:
            self.observe("agent", 143)
            if text(wire.update, "stopReason") == "error":
                message = "the stop reason is 'error' after session/cancel"
                yield Violation(143, message, (frame.number, session.cancelled), "$.params.update.stopReason")
            yield from self._withdrawals(frame, wire, session)
        session.inserted.clear()
        session.sent.clear()
        session.started = session.prompted = session.output = session.cancelled = 0

    def _withdrawals(self, frame: TracedFrame, wire: WireState, session: _Session) -> Iterator[Violation]:
        if not session.asked or session.is_background_busy:
            return
        self.observe("agent", 179)
        for key, is_withdrawn in session.asked.items():
            request = wire.requests.get(key)
            if request is not None and not is_withdrawn and request.number < session.cancelled:
                message = "`idle` while a permission request of the cancelled work is open"
                yield Violation(179, message, (frame.number, request.number), "$.params.update.state")


RULES: tuple[type[ProtocolRule], ...] = (WorkStates,)
