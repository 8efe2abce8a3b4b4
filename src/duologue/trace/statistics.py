"""Figures of a recording: frames, latencies of each method, rate of updates, waits and silences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from duologue.trace.frames import TracedFrame

MAX_LATENCIES = 100_000
"""Latencies of a method that are remembered for its percentiles; of more, each second, third, ... one is."""


class MethodFigures(Struct, kw_only=True):
    """Figures of the requests of one method.

    Attributes:
        method: The method.
        count: Number of responses.
        errors: How many of them were errors.
        p50: Half of the responses came within this time, in seconds.
        p99: 99 of 100 came within this time.
        longest: The slowest response.
    """

    method: str
    count: int = 0
    errors: int = 0
    p50: float = 0.0
    p99: float = 0.0
    longest: float = 0.0


class Statistics(Struct, kw_only=True):
    """Figures of a recording.

    Attributes:
        seconds: Time from the first to the last entry.
        frames: Number of frames by kind.
        bytes: Length of all frames.
        problems: Frames that do not match the schema.
        missing: Frames that are missing from the recording.
        unanswered: Requests without a response.
        first_update: Seconds from the first prompt to the first update after it.
        updates_per_second: Highest number of updates within one second.
        permission_wait: Seconds until permission requests were answered, together.
        longest_silence: Longest time without a frame while a prompt was running, in seconds.
        methods: Figures of each method, the most frequent first.
    """

    seconds: float = 0.0
    frames: dict[str, int] = field(default_factory=dict[str, int])
    bytes: int = 0
    problems: int = 0
    missing: int = 0
    unanswered: int = 0
    first_update: float | None = None
    updates_per_second: int = 0
    permission_wait: float = 0.0
    longest_silence: float = 0.0
    methods: list[MethodFigures] = field(default_factory=list[MethodFigures])


class StatisticsCounter:
    """Counts the frames of a recording one by one."""

    def __init__(self) -> None:
        self._result = Statistics()
        self._kinds: Counter[str] = Counter()
        self._latencies: dict[str, _Latencies] = {}
        self._seconds: Counter[int] = Counter()
        self._prompts = 0
        self._first_prompt: float | None = None
        self._last: float | None = None
        self._began: float | None = None

    def add(self, frame: TracedFrame) -> None:
        """Count one frame."""
        result = self._result
        if frame.kind == "gap":
            result.missing += frame.entry.gap
            return
        self._kinds[frame.kind] += 1
        result.bytes += frame.size
        result.problems += bool(frame.problems)
        if self._began is None:
            self._began = frame.t
        if self._last is not None and self._prompts:
            result.longest_silence = max(result.longest_silence, round(frame.t - self._last, 6))
        self._last = frame.t
        self._count_update(frame)
        self._count_call(frame)

    def _count_update(self, frame: TracedFrame) -> None:
        if frame.method != "session/update":
            return
        self._seconds[int(frame.t)] += 1
        if len(self._seconds) > 2:
            del self._seconds[min(self._seconds)]
        self._result.updates_per_second = max(self._result.updates_per_second, self._seconds[int(frame.t)])
        if self._first_prompt is not None and self._result.first_update is None:
            self._result.first_update = round(frame.t - self._first_prompt, 6)

    def _count_call(self, frame: TracedFrame) -> None:
        if frame.kind == "request" and frame.method == "session/prompt":
            self._prompts += 1
            if self._first_prompt is None:
                self._first_prompt = frame.t
        if frame.latency is None:
            return
        self._latencies.setdefault(frame.method, _Latencies()).add(frame.latency, is_error=frame.kind == "error")
        if frame.method == "session/prompt":
            self._prompts -= 1
        if frame.method == "session/request_permission":
            self._result.permission_wait = round(self._result.permission_wait + frame.latency, 6)

    def result(self, unanswered: int = 0) -> Statistics:
        """Return the figures of all frames so far."""
        result = self._result
        result.frames = dict(self._kinds)
        result.unanswered = unanswered
        result.seconds = 0.0 if self._began is None or self._last is None else round(self._last - self._began, 6)
        figures = [latencies.figures(method) for method, latencies in self._latencies.items()]
        result.methods = sorted(figures, key=lambda each: (-each.count, each.method))
        return result


def count(frames: Iterable[TracedFrame]) -> Statistics:
    """Return the figures of these frames."""
    counter = StatisticsCounter()
    for frame in frames:
        counter.add(frame)
    return counter.result()


class _Latencies:
    """The latencies of one method, thinned out so that memory is bounded."""

    def __init__(self) -> None:
        self._count = self._errors = 0
        self._step = 1
        self._values: list[float] = []
        self._longest = 0.0

    def add(self, seconds: float, *, is_error: bool) -> None:
        self._count += 1
        self._errors += is_error
        self._longest = max(self._longest, seconds)
        if self._count % self._step == 0:
            self._values.append(seconds)
        if len(self._values) == MAX_LATENCIES:
            self._values = self._values[1::2]
            self._step *= 2

    def figures(self, method: str) -> MethodFigures:
        ordered = sorted(self._values)
        return MethodFigures(
            method=method,
            count=self._count,
            errors=self._errors,
            p50=_percentile(ordered, 0.5),
            p99=_percentile(ordered, 0.99),
            longest=self._longest,
        )


def _percentile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0
