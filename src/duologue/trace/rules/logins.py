"""Rules about authentication."""

from __future__ import annotations

from collections.abc import Iterator

from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import objects, text
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import WireState

_LOGIN = ("authenticate", "auth/login")
_LOGOUT = ("logout", "auth/logout")


class Logins(ProtocolRule):
    """Logins use methods that the agent handles."""

    numbers = (37, 139)
    methods = frozenset({*_LOGIN, *_LOGOUT})

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a terminal method in a request, and methods that do not exist."""
        if wire.initialized is None:
            return
        methods = {text(each, "methodId") or text(each, "id"): each for _, each in objects(wire.agreed, "authMethods")}
        if frame.kind == "request" and frame.method in _LOGIN:
            self.observe("client", 37)
            chosen = methods.get(text(wire.body, "methodId"))
            if chosen is not None and text(chosen, "type") == "terminal":
                message = f"{frame.method} with a method of the type 'terminal'"
                yield Violation(37, message, (frame.number, wire.initialized), "$.params.methodId")
        if frame.version == 1:
            return
        if frame.kind == "request":
            self.observe("client", 139)
            if not methods:
                message = f"{frame.method} although the agent has no `authMethods`"
                yield Violation(139, message, (frame.number, wire.initialized), "$.method")
        elif methods:
            self.observe("agent", 139)
            if wire.error_code == -32601:
                message = f"{frame.method} is answered as an unknown method, and there are `authMethods`"
                yield Violation(139, message, (frame.number, wire.initialized), "$.error.code")


class LoggedIn(ProtocolRule):
    """A login that succeeded lets requests in; the state can be asked at any time."""

    numbers = (41, 189)

    def __init__(self) -> None:
        super().__init__()
        self._login: int | None = None

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report -32000 after a login, or for the question whether one is needed."""
        if frame.kind not in ("response", "error") or frame.dir != "to_client":
            return
        is_refused = frame.kind == "error" and wire.error_code == -32000
        if frame.method in _LOGIN:
            self._login = frame.number if frame.kind == "response" else None
        elif frame.method in _LOGOUT:
            self._login = None
        elif frame.method == "auth/status":
            self.observe("agent", 189)
            if is_refused:
                yield Violation(189, "auth/status is refused without a login", (frame.number,), "$.error.code")
        elif self._login is not None and frame.method:
            self.observe("agent", 41)
            if is_refused:
                message = f"{frame.method} is refused without a login, and there was one"
                yield Violation(41, message, (frame.number, self._login), "$.error.code")


RULES: tuple[type[ProtocolRule], ...] = (Logins, LoggedIn)
