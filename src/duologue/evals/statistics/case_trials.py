"""The trials of a case as statistics see them, and the value of a case for a metric."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from duologue.evals.statistics.passes import pass_at_k, pass_hat_k

_METRIC = re.compile(r"score|pass(?P<kind>[@^])(?P<k>[1-9]\d{0,5})")


class CaseTrials(Struct, frozen=True, kw_only=True):
    """The trials of one case by one agent that count.

    Attributes:
        case: Id of the case.
        passed: Whether each trial passed.
        scores: The score of each trial, from 0 to 1; by `passed` if it is empty.
        missing: Number of trials that should be there and do not count; they are no failures.
        family: Cases of one family are one sampling unit; empty: the case is one of its own.
    """

    case: str
    passed: list[bool]
    scores: list[float] = []
    missing: int = 0
    family: str = ""

    def __post_init__(self) -> None:
        if self.scores and len(self.scores) != len(self.passed):
            raise ValueError(f"{self.case}: {len(self.passed)} trials have {len(self.scores)} scores")


class Metric(NamedTuple):
    """A metric of a case: `score`, `pass@k` or `pass^k`."""

    name: str
    kind: str
    k: int

    def value(self, trials: CaseTrials) -> float | None:
        """Return the value of a case; None if it has too few trials."""
        n, c = len(trials.passed), sum(trials.passed)
        if self.kind == "@":
            return pass_at_k(n, c, self.k)
        if self.kind == "^":
            return pass_hat_k(n, c, self.k)
        scores = trials.scores or [float(passed) for passed in trials.passed]
        return sum(scores) / n if n else None


def parse_metric(name: str) -> Metric:
    """Return the metric of a name.

    Raises:
        ValueError: There is no such metric.
    """
    found = _METRIC.fullmatch(name)
    if found is None:
        raise ValueError(f"unknown metric {name!r}: expected score, pass@K or pass^K, such as pass@1")
    return Metric(name, found["kind"] or "", int(found["k"] or 1))


def unit_labels(cases: Sequence[CaseTrials]) -> list[str]:
    """Return the sampling unit of each case: its family, or itself."""
    return [f"family {case.family}" if case.family else f"case {case.case}" for case in cases]
