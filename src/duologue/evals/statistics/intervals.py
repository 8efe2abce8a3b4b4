"""Estimates with intervals: of a suite, where the case is the sampling unit, and of one case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from duologue.evals.statistics.case_trials import CaseTrials, parse_metric, unit_labels
from duologue.evals.statistics.distributions import normal_quantile
from duologue.evals.statistics.libraries import np
from duologue.evals.statistics.resamples import DRAWS, bootstrap_interval, sums_of_units

LEVEL = 0.95
"""Level of intervals."""

ROUNDING = 1e-12
"""Spread up to which values count as equal: sums of fractions are not exact."""

FEW_UNITS = 10
"""With fewer units an interval is reported with a warning: it has not the coverage that it claims."""

IntervalMethod: TypeAlias = Literal["bootstrap", "wilson"]


class Interval(Struct, frozen=True, kw_only=True):
    """An interval of confidence.

    Attributes:
        low: Lower limit.
        high: Upper limit.
        level: Level of confidence.
        method: How it was made.
    """

    low: float
    high: float
    level: float
    method: IntervalMethod


class Estimate(Struct, frozen=True, kw_only=True):
    """A number over the cases of a suite.

    Attributes:
        metric: The metric: `score`, `pass@k` or `pass^k`.
        value: Mean over the cases; None if no case has a value.
        interval: Its interval; None for fewer than two units: one number says nothing about its own error.
        standard_error: Standard error of the mean, by units; None for fewer than two.
        cases: Number of cases with a value.
        units: Number of sampling units: families, and cases without one.
        left_out: Ids of the cases without a value, because they have fewer trials than the metric needs.
        missing: Number of trials that are missing.
        note: A warning for readers; empty if there is none.
    """

    metric: str
    value: float | None
    interval: Interval | None
    standard_error: float | None
    cases: int
    units: int
    left_out: tuple[str, ...] = ()
    missing: int = 0
    note: str = ""


def estimate(
    cases: Sequence[CaseTrials], metric: str = "pass@1", *, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """Return the mean of a metric over cases, with an interval for the mean over all cases that could have been drawn.

    Args:
        cases: The trials of each case.
        metric: `score`, `pass@K` or `pass^K`.
        level: Level of the interval.
        draws: Number of bootstrap draws.
        seed: Seed of the bootstrap: the same data give the same interval.

    Raises:
        ValueError: The metric is unknown, or a case is there twice.
        ImportError: numpy or scipy is not installed.
    """
    check_unique(cases)
    parsed = parse_metric(metric)
    pairs = [(case, value) for case in cases if (value := parsed.value(case)) is not None]
    labels = unit_labels([case for case, _ in pairs])
    values = [value for _, value in pairs]
    units = len(set(labels))
    return Estimate(
        metric=metric,
        value=sum(values) / len(values) if values else None,
        interval=interval_of_mean(values, labels, level=level, draws=draws, seed=seed),
        standard_error=standard_error(values, labels),
        cases=len(values),
        units=units,
        left_out=tuple(case.case for case in cases if parsed.value(case) is None),
        missing=sum(case.missing for case in cases),
        note=_note(units),
    )


def interval_of_mean(
    values: Sequence[float], labels: Sequence[str], *, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval | None:
    """Return the interval of a mean of values from 0 to 1 by a bootstrap over units; None for fewer than two units.

    If all units are equal there is nothing to resample, and the interval is that of Wilson for as many trials as there
    are units: no distribution from 0 to 1 with this mean has a larger spread.
    """
    if len(set(labels)) < 2:
        return None
    column = np.asarray(values, dtype=np.float64)[:, None]
    sums, sizes = sums_of_units(column, labels)
    means = sums[:, 0] / sizes
    if np.ptp(means) < ROUNDING:
        return wilson(float(means[0]) * len(sizes), len(sizes), level=level)
    low, high = bootstrap_interval(sums, sizes, level=level, draws=draws, seed=seed)
    return Interval(low=float(low[0]), high=float(high[0]), level=level, method="bootstrap")


def standard_error(values: Sequence[float], labels: Sequence[str]) -> float | None:
    """Return the standard error of a mean whose units are independent and whose values inside a unit are not."""
    units = len(set(labels))
    if units < 2:
        return None
    column = np.asarray(values, dtype=np.float64)[:, None]
    residuals, _ = sums_of_units(column - column.mean(), labels)
    return float(np.sqrt(units / (units - 1) * (residuals**2).sum()) / len(values))


def wilson(passed: float, trials: int, *, level: float = LEVEL) -> Interval:
    """Return the interval of Wilson for a share.

    Args:
        passed: How many trials passed.
        trials: Number of trials; at least 1.
        level: Level of the interval.

    Raises:
        ValueError: There are no trials, or not so many.
    """
    if trials < 1 or not 0 <= passed <= trials:
        raise ValueError(f"{passed} of {trials} trials cannot have passed")
    quantile, share = normal_quantile((1 + level) / 2), passed / trials
    centre, scale = share + quantile**2 / (2 * trials), 1 + quantile**2 / trials
    half = quantile * (share * (1 - share) / trials + quantile**2 / (4 * trials**2)) ** 0.5
    low = 0.0 if passed == 0 else (centre - half) / scale
    high = 1.0 if passed == trials else (centre + half) / scale
    return Interval(low=low, high=high, level=level, method="wilson")


def check_unique(cases: Sequence[CaseTrials]) -> None:
    """Check that each case is there once.

    Raises:
        ValueError: One is there twice.
    """
    names = [case.case for case in cases]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the case {twice!r} is there twice: the trials of a case belong together")


def _note(units: int) -> str:
    if units < 2:
        return "one case has no interval: more trials of it say nothing about other cases"
    return f"only {units} units: the interval is too narrow for its level" if units < FEW_UNITS else ""
