"""Rules about the order of messages: the handshake, sessions, prompts and permissions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import number, objects, text
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Violation, sender
from duologue.trace.wire_state import CLOSING, OPENING, WireState

_ANY_TIME = ("initialize", "$/cancel_request", "proxy/initialize")
_BEFORE_SESSIONS = (*OPENING, *CLOSING, "session/list", "session/archive", "session/unarchive", "session/set_title",
                    "session/status")  # fmt: skip
"""Requests about sessions that need not be open."""


class InitializeFirst(ProtocolRule):
    """The handshake comes first."""

    numbers = (23,)

    def __init__(self) -> None:
        super().__init__()
        self._is_reported = False

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report the first message before the response to `initialize`."""
        if frame.kind not in ("request", "notification") or wire.is_partial:
            return
        self.observe(sender(frame), 23)
        is_early = wire.initialized is None and frame.method not in _ANY_TIME and not frame.method.startswith("_")
        if is_early and not self._is_reported:
            self._is_reported = True
            yield Violation(23, f"{frame.method} before the response to initialize", (frame.number,), "$.method")


class InitializeOnce(ProtocolRule):
    """The handshake happens once."""

    numbers = (167,)
    methods = frozenset({"initialize"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a second `initialize`."""
        if frame.kind == "request":
            self.observe("client", 167)
            offered, agreed = number(wire.offer, "protocolVersion"), number(wire.agreed, "protocolVersion")
            # A client whose agent is older starts it again, and offers that version.
            is_older = agreed is not None and agreed != offered and agreed == number(wire.body, "protocolVersion")
            if wire.initialize is not None and not is_older:
                yield Violation(167, "initialize was sent before", (frame.number, wire.initialize), "$.method")


class KnownSession(ProtocolRule):
    """A session is opened before it is used."""

    numbers = (74, 169)
    is_general = True

    def __init__(self) -> None:
        super().__init__()
        self._reported: Remembered[str, bool] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report the first message about each session that is not open, and each request after it was closed."""
        if frame.kind not in ("request", "notification") or not frame.session or frame.method in _BEFORE_SESSIONS:
            return
        rule = 74 if frame.method == "session/prompt" else 169
        self.observe(sender(frame), rule)
        if frame.method.startswith("_") or frame.session in wire.sessions:
            return
        closed = wire.closed.get(frame.session)
        if closed is not None:
            if frame.kind == "request":
                message = f"{frame.method} for session {frame.session!r}, which was closed"
                yield Violation(169, message, (frame.number, closed), "$.params.sessionId")
        elif not wire.is_partial and not wire.is_opening and frame.session not in self._reported:
            self._reported[frame.session] = True
            message = f"{frame.method} for session {frame.session!r}, which was never opened"
            yield Violation(rule, message, (frame.number,), "$.params.sessionId")


class UpdateAfterSession(ProtocolRule):
    """A session exists before it is updated."""

    numbers = (170,)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a message about a session whose response is still missing."""
        if frame.kind == "response" and frame.method in ("session/new", "session/fork"):
            self.observe("agent", 170)
        if frame.kind in ("request", "notification") and frame.dir == "to_client" and frame.session:
            is_new = frame.session not in wire.sessions and frame.session not in wire.closed
            if is_new and wire.is_opening and not wire.is_partial and not frame.method.startswith("_"):
                name = frame.update or frame.method
                message = f"{name} for session {frame.session!r} before the response that opens it"
                yield Violation(170, message, (frame.number,), "$.params.sessionId")


class UniqueSessions(ProtocolRule):
    """Each new session has an id of its own."""

    numbers = (47,)
    methods = frozenset({"session/new", "session/fork"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report an id that another session has."""
        if frame.kind == "response" and (session := text(wire.body, "sessionId")):
            self.observe("agent", 47)
            first = wire.sessions.get(session) or wire.closed.get(session)
            if first is not None:
                yield Violation(47, f"session {session!r} exists", (frame.number, first), "$.result.sessionId")


class OnePrompt(ProtocolRule):
    """A session has one turn at a time."""

    numbers = (171,)
    methods = frozenset({"session/prompt"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a prompt in a session whose prompt runs."""
        if frame.kind == "request" and frame.version == 1:
            self.observe("client", 171)
            if (first := wire.prompts.get(frame.session)) is not None:
                yield Violation(171, "session/prompt while one runs", (frame.number, first), "$.params.sessionId")


class OfferedOption(ProtocolRule):
    """A permission request offers different options, and its answer chooses one of them."""

    numbers = (98, 186)
    methods = frozenset({"session/request_permission"})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a chosen option that was not offered, and options with the same id."""
        if frame.kind == "request" and frame.version != 1:
            self.observe("agent", 186)
            ids = Counter(text(option, "optionId") for _, option in objects(wire.body, "options"))
            if (twice := next((id_ for id_, count in ids.items() if count > 1), None)) is not None:
                yield Violation(186, f"two options have the id {twice!r}", (frame.number,), "$.params.options")
        request, chosen = wire.request_of(frame), text(wire.body, "outcome", "optionId")
        if frame.kind == "response" and request is not None and chosen:
            self.observe("client", 98)
            if chosen not in request.options:
                message = f"option {chosen!r} was not offered"
                yield Violation(98, message, (frame.number, request.number), "$.result.outcome.optionId")


RULES: tuple[type[ProtocolRule], ...] = (
    InitializeFirst, InitializeOnce, KnownSession, UpdateAfterSession, UniqueSessions, OnePrompt, OfferedOption,
)  # fmt: skip
