"""Compare agents case by case: the difference, its interval, a test, and a verdict only where the data allow one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from duologue.evals.statistics.case_trials import CaseTrials, parse_metric, unit_labels
from duologue.evals.statistics.distributions import fair_coin_p
from duologue.evals.statistics.intervals import LEVEL, ROUNDING, Interval, check_unique, interval_of_mean
from duologue.evals.statistics.libraries import np
from duologue.evals.statistics.power import POWER, least_units, minimum_detectable_effect
from duologue.evals.statistics.resamples import (
    DRAWS,
    EXACT_UNITS,
    SIGN_FLIPS,
    bootstrap_interval,
    exact_sign_flip_p,
    sign_flip_p,
    sums_of_units,
)

PairedTest: TypeAlias = Literal["mcnemar", "sign_flip_exact", "sign_flip", "none"]
ComparisonVerdict: TypeAlias = Literal["first_better", "second_better", "no_difference_shown", "too_few_cases"]


class PairedComparison(Struct, frozen=True, kw_only=True):
    """Two agents on the same cases.

    Attributes:
        first: Label of the first agent.
        second: Label of the second agent.
        metric: The metric.
        cases: Number of cases that both have a value for.
        units: Number of sampling units.
        left_out: Ids of cases that only one has a value for, or none.
        first_value: Mean of the first agent over these cases.
        second_value: Mean of the second agent over these cases.
        difference: Mean of the differences, first less second.
        interval: Interval of the difference.
        test: The test: exact McNemar for one trial of each case, else sign flips, all of them or random ones.
        p_value: Two-sided p-value of the test.
        adjusted_p: The p-value after Holm's correction for all comparisons of a table.
        detectable: The smallest difference that is found with 80 % probability; None if there are too few cases.
        level: Level of the interval and of the verdict.
        verdict: Who is better, if both the test and the interval show it; else that no difference is shown.
    """

    first: str
    second: str
    metric: str
    cases: int
    units: int
    left_out: tuple[str, ...]
    first_value: float | None
    second_value: float | None
    difference: float | None
    interval: Interval | None
    test: PairedTest
    p_value: float
    adjusted_p: float
    detectable: float | None
    level: float
    verdict: ComparisonVerdict

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        if self.difference is None or self.verdict == "too_few_cases":
            least = least_units(1 - self.level)
            return (
                f"too few cases: {self.units}, and fewer than {least} cannot show a difference between any two agents"
            )
        # The agent that a sentence begins with has the positive difference.
        is_second = self.verdict == "second_better"
        shown = f"{-self.difference if is_second else self.difference:+.3f}"
        if self.interval is not None:
            low, high = self.interval.low, self.interval.high
            low, high = (-high, -low) if is_second else (low, high)
            shown += f" ({100 * self.level:g} % interval {low:+.3f} to {high:+.3f}, p = {self.adjusted_p:.3g})"
        if self.verdict == "no_difference_shown":
            found = (
                ""
                if self.detectable is None
                else f"; {self.cases} cases show differences from {self.detectable:.3f} on"
            )
            return f"no difference shown between {self.first} and {self.second}: {shown}{found}"
        better, other = (self.first, self.second) if self.verdict == "first_better" else (self.second, self.first)
        return f"{better} is better than {other}: {shown}"


def compare(
    first: Sequence[CaseTrials],
    second: Sequence[CaseTrials],
    *,
    names: tuple[str, str] = ("first", "second"),
    metric: str = "pass@1",
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> PairedComparison:
    """Compare two agents on the cases that both have run.

    Args:
        first: Trials of the first agent.
        second: Trials of the second agent.
        names: Labels of the two.
        metric: `score`, `pass@K` or `pass^K`.
        level: Level of the interval, and 1 less the level of significance.
        draws: Number of bootstrap draws.
        seed: Seed of the bootstrap and of the sign flips.

    Raises:
        ValueError: The metric is unknown, or an agent has a case twice.
        ImportError: numpy or scipy is not installed.
    """
    check_unique(first)
    check_unique(second)
    parsed = parse_metric(metric)
    others = {case.case: case for case in second}
    names_of_all = dict.fromkeys([*(case.case for case in first), *others])
    pairs = [
        (case, one, two)
        for case in first
        if case.case in others
        and (one := parsed.value(case)) is not None
        and (two := parsed.value(others[case.case])) is not None
    ]
    differences = [one - two for _, one, two in pairs]
    labels = unit_labels([case for case, _, _ in pairs])
    is_single = parsed.k == 1 and all(len(case.passed) == len(others[case.case].passed) == 1 for case, _, _ in pairs)
    test, p_value = _test(differences, labels, is_single=is_single and parsed.kind != "", seed=seed)
    interval = _difference_interval(differences, labels, level=level, draws=draws, seed=seed)
    paired = {case.case for case, _, _ in pairs}
    count = len(pairs)
    result = PairedComparison(
        first=names[0],
        second=names[1],
        metric=metric,
        cases=count,
        units=len(set(labels)),
        left_out=tuple(name for name in names_of_all if name not in paired),
        first_value=sum(one for _, one, _ in pairs) / count if count else None,
        second_value=sum(two for _, _, two in pairs) / count if count else None,
        difference=sum(differences) / count if count else None,
        interval=interval,
        test=test,
        p_value=p_value,
        adjusted_p=p_value,
        detectable=minimum_detectable_effect(differences, labels, alpha=1 - level, power=POWER),
        level=level,
        verdict="no_difference_shown",
    )
    return structs.replace(result, verdict=_verdict(result))


def compare_all(
    agents: Mapping[str, Sequence[CaseTrials]],
    *,
    metric: str = "pass@1",
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[PairedComparison]:
    """Compare every two agents, with Holm's correction for the number of comparisons.

    Args:
        agents: Trials of each agent by its label.
        metric: `score`, `pass@K` or `pass^K`.
        level: Level of the intervals, and 1 less the level of significance of all comparisons together.
        draws: Number of bootstrap draws.
        seed: Seed of the bootstrap and of the sign flips.

    Raises:
        ValueError: The metric is unknown, or an agent has a case twice.
        ImportError: numpy or scipy is not installed.
    """
    pairs = list(combinations(agents.items(), 2))
    return compare_pairs(pairs, metric=metric, level=level, draws=draws, seed=seed)


def compare_pairs(
    pairs: Sequence[tuple[tuple[str, Sequence[CaseTrials]], tuple[str, Sequence[CaseTrials]]]],
    *,
    metric: str = "pass@1",
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[PairedComparison]:
    """Compare pairs of agents, with Holm's correction for the number of comparisons.

    Args:
        pairs: Label and trials of the first agent, and those of the second.
        metric: `score`, `pass@K` or `pass^K`.
        level: Level of the intervals, and 1 less the level of significance of all comparisons together.
        draws: Number of bootstrap draws.
        seed: Seed of the bootstrap and of the sign flips.

    Raises:
        ValueError: The metric is unknown, or an agent has a case twice.
        ImportError: numpy or scipy is not installed.
    """
    found = [
        compare(first, second, names=(one, two), metric=metric, level=level, draws=draws, seed=seed)
        for (one, first), (two, second) in pairs
    ]
    adjusted = holm([each.p_value for each in found])
    corrected = [structs.replace(each, adjusted_p=p) for each, p in zip(found, adjusted, strict=True)]
    return [structs.replace(each, verdict=_verdict(each)) for each in corrected]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values after Holm's correction: no more than their level of all false positives together."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def mcnemar_p(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p-value of McNemar's test.

    Args:
        only_first: Number of cases that only the first agent passed.
        only_second: Number of cases that only the second agent passed.
    """
    discordant = only_first + only_second
    return fair_coin_p(only_first, discordant) if discordant else 1.0


def _test(
    differences: Sequence[float], labels: Sequence[str], *, is_single: bool, seed: int
) -> tuple[PairedTest, float]:
    if not differences:
        return "none", 1.0
    if is_single and len(set(labels)) == len(labels):
        return "mcnemar", mcnemar_p(differences.count(1.0), differences.count(-1.0))
    sums, _ = sums_of_units(np.asarray(differences, dtype=np.float64)[:, None], labels)
    if np.count_nonzero(sums) <= EXACT_UNITS:
        return "sign_flip_exact", exact_sign_flip_p(sums[:, 0])
    return "sign_flip", float(sign_flip_p(sums, flips=SIGN_FLIPS, seed=seed)[0])


def _difference_interval(
    differences: Sequence[float], labels: Sequence[str], *, level: float, draws: int, seed: int
) -> Interval | None:
    if len(set(labels)) < 2:
        return None
    sums, sizes = sums_of_units(np.asarray(differences, dtype=np.float64)[:, None], labels)
    if np.ptp(sums[:, 0] / sizes) < ROUNDING:
        # A bootstrap of equal units has width 0. A difference from -1 to 1 is a share between 0 and 1, which has an
        # interval of its own.
        shares = interval_of_mean([(each + 1) / 2 for each in differences], labels, level=level)
        assert shares is not None, "there are two units"
        return Interval(low=2 * shares.low - 1, high=2 * shares.high - 1, level=level, method=shares.method)
    low, high = bootstrap_interval(sums, sizes, level=level, draws=draws, seed=seed)
    return Interval(low=float(low[0]), high=float(high[0]), level=level, method="bootstrap")


def _verdict(found: PairedComparison) -> ComparisonVerdict:
    alpha = 1 - found.level
    if found.units < least_units(alpha) or found.difference is None or found.interval is None:
        return "too_few_cases"
    if found.adjusted_p > alpha or found.interval.low <= 0 <= found.interval.high:
        return "no_difference_shown"
    return "first_better" if found.difference > 0 else "second_better"
