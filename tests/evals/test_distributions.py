"""The distributions agree with those of `scipy.stats`, and no command has to import that."""

from __future__ import annotations

import subprocess
import sys

import pytest
from scipy import stats

from duologue.evals.statistics.distributions import fair_coin_p, normal_probability, normal_quantile, t_quantile
from duologue.evals.statistics.intervals import wilson

PROBABILITIES = (0.001, 0.025, 0.2, 0.5, 0.8, 0.9, 0.975, 0.995)
EXACT = 1e-12


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_quantiles_are_those_of_scipy(probability: float) -> None:
    assert normal_quantile(probability) == pytest.approx(float(stats.norm.ppf(probability)), rel=EXACT, abs=EXACT)
    for degrees in (1, 2, 3, 10, 29, 500):
        expected = float(stats.t.ppf(probability, degrees))
        assert t_quantile(probability, degrees) == pytest.approx(expected, rel=EXACT, abs=EXACT)


@pytest.mark.parametrize("value", [-8.0, -1.96, -0.1, 0.0, 0.5, 3.0])
def test_probabilities_are_those_of_scipy(value: float) -> None:
    assert normal_probability(value) == pytest.approx(float(stats.norm.cdf(value)), rel=EXACT)


@pytest.mark.parametrize("tosses", [1, 2, 5, 10, 31, 200, 999])
def test_the_test_of_a_fair_coin_is_that_of_scipy(tosses: int) -> None:
    for heads in {0, 1, tosses // 3, tosses // 2, (tosses + 1) // 2, tosses - 1, tosses}:
        assert fair_coin_p(heads, tosses) == pytest.approx(stats.binomtest(heads, tosses).pvalue, rel=EXACT)


@pytest.mark.parametrize("trials", [1, 2, 7, 30, 1000])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_the_interval_of_wilson_is_that_of_scipy(trials: int, level: float) -> None:
    for passed in {0, 1, trials // 2, trials - 1, trials}:
        expected = stats.binomtest(passed, trials).proportion_ci(level, method="wilson")
        found = wilson(passed, trials, level=level)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=EXACT, abs=EXACT)


def test_the_statistics_do_without_the_slow_half_of_scipy() -> None:
    names = "agreement, comparison, intervals, power, resamples"
    code = f"import sys\nfrom duologue.evals.statistics import {names}\nprint('scipy.stats' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout == "False\n"
