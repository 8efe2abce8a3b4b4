"""Compare two runs step by step: which steps are equal, which differ, and which only one of them has."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from duologue.trace.run_steps import RunStep, differences

MAX_EDITS = 2000
"""Steps in which two runs may differ before they are compared one after the other only."""
WINDOW = 50
"""Steps that are searched for a partner when runs are compared one after the other."""


class StepPair(Struct, frozen=True):
    """A step of both runs, or of one of them.

    Attributes:
        kind: `same`, `changed`, `only_a` or `only_b`.
        a: Step of the first run.
        b: Step of the second run.
    """

    kind: Literal["same", "changed", "only_a", "only_b"]
    a: RunStep | None = None
    b: RunStep | None = None


def pair_to_json(pair: StepPair) -> dict[str, Any]:
    """Return a pair as JSON: what kind it is, the numbers of its messages, and the differences or the content."""
    step = pair.a or pair.b
    assert step is not None, "a pair has a step"
    numbers = {name: each.number for name, each in (("a", pair.a), ("b", pair.b)) if each is not None}
    key = step.key._asdict()
    line = {"result": pair.kind, **numbers, **{name: value for name, value in key.items() if value}}
    if pair.kind != "changed" or pair.a is None or pair.b is None:
        return line | {"content": step.content}
    found = differences(pair.a.content, pair.b.content)
    return line | {
        "differences": [
            {"path": path} | {name: value for name, value in (("a", one), ("b", other)) if value is not ...}
            for path, one, other in found
        ]
    }


class Comparison:
    """Aligns the steps of two runs by their meaning.

    Equal steps are found first. Between them, steps of one kind are paired as changed ones.

    Attributes:
        is_approximate: The runs differ so much that they were compared one after the other from some step on.
    """

    def __init__(self) -> None:
        self.is_approximate = False

    def compare(self, a: Sequence[RunStep], b: Sequence[RunStep]) -> Iterator[StepPair]:
        """Yield the steps of both runs in order."""
        values_a, values_b = ([_value(step) for step in steps] for steps in (a, b))
        at_a = at_b = 0
        for first, second in [*self._matches(values_a, values_b), (len(a), len(b))]:
            yield from self._between(a[at_a:first], b[at_b:second])
            if first < len(a):
                yield StepPair("same", a[first], b[second])
            at_a, at_b = first + 1, second + 1

    def _between(self, a: Sequence[RunStep], b: Sequence[RunStep]) -> Iterator[StepPair]:
        """Yield the steps between two equal ones: pairs of one kind, and steps of one run only."""
        at_a = at_b = 0
        for first, second in [*self._matches([step.key for step in a], [step.key for step in b]), (len(a), len(b))]:
            yield from (StepPair("only_a", a=step) for step in a[at_a:first])
            yield from (StepPair("only_b", b=step) for step in b[at_b:second])
            if first < len(a):
                yield StepPair("changed", a[first], b[second])
            at_a, at_b = first + 1, second + 1

    def _matches(self, a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
        """Return the positions of a longest common subsequence."""
        start = _common(a, b)
        end = _common(a[start:][::-1], b[start:][::-1])
        middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
        middle = _longest(middle_a, middle_b)
        if middle is None:
            self.is_approximate = True
            middle = _in_order(middle_a, middle_b)
        return [
            *((index, index) for index in range(start)),
            *((start + first, start + second) for first, second in middle),
            *((len(a) - index, len(b) - index) for index in range(end, 0, -1)),
        ]


def _value(step: RunStep) -> Hashable:
    return step.key, msgspec.json.encode(step.content, order="deterministic")


def _common(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return how many values are equal at the beginning."""
    most = min(len(a), len(b))
    return next((index for index in range(most) if a[index] != b[index]), most)


def _longest(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]] | None:
    """Return the matches of a longest common subsequence (Myers 1986); None if there are too many differences."""
    if abs(len(a) - len(b)) > MAX_EDITS:
        return None
    most = min(len(a) + len(b), MAX_EDITS)
    zero = most + 1
    furthest = array("q", [-1]) * (2 * zero + 1)
    """Furthest position in `a` on each diagonal, counted from `-zero`."""
    furthest[zero + 1] = 0
    history: list[array[int]] = []
    for edits in range(most + 1):
        history.append(furthest[zero - edits - 1 : zero + edits + 2])
        for diagonal in range(-edits, edits + 1, 2):
            x = _next(furthest, zero + diagonal)
            y = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            furthest[zero + diagonal] = x
            if x >= len(a) and y >= len(b):
                return _path(history, len(a), len(b))
    return None


def _next(furthest: array[int], at: int) -> int:
    """Return the position after one more edit: a step down from the next diagonal, or to the right from the last."""
    return max(furthest[at - 1] + 1, furthest[at + 1]) if furthest[at - 1] >= 0 else furthest[at + 1]


def _path(history: list[array[int]], x: int, y: int) -> list[tuple[int, int]]:
    """Return the matches on the way back from the end."""
    matches: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, -1, -1):
        furthest, at = history[edits], x - y + edits + 1
        start = _next(furthest, at)
        while x > start:
            x, y = x - 1, y - 1
            matches.append((x, y))
        if furthest[at - 1] >= 0 and start == furthest[at - 1] + 1:
            x -= 1
        else:
            y -= 1
    return matches[::-1]


def _in_order(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pair each value with the next equal one of the other run, within a window."""
    matches: list[tuple[int, int]] = []
    at = 0
    for index, value in enumerate(a):
        found = next((other for other in range(at, min(at + WINDOW, len(b))) if b[other] == value), None)
        if found is not None:
            matches.append((index, found))
            at = found + 1
    return matches
