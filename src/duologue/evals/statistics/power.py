"""The smallest difference that a comparison is likely to find, and the number of cases that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

from duologue.evals.statistics.distributions import t_quantile
from duologue.evals.statistics.intervals import ROUNDING, standard_error

POWER = 0.8
"""Probability with which the smallest detectable difference is found."""


def least_units(alpha: float) -> int:
    """Return the number of units below which no difference can be shown: all of them would have to agree, 2 / 2^n."""
    return ceil(1 - log2(alpha))


def minimum_detectable_effect(
    differences: Sequence[float], labels: Sequence[str], *, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """Return the difference that a comparison of so many cases with this spread finds with the given probability.

    Args:
        differences: The difference of each case.
        labels: The sampling unit of each case.
        alpha: Level of significance.
        power: Probability of finding the difference.

    Returns:
        (t(1 - alpha/2) + t(power)) times the standard error, but at least what the smallest number of units that can
        be significant amounts to; None if there are too few units to show any difference.
    """
    units = len(set(labels))
    least = least_units(alpha)
    if units < least:
        return None
    error = standard_error(differences, labels) or 0.0
    error = 0.0 if error < ROUNDING else error
    quantiles = t_quantile(1 - alpha / 2, units - 1) + t_quantile(power, units - 1)
    # A spread of 0 has only not been seen: as many units must differ as a test needs.
    smallest = max((abs(each) for each in differences if abs(each) >= ROUNDING), default=1.0) * least / units
    return max(quantiles * error, smallest if error == 0 else 0.0)


def cases_needed(effect: float, spread: float, *, alpha: float = 0.05, power: float = POWER) -> int:
    """Return how many cases it takes to find a difference.

    Args:
        effect: The difference of the means.
        spread: Standard deviation of the differences of cases.
        alpha: Level of significance.
        power: Probability of finding the difference.

    Raises:
        ValueError: The effect is 0.
    """
    if effect == 0:
        raise ValueError("no number of cases shows a difference of 0")
    units = least_units(alpha)
    while units < 1_000_000:
        quantiles = t_quantile(1 - alpha / 2, units - 1) + t_quantile(power, units - 1)
        needed = ceil((quantiles * spread / effect) ** 2)
        if needed <= units:
            break
        units = min(needed, units * 2)
    return units
