"""Rules about requests and their responses."""

from __future__ import annotations

from collections.abc import Iterator

from duologue.trace.frames import TracedFrame
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Side, Violation, sender
from duologue.trace.wire_state import RequestKey, WireState, answered_key


class ResponseHasRequest(ProtocolRule):
    """A response answers a request, once."""

    numbers = (7, 164)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a response whose id no request had, or that is the second one."""
        if frame.kind not in ("response", "error"):
            return
        self.observe(sender(frame), 7, 164)
        key = answered_key(frame)
        if key in wire.requests:
            return
        if (first := wire.answered.get(key)) is not None:
            message = f"the request with the id {frame.id!r} has a response already"
            yield Violation(164, message, (frame.number, first), "$.id")
        elif not wire.is_partial and not (frame.kind == "error" and frame.id is None):
            # An error without an id answers a request that had no readable id.
            yield Violation(7, f"no request had the id {frame.id!r}", (frame.number,), "$.id")


class UniqueIds(ProtocolRule):
    """Open requests have different ids."""

    numbers = (165,)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a request with the id of an open one."""
        if frame.kind != "request":
            return
        self.observe(sender(frame), 165)
        if (first := wire.requests.get((frame.dir, frame.id))) is not None:
            message = f"{frame.method} has the id {frame.id!r} of {first.method}, which is not answered yet"
            yield Violation(165, message, (frame.number, first.number), "$.id")


class RequestsAnswered(ProtocolRule):
    """No request stays open."""

    numbers = (166,)
    is_general = True

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Note that a side has something to answer."""
        if frame.kind == "request":
            self.observe("agent" if frame.dir == "to_agent" else "client", 166)
        return iter(())

    def finish(self, wire: WireState) -> Iterator[Violation]:
        """Report each request that is open."""
        for (receiver, id_), request in wire.requests.items():
            message = f"{request.method} with the id {id_!r} was never answered"
            yield Violation(166, message, (request.number,), side="agent" if receiver == "to_agent" else "client")


class CancelledAnswered(ProtocolRule):
    """A request that was cancelled is answered all the same."""

    numbers = (84,)

    def __init__(self) -> None:
        super().__init__()
        self._cancelled: Remembered[RequestKey, int] = Remembered()
        self._latest_answered = {"to_agent": 0, "to_client": 0}
        """The latest request to each side that it answered."""

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Note cancellations and answers."""
        if frame.kind == "notification" and frame.method == "$/cancel_request":
            id_ = wire.body.get("requestId")
            if isinstance(id_, int | str) and (frame.dir, id_) in wire.requests:
                self._cancelled[frame.dir, id_] = frame.number
                self.observe("agent" if frame.dir == "to_agent" else "client", 84)
        elif frame.kind in ("response", "error") and (request := wire.request_of(frame)) is not None:
            receiver, _ = answered_key(frame)
            self._cancelled.pop(answered_key(frame), None)
            self._latest_answered[receiver] = max(self._latest_answered[receiver], request.number)
        return iter(())

    def finish(self, wire: WireState) -> Iterator[Violation]:
        """Report cancelled requests whose receiver has answered a later one, so that it had the time."""
        for (receiver, id_), cancelled in self._cancelled.items():
            request = wire.requests.get((receiver, id_))
            if request is not None and cancelled < self._latest_answered[receiver]:
                message = f"{request.method} with the id {id_!r} was cancelled and never answered"
                side: Side = "agent" if receiver == "to_agent" else "client"
                yield Violation(84, message, (request.number, cancelled), side=side)


RULES: tuple[type[ProtocolRule], ...] = (ResponseHasRequest, UniqueIds, RequestsAnswered, CancelledAnswered)
