"""Intervals of suites have the coverage that they claim, resample cases with their trials, and never claim too much."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from duologue.evals.statistics.case_trials import CaseTrials
from duologue.evals.statistics.intervals import estimate, interval_of_mean, standard_error, wilson
from duologue.evals.statistics.resamples import Array, bootstrap_interval, corrected_tail
from tests.evals.simulated import CASES, DIFFICULTIES, TRIALS, case_trials, shares

SUITES = 2_000
DRAWS = 1_000
"""Draws of the usual run; `make chaos` uses 10,000 as a report does."""


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_a_95_percent_interval_covers_the_truth_in_93_to_97_of_100_suites(
    difficulty: str, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    chance = np.random.default_rng(2026)
    values = shares(chance, DIFFICULTIES[difficulty](chance, SUITES))
    draws = min(DRAWS * chaos_factor, 10_000)
    low, high = bootstrap_interval(values, np.ones(CASES), level=0.95, draws=draws, seed=7)
    covered = float(np.mean((low <= 0.5) & (high >= 0.5)))
    record_property("count", SUITES)
    record_property("coverage", covered)

    assert 0.93 <= covered <= 0.97


def test_an_interval_of_a_report_is_that_of_the_simulation() -> None:
    chance = np.random.default_rng(1)
    values = shares(chance, DIFFICULTIES["uniform"](chance, 20))
    low, high = bootstrap_interval(values, np.ones(CASES), level=0.95, draws=500, seed=3)
    for column in range(20):
        found = estimate(case_trials(values[:, column]), draws=500, seed=3)

        assert found.interval is not None
        assert found.value == pytest.approx(float(values[:, column].mean()), abs=1e-12)
        # Units are sorted by name, so the draws meet them in another order.
        assert found.interval.low == pytest.approx(float(low[column]), abs=0.05)
        assert found.interval.high == pytest.approx(float(high[column]), abs=0.05)


def test_the_bootstrap_agrees_with_that_of_scipy() -> None:
    values = np.random.default_rng(5).uniform(size=40)
    level = 1 - 2 * corrected_tail(40, 0.95)
    theirs = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=20_000,
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    ours = interval_of_mean(list(values), [str(n) for n in range(40)], draws=20_000)

    assert ours is not None
    assert [ours.low, ours.high] == pytest.approx([float(theirs.low), float(theirs.high)], abs=0.004)


def test_the_same_seed_gives_the_same_interval_and_another_one_nearly_the_same() -> None:
    scores = np.random.default_rng(2).uniform(size=CASES)
    cases = [CaseTrials(case=str(n), passed=[False], scores=[float(score)]) for n, score in enumerate(scores)]
    one, same, other = (estimate(cases, "score", seed=seed).interval for seed in (1, 1, 2))

    assert one == same != other
    assert one is not None
    assert other is not None
    assert one.low == pytest.approx(other.low, abs=0.02)


def test_one_number_has_no_interval() -> None:
    # A bootstrap of one number has an interval of width 0, which makes every difference significant.
    low, high = bootstrap_interval(np.array([[0.6], [0.6]]), np.ones(2), level=0.95, draws=100, seed=0)
    assert float(high[0] - low[0]) == 0
    found = estimate([CaseTrials(case="only", passed=[True, True, False])])

    assert found.value == pytest.approx(2 / 3)
    assert (found.interval, found.standard_error) == (None, None)
    assert "more trials of it say nothing about other cases" in found.note


@pytest.mark.parametrize(("passed", "low", "high"), [(True, 0.886, 1.0), (False, 0.0, 0.114)])
def test_cases_that_all_agree_do_not_make_a_suite_certain(passed: bool, low: float, high: float) -> None:
    found = estimate([CaseTrials(case=str(n), passed=[passed] * 5) for n in range(30)])

    assert found.interval is not None
    assert found.interval.method == "wilson"
    assert [found.interval.low, found.interval.high] == pytest.approx([low, high], abs=1e-3)


def test_more_trials_of_the_same_cases_do_not_replace_cases() -> None:
    few = [CaseTrials(case=str(n), passed=[n % 2 == 0] * 2) for n in range(30)]
    many = [CaseTrials(case=str(n), passed=[n % 2 == 0] * 1000) for n in range(30)]

    assert estimate(few).interval == estimate(many).interval


def test_resampling_trials_as_well_would_cover_too_much() -> None:
    """Show why the trials of a case stay together: their variance would count twice."""
    chance = np.random.default_rng(11)
    values = shares(chance, DIFFICULTIES["all alike"](chance, 400))
    own: Array = np.sqrt(values.var(axis=0, ddof=1) / CASES)
    within: Array = (values * (1 - values) / TRIALS).mean(axis=0) / CASES
    twice: Array = np.sqrt(own**2 + within)
    quantile = float(stats.t.ppf(0.975, CASES - 1))
    distances: Array = np.abs(values.mean(axis=0) - 0.5)
    once, too_often = (float(np.mean(distances <= quantile * error)) for error in (own, twice))

    assert once < 0.97 < too_often


def test_cases_of_one_family_are_one_unit() -> None:
    alone = [CaseTrials(case=f"{n}-{m}", passed=[n % 2 == 0]) for n in range(12) for m in range(5)]
    together = [CaseTrials(case=case.case, passed=case.passed, family=case.case.partition("-")[0]) for case in alone]
    one, other = estimate(alone), estimate(together)

    assert (one.units, other.units, other.cases) == (60, 12, 60)
    assert one.interval is not None
    assert other.interval is not None
    assert other.interval.high - other.interval.low > 2 * (one.interval.high - one.interval.low)
    assert one.standard_error is not None
    assert other.standard_error is not None
    assert other.standard_error > 2 * one.standard_error


def test_the_standard_error_of_cases_is_the_usual_one() -> None:
    values = [0.0, 0.25, 0.5, 1.0, 1.0]

    assert standard_error(values, list("abcde")) == pytest.approx(float(stats.sem(values)))


def test_missing_trials_and_cases_with_too_few_are_reported_and_not_counted_as_failures() -> None:
    cases = [
        CaseTrials(case="a", passed=[True, True, True]),
        CaseTrials(case="b", passed=[True], missing=2),
        CaseTrials(case="c", passed=[], missing=3),
    ]
    found = estimate(cases, "pass^2")

    assert (found.value, found.cases, found.left_out, found.missing) == (1.0, 1, ("b", "c"), 5)
    assert estimate(cases).value == 1.0
    assert estimate([]).value is None


def test_few_cases_come_with_a_warning() -> None:
    cases = [CaseTrials(case=str(n), passed=[n % 2 == 0]) for n in range(9)]

    assert estimate(cases).note == "only 9 units: the interval is too narrow for its level"
    assert estimate([*cases, CaseTrials(case="x", passed=[True])]).note == ""


def test_a_case_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="the case 'a' is there twice: the trials of a case belong together"):
        estimate([CaseTrials(case="a", passed=[True]), CaseTrials(case="a", passed=[False])])


def test_the_interval_of_a_case_is_that_of_wilson() -> None:
    whole, part = wilson(3, 5), wilson(2.5, 5)

    assert [whole.low, whole.high] == pytest.approx([0.2307, 0.8824], abs=1e-4)
    assert part.low == pytest.approx(1 - part.high)
    assert wilson(2, 5).low < part.low < whole.low
    near = wilson(3 - 1e-9, 5)
    assert [near.low, near.high] == pytest.approx([whole.low, whole.high])
    with pytest.raises(ValueError, match="0 of 0 trials"):
        wilson(0, 0)
