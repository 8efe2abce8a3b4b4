"""Rules about the turns of version 1: their ends, cancellation, and what follows."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from duologue.schema.v1.stable import STABLE
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import text
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import OPENING, RequestKey, WireState, answered_key

STOP_REASONS = STABLE.values["StopReason"]
_OUTPUT = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"})
"""Updates that belong to a turn."""


class _Turn(Struct):
    """A turn that runs, or the last one of its session."""

    prompt: int
    cancelled: int | None = None
    ended: int | None = None
    messages: set[str] = set()
    is_reported: bool = False


class TurnEnds(ProtocolRule):
    """A turn ends with a stop reason, and its updates precede that."""

    numbers = (75, 76, 77, 78)

    def __init__(self) -> None:
        super().__init__()
        self._turns: Remembered[str, _Turn] = Remembered()
        self._withdrawn: Remembered[RequestKey, int] = Remembered()
        """Prompts that were cancelled with `$/cancel_request`."""

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report wrong ends of turns, and what follows them."""
        if frame.version != 1:
            return
        if frame.kind == "notification":
            yield from self._notification(frame, wire)
        elif frame.kind == "request" and frame.method in OPENING:
            self._turns.pop(frame.session, None)  # what follows is a replay
        elif frame.method == "session/prompt":
            if frame.kind == "request":
                if frame.session not in wire.prompts:
                    self._turns[frame.session] = _Turn(frame.number, messages=set())
            elif (request := wire.request_of(frame)) is not None:
                turn = self._turns.get(request.session)
                yield from self._response(frame, wire, turn if turn and turn.prompt == request.number else None)

    def _notification(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        turn = self._turns.get(frame.session)
        if frame.method == "$/cancel_request" and isinstance(wire.body.get("requestId"), int | str):
            self._withdrawn[frame.dir, wire.body["requestId"]] = frame.number
        elif turn is None:
            return
        elif frame.method == "session/cancel" and turn.ended is None:
            turn.cancelled = frame.number
        elif frame.update in _OUTPUT:
            message_id = text(wire.update, "messageId")
            if turn.ended is None:
                if message_id and len(turn.messages) < MAX_MESSAGES:
                    turn.messages.add(message_id)
            elif not turn.is_reported and (turn.cancelled is not None or message_id in turn.messages):
                turn.is_reported = True
                rule = 76 if turn.cancelled is None else 78
                message = f"{frame.update} after the response to the prompt"
                yield Violation(rule, message, (frame.number, turn.ended), "$.params.update")

    def _response(self, frame: TracedFrame, wire: WireState, turn: _Turn | None) -> Iterator[Violation]:
        if frame.kind == "response":
            self.observe("agent", 75, 76)
            if (reason := text(wire.body, "stopReason")) not in STOP_REASONS:
                message = f"the stop reason is {reason[:200]!r}, not one of {', '.join(sorted(STOP_REASONS))}"
                yield Violation(75, message, (frame.number,), "$.result.stopReason")
        if turn is None:
            return
        turn.ended = frame.number
        if turn.cancelled is not None:
            self.observe("agent", 77, 78)
            is_withdrawn = wire.error_code == -32800 and answered_key(frame) in self._withdrawn
            if frame.kind == "error" and not is_withdrawn:
                message = "the prompt of a cancelled turn is answered with an error"
                yield Violation(77, message, (frame.number, turn.cancelled), "$.error")


class PermissionsCancelled(ProtocolRule):
    """Open permission requests of a cancelled turn are answered as cancelled."""

    numbers = (79,)
    methods = frozenset({"session/cancel", "session/request_permission"})

    def __init__(self) -> None:
        super().__init__()
        self._asked: Remembered[str, set[RequestKey]] = Remembered()
        self._cancelled: Remembered[RequestKey, int] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report an option that is chosen after the turn was cancelled."""
        if frame.version != 1:
            return
        if frame.kind == "notification" and frame.method == "session/cancel":
            for key in self._asked.pop(frame.session, ()):
                if key in wire.requests:
                    self._cancelled[key] = frame.number
        elif frame.kind == "request" and frame.method == "session/request_permission":
            asked = self._asked.setdefault(frame.session, set())
            if len(asked) < MAX_QUESTIONS:
                asked.add((frame.dir, frame.id))
        elif frame.kind in ("response", "error") and frame.method == "session/request_permission":
            self._asked.get(frame.session, set()).discard(answered_key(frame))
            cancelled = self._cancelled.pop(answered_key(frame), None)
            if cancelled is not None:
                self.observe("client", 79)
                outcome = text(wire.body, "outcome", "outcome")
                if frame.kind == "response" and outcome != "cancelled":
                    message = f"the outcome is {outcome!r} after session/cancel"
                    yield Violation(79, message, (frame.number, cancelled), "$.result.outcome.outcome")


MAX_QUESTIONS = 1000
"""Open permission requests of a session that are remembered."""
MAX_MESSAGES = 1000
"""Messages of a turn whose ids are remembered."""

RULES: tuple[type[ProtocolRule], ...] = (TurnEnds, PermissionsCancelled)
