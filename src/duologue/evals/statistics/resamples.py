"""Resample sampling units: the bootstrap of a mean, and sign flips of differences; seeded, in bounded memory.

A unit is a case with all its trials, or a family of cases. Each array has a row for each unit and a column for each
quantity, so that many suites are resampled at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from duologue.evals.statistics.distributions import normal_probability, t_quantile
from duologue.evals.statistics.libraries import np

Array: TypeAlias = np.typing.NDArray[np.float64]

DRAWS = 10_000
"""Number of bootstrap draws: the error of a limit of a 95 % interval is then some 2 % of its distance to the mean."""

SIGN_FLIPS = 100_000
"""Number of random sign flips where not all are tried: the error of p = 0.05 is then 0.0007."""

EXACT_UNITS = 20
"""Largest number of units that differ for which all sign flips are tried (2^20)."""

_CELLS = 4_000_000
"""Cells of the arrays that are made at once."""


def sums_of_units(values: Array, labels: Sequence[str]) -> tuple[Array, Array]:
    """Return the sum of the values of each unit, and its number of values.

    Args:
        values: One row for each case, in one or more columns.
        labels: The unit of each case.
    """
    _, positions = np.unique(np.asarray(labels), return_inverse=True)
    sizes = np.bincount(positions).astype(np.float64)
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, positions, values)
    return sums, sizes


def bootstrap_interval(sums: Array, sizes: Array, *, level: float, draws: int, seed: int) -> tuple[Array, Array]:
    """Return the limits of the interval of each column's mean: percentiles of resampled means, corrected for few units.

    The plain percentiles are too narrow by the factor sqrt((n-1)/n), and as if the spread were known. The tails are
    therefore those of a normal distribution at sqrt(n/(n-1)) times the quantile of t with n-1 degrees of freedom.
    """
    tail = corrected_tail(len(sizes), level)
    means = np.concatenate(list(_resampled_means(sums, sizes, draws, seed)))
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return low, high


def corrected_tail(units: int, level: float) -> float:
    """Return the probability of each tail of resampled means that gives an interval of this level for so many units."""
    quantile = t_quantile((1 + level) / 2, units - 1)
    return normal_probability(-quantile * float(np.sqrt(units / (units - 1))))


def _resampled_means(sums: Array, sizes: Array, draws: int, seed: int) -> Iterator[Array]:
    units = len(sizes)
    generator = np.random.default_rng(seed)
    shares = np.full(units, 1 / units)
    rows = max(1, _CELLS // max(units, sums.shape[1]))
    for start in range(0, draws, rows):
        counts = generator.multinomial(units, shares, size=min(rows, draws - start)).astype(np.float64)
        yield (counts @ sums) / (counts @ sizes)[:, None]


def sign_flip_p(sums: Array, *, flips: int, seed: int) -> Array:
    """Return two-sided p-values that the units of each column are symmetric about 0, by random sign flips."""
    observed = np.abs(sums.sum(axis=0)) - _tolerance(sums)
    generator = np.random.default_rng(seed)
    rows = max(1, _CELLS // max(sums.shape))
    reached = np.ones(sums.shape[1])  # the observed signs are one of the possible flips
    for start in range(0, flips, rows):
        size = min(rows, flips - start), len(sums)
        signs = generator.integers(0, 2, size, dtype=np.int8).astype(np.float64) * 2 - 1
        reached += (np.abs(signs @ sums) >= observed).sum(axis=0)
    return reached / (flips + 1)


def exact_sign_flip_p(sums: Array) -> float:
    """Return the two-sided p-value of one column from all sign flips of its units."""
    differing = sums[sums != 0]
    if len(differing) > EXACT_UNITS:
        raise ValueError(f"{len(differing)} units have too many sign flips; at most {EXACT_UNITS} are tried")
    totals = np.zeros(1)
    for value in differing:
        totals = np.concatenate([totals + value, totals - value])
    observed = abs(differing.sum()) - float(_tolerance(differing[:, None])[0])
    return float(np.count_nonzero(np.abs(totals) >= observed) / len(totals))


def _tolerance(sums: Array) -> Array:
    """Return the rounding error up to which two sums count as equal."""
    tolerance: Array = 1e-12 * np.abs(sums).sum(axis=0)
    return tolerance
