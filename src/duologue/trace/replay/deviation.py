"""Deviations of an agent from a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from duologue.trace.frames import TracedFrame
from duologue.trace.identity import IdNumbers, map_strings
from duologue.trace.replay.difference import CHANGING, Difference, differences, shown, without_texts
from duologue.trace.replay.events import AgentTurn, turns_of
from duologue.trace.replay.script import SESSION_UPDATES, ReplayScript, members, message_of

Comparison: TypeAlias = Literal["structure", "text"]
"""Extent of a comparison: kinds of updates, order of tool calls and requests, results and errors; or texts as well."""

DeviationKind: TypeAlias = Literal["end", "result", "error", "update", "act", "schema", "text"]

MAX_ALIGNED = 2000
"""Acts of a turn that are aligned; longer turns are compared one by one, in order."""
MAX_DEVIATIONS = 1000
"""Deviations that are reported."""


class Deviation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that an agent does differently from the recording.

    Attributes:
        kind: What deviates.
        method: Request of the client during which it happened; empty if none.
        frame: Number of the recorded frame that was expected; 0 if nothing was expected.
        path: JSON path of a value that differs.
        expected: What the recording has; empty if nothing.
        received: What the agent did; empty if nothing.
    """

    kind: DeviationKind
    method: str = ""
    frame: int = 0
    path: str = ""
    expected: str = ""
    received: str = ""

    def __str__(self) -> str:
        """Return it as lines: what was expected, and what was received."""
        where = f"{self.method or 'start'}{f', frame {self.frame}' if self.frame else ''}"
        path = f" at {self.path}" if self.path else ""
        lines = [f"{where}: {TITLES[self.kind]}{path}"]
        lines += [f"  - {line}" for line in self.expected.splitlines()]
        lines += [f"  + {line}" for line in self.received.splitlines()]
        return "\n".join(lines)


TITLES: dict[DeviationKind, str] = {
    "end": "the run ended before the recording",
    "result": "different result",
    "error": "different error",
    "update": "different kinds of updates",
    "act": "different actions",
    "schema": "does not match the schema",
    "text": "different text",
}


def compare(
    recorded: ReplayScript,
    live: ReplayScript,
    *,
    level: Comparison = "structure",
    ignored: Sequence[str] = (),
    directories: tuple[str, str] = ("", ""),
) -> list[Deviation]:
    """Return where an agent deviates from a recording, in order.

    Args:
        recorded: The recording.
        live: What the agent did when it received the same messages.
        level: What is compared.
        ignored: Members and paths of results that are not compared, in addition to those that always change.
        directories: Working directory in the recording, and that of this run; they mean the same.
    """
    comparer = _Comparer(level, (*CHANGING, *ignored), directories)
    found: list[Deviation] = []
    turns = list(zip(turns_of(recorded), turns_of(live), strict=False))
    moved = _moved_updates(turns)
    for number, (one, two) in enumerate(turns):
        found += comparer.compare(one, two, moved.get(number, set()))
        if len(found) > MAX_DEVIATIONS:
            return found[:MAX_DEVIATIONS]
    if live.broken > recorded.broken:
        received = f"{live.broken - recorded.broken:,} frames that are not messages"
        found.append(Deviation(kind="schema", received=received))
    return found


class _Comparer:
    def __init__(self, level: Comparison, ignored: Sequence[str], directories: tuple[str, str]) -> None:
        self._has_texts = level == "text"
        self._ignored = ignored
        self._directories = sorted(filter(None, directories), key=len, reverse=True)
        self._recorded, self._live = IdNumbers(), IdNumbers()

    def compare(self, one: AgentTurn, two: AgentTurn, moved: set[str]) -> Iterator[Deviation]:
        method = "" if one.request is None else one.request.method
        if one.request is not None:
            self._recorded.number(message_of(one.request))
            self._live.number(message_of(two.request) if two.request is not None else {})
        yield from (each for each in self._kinds(method, one, two) if (each.expected or each.received) not in moved)
        yield from self._acts(method, one, two)
        yield from self._schema(method, one, two)
        if self._has_texts:
            yield from self._texts(method, one, two)
        yield from self._response(method, one, two)

    def _kinds(self, method: str, one: AgentTurn, two: AgentTurn) -> Iterator[Deviation]:
        expected, received = one.kinds, two.kinds
        for kind, frame in expected.items():
            if kind not in received:
                yield Deviation(kind="update", method=method, frame=frame.number, expected=kind)
        for kind in received:
            if kind not in expected:
                yield Deviation(kind="update", method=method, received=kind)

    def _acts(self, method: str, one: AgentTurn, two: AgentTurn) -> Iterator[Deviation]:
        expected, received = one.acts(), two.acts()
        labels = [act.label for act in expected], [act.label for act in received]
        for start, end, other, last in _changed(*labels):
            frame = expected[start].frame.number if start < end else 0
            yield Deviation(
                kind="act",
                method=method,
                frame=frame,
                expected="\n".join(labels[0][start:end]),
                received="\n".join(labels[1][other:last]),
            )
        if self._has_texts and labels[0] == labels[1]:
            for act, its_pair in zip(expected, received, strict=True):
                if act.frame.kind == "request":
                    yield from self._params(method, act.frame, its_pair.frame)

    def _params(self, method: str, one: TracedFrame, two: TracedFrame) -> Iterator[Deviation]:
        for each in self._differences(message_of(one).get("params"), message_of(two).get("params"), "$.params"):
            yield _of_difference("text", method, one, each)

    def _schema(self, method: str, one: AgentTurn, two: AgentTurn) -> Iterator[Deviation]:
        known = {(each.path, each.message) for frame in _all(one) for each in frame.problems}
        for frame in _all(two):
            for each in frame.problems:
                if not each.is_tolerated and (each.path, each.message) not in known:
                    known.add((each.path, each.message))
                    what = frame.update or frame.method
                    yield Deviation(kind="schema", method=method, path=each.path, received=f"{what}: {each.message}")

    def _texts(self, method: str, one: AgentTurn, two: AgentTurn) -> Iterator[Deviation]:
        expected, received = one.texts(), two.texts()
        for kind in expected.keys() & received.keys():
            one_text, two_text = self._relocate("", expected[kind]), self._relocate("", received[kind])
            if one_text != two_text:
                before, after = _first_difference(one_text, two_text)
                yield Deviation(kind="text", method=method, path=kind, expected=before, received=after)

    def _response(self, method: str, one: AgentTurn, two: AgentTurn) -> Iterator[Deviation]:
        if one.response is None or two.response is None:
            return
        expected, received = message_of(one.response), message_of(two.response)
        if "error" in expected or "error" in received:
            before, after = expected.get("error"), received.get("error")
            if _code(before) != _code(after) or (self._has_texts and before != after):
                yield Deviation(
                    kind="error",
                    method=method,
                    frame=one.response.number,
                    expected="a result" if before is None else shown(before),
                    received="a result" if after is None else shown(after),
                )
            return
        for each in self._differences(expected["result"], received["result"], "$.result"):
            yield _of_difference("result", method, one.response, each)

    def _differences(self, expected: Any, received: Any, path: str) -> Iterator[Difference]:
        one = self._recorded.number(map_strings(expected, self._relocate))
        two = self._live.number(map_strings(received, self._relocate))
        if not self._has_texts:
            one, two = without_texts(one), without_texts(two)
        return differences(one, two, self._ignored, path)

    def _relocate(self, name: str, text: str) -> str:
        """Return a text with one name for the working directories of the recording and of this run."""
        for directory in self._directories:
            text = text.replace(directory, "$CWD")
        return text


def _moved_updates(turns: Sequence[tuple[AgentTurn, AgentTurn]]) -> dict[int, set[str]]:
    """Return the updates of sessions that came a request earlier or later than recorded, by the number of the turn."""
    kinds = [(set(one.kinds), set(two.kinds)) for one, two in turns]
    moved: dict[int, set[str]] = {}
    for number, (expected, received) in enumerate(kinds):
        for kind in SESSION_UPDATES:
            for other in (number - 1, number + 1) if kind in expected and kind not in received else ():
                if 0 <= other < len(kinds) and kind in kinds[other][1] and kind not in kinds[other][0]:
                    moved.setdefault(number, set()).add(kind)
                    moved.setdefault(other, set()).add(kind)
    return moved


def _code(error: Any) -> Any:
    return None if error is None else members(error).get("code", "no code")


def _of_difference(kind: DeviationKind, method: str, frame: TracedFrame, found: Difference) -> Deviation:
    return Deviation(
        kind=kind, method=method, frame=frame.number, path=found.path, expected=found.expected, received=found.received
    )


def _all(turn: AgentTurn) -> list[TracedFrame]:
    return turn.frames if turn.response is None else [*turn.frames, turn.response]


def _changed(one: list[str], two: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the parts of two lists that differ: start and end in the first, and in the second."""
    if max(len(one), len(two)) > MAX_ALIGNED:
        for index, (each, other) in enumerate(zip_longest(one, two)):
            if each != other:
                yield min(index, len(one)), min(index + 1, len(one)), min(index, len(two)), min(index + 1, len(two))
        return
    for change, start, end, other, last in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if change != "equal":
            yield start, end, other, last


def _first_difference(one: str, two: str) -> tuple[str, str]:
    """Return the first line that differs, of both texts."""
    for each, other in zip_longest(one.splitlines(), two.splitlines(), fillvalue=""):
        if each != other:
            return shown(each), shown(other)
    return shown(one[-20:]), shown(two[-20:])
