"""Simulated suites: the chance of each case, and the trials that follow from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from duologue.evals.statistics.case_trials import CaseTrials
from duologue.evals.statistics.resamples import Array

CASES = 30
TRIALS = 5

DIFFICULTIES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "mostly all or nothing": lambda chance, suites: chance.beta(0.5, 0.5, (CASES, suites)),
    "uniform": lambda chance, suites: chance.uniform(size=(CASES, suites)),
    "mostly medium": lambda chance, suites: chance.beta(2, 2, (CASES, suites)),
    "all alike": lambda chance, suites: np.full((CASES, suites), 0.5),
}
"""Chances of the cases of suites, whose mean is 0.5: a row for each case, a column for each suite."""


def shares(chance: np.random.Generator, chances: Array, trials: int = TRIALS) -> Array:
    """Return the share of passed trials of each case of each suite."""
    result: Array = chance.binomial(trials, chances) / trials
    return result


def case_trials(values: Array, trials: int = TRIALS) -> list[CaseTrials]:
    """Return the shares of one suite as trials of cases."""
    counts = [round(float(value) * trials) for value in values]
    return [
        CaseTrials(case=f"c{number}", passed=[True] * count + [False] * (trials - count))
        for number, count in enumerate(counts)
    ]
