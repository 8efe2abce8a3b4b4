"""The client's side of a recording as a plan: what the client sends, and after what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from duologue.trace.frames import TracedFrame
from duologue.trace.replay.script import SESSION_UPDATES, ReplayScript, is_idle


class PlannedCall(Struct, kw_only=True):
    """A message of the client and what precedes it.

    Attributes:
        frame: The message; None for the end of the recording.
        responses: Number of responses of the agent that precede it.
        idles: Number of turns of version 2 that end before it.
        events: What the agent sends between the previous message of the client and this one, by kind.
        pause: Seconds from the last message that it must follow.
    """

    frame: TracedFrame | None
    responses: int
    idles: int
    events: Counter[str]
    pause: float


class EventCounter:
    """Counts what an agent sends by kind; chunks of one text are one event."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._last = ""

    def add(self, kind: str) -> None:
        """Count an update, another notification or a request by its kind."""
        if kind != self._last or not kind.endswith("_chunk"):
            self.counts[kind] += 1
        self._last = kind

    def reset(self) -> Counter[str]:
        """Return the counts and begin anew."""
        counts, self.counts, self._last = self.counts, Counter(), ""
        return counts

    def forget(self, expected: Counter[str]) -> None:
        """Begin anew, but count updates of a session that came before they were expected."""
        early = self.reset() - expected
        self.counts.update({kind: early[kind] for kind in SESSION_UPDATES})


def plan_of(script: ReplayScript) -> tuple[list[PlannedCall], list[int]]:
    """Return what the client sends and the end, and the numbers of its requests in the order of their responses."""
    return _Planner().plan(script.frames)


class _Planner:
    def __init__(self) -> None:
        self._calls: list[PlannedCall] = []
        self._responses: list[int] = []
        self._events = EventCounter()
        self._idles = 0
        self._since = 0.0

    def plan(self, frames: Iterable[TracedFrame]) -> tuple[list[PlannedCall], list[int]]:
        last = 0.0
        for frame in frames:
            last = max(last, frame.t)
            if frame.dir == "to_client":
                self._add_event(frame)
            elif frame.answers is None:
                self._add_call(frame, frame.t)
        self._add_call(None, last)
        return self._calls, self._responses

    def _add_call(self, frame: TracedFrame | None, t: float) -> None:
        self._calls.append(
            PlannedCall(
                frame=frame,
                responses=len(self._responses),
                idles=self._idles,
                events=self._events.reset(),
                pause=max(0.0, t - self._since),
            )
        )
        self._since = t

    def _add_event(self, frame: TracedFrame) -> None:
        if frame.answers is not None:
            self._responses.append(frame.answers)
            self._since = frame.t
            return
        self._events.add(frame.update or frame.method)
        if is_idle(frame):
            self._idles += 1
            self._since = frame.t
