"""Flaky cases: those that pass in some trials and fail in others."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from duologue.evals.statistics.case_trials import CaseTrials


class Flakiness(Struct, frozen=True, kw_only=True):
    """How much the trials of the same cases differ.

    Attributes:
        share: Share of the cases with passed and failed trials, among those with two trials or more; None without any.
        cases: Ids of these cases, the most undecided first: candidates for quarantine.
        flip_rate: Probability that two trials of one case differ, as a mean over cases; None without any.
    """

    share: float | None
    cases: tuple[str, ...]
    flip_rate: float | None


def flakiness(cases: Sequence[CaseTrials]) -> Flakiness:
    """Return how much the trials of the same cases differ."""
    rates = {case.case: _flip_rate(case) for case in cases if len(case.passed) > 1}
    flaky = sorted((name for name, rate in rates.items() if rate), key=lambda name: -rates[name])
    return Flakiness(
        share=len(flaky) / len(rates) if rates else None,
        cases=tuple(flaky),
        flip_rate=sum(rates.values()) / len(rates) if rates else None,
    )


def flip_rate_between(first: Sequence[CaseTrials], second: Sequence[CaseTrials]) -> float | None:
    """Return the probability that a trial of one run and one of another differ, as a mean over the cases of both."""
    others = {case.case: case for case in second if case.passed}
    rates: list[float] = []
    for case in first:
        if case.passed and case.case in others:
            one, two = _rate(case), _rate(others[case.case])
            rates.append(one * (1 - two) + two * (1 - one))
    return sum(rates) / len(rates) if rates else None


def _flip_rate(case: CaseTrials) -> float:
    n, c = len(case.passed), sum(case.passed)
    return 2 * c * (n - c) / (n * (n - 1))


def _rate(case: CaseTrials) -> float:
    return sum(case.passed) / len(case.passed)
