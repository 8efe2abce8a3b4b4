"""Agreement of raters, such as a grader and people: confusion matrix, and Krippendorff's alpha."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from duologue.evals.statistics.intervals import LEVEL, Interval, wilson
from duologue.evals.statistics.libraries import np
from duologue.evals.statistics.resamples import Array

Measurement: TypeAlias = Literal["nominal", "ordinal", "interval"]


class ConfusionMatrix(Struct, frozen=True, kw_only=True):
    """How often a rater gave each label to what truly has each label.

    Attributes:
        labels: The labels.
        counts: For each true label, how often each label was given.
        total: Number of items.
        agreement: Share of items with the true label; None if there are none.
        interval: Interval of Wilson for the agreement.
    """

    labels: list[str]
    counts: list[list[int]]
    total: int
    agreement: float | None
    interval: Interval | None

    def recall(self, label: str) -> float | None:
        """Return the share of items with a label that were given it; None if there are none."""
        row = self.labels.index(label)
        return _share(self.counts[row][row], sum(self.counts[row]))

    def precision(self, label: str) -> float | None:
        """Return the share of items that were given a label and have it; None if there are none."""
        column = self.labels.index(label)
        return _share(self.counts[column][column], sum(row[column] for row in self.counts))


def confusion_matrix(truth: Sequence[str], given: Sequence[str], *, level: float = LEVEL) -> ConfusionMatrix:
    """Return how often each label was given to items with each true label.

    Raises:
        ValueError: The sequences differ in length.
    """
    labels = sorted({*truth, *given})
    counts = [[0] * len(labels) for _ in labels]
    for true, label in zip(truth, given, strict=True):
        counts[labels.index(true)][labels.index(label)] += 1
    total, equal = len(truth), sum(counts[index][index] for index in range(len(labels)))
    return ConfusionMatrix(
        labels=labels,
        counts=counts,
        total=total,
        agreement=_share(equal, total),
        interval=wilson(equal, total, level=level) if total else None,
    )


def krippendorff_alpha(
    ratings: Sequence[Sequence[Hashable | None]], measurement: Measurement = "nominal"
) -> float | None:
    """Return Krippendorff's alpha: 1 for perfect agreement, 0 for that of chance.

    Args:
        ratings: For each rater, the value of each item; None for one that was not rated.
        measurement: How values differ: `nominal`, `ordinal` (they are sorted) or `interval` (they are numbers).

    Returns:
        Alpha; None if no item has two ratings, or all ratings are equal, as by chance they would be too.

    Raises:
        ValueError: Raters have different numbers of items.
    """
    if len({len(row) for row in ratings}) > 1:
        raise ValueError("each rater must have an entry for each item; None for one that was not rated")
    items = [[value for value in item if value is not None] for item in zip(*ratings, strict=True)]
    rated = [item for item in items if len(item) > 1]
    found = {value for item in rated for value in item}
    values = sorted(found, key=repr) if measurement == "nominal" else sorted(found)
    if len(values) < 2:
        return None
    coincidences = np.zeros((len(values), len(values)))
    for item in rated:
        counts = np.asarray([item.count(value) for value in values], dtype=np.float64)
        coincidences += (np.outer(counts, counts) - np.diag(counts)) / (len(item) - 1)
    totals: Array = coincidences.sum(axis=0)
    distances = _distances(values, totals, measurement)
    expected = float((np.outer(totals, totals) * distances).sum() / (totals.sum() - 1))
    return 1 - float((coincidences * distances).sum()) / expected


def _distances(values: Sequence[object], totals: Array, measurement: Measurement) -> Array:
    """Return the squared difference of every two values."""
    if measurement == "nominal":
        return 1 - np.eye(len(values))
    if measurement == "interval":
        position: Array = np.asarray(values, dtype=np.float64)
    else:
        # Middle of the ranks of a value: two values differ by the ratings between them and half of their own.
        position = np.cumsum(totals) - totals / 2
    distances: Array = (position[:, None] - position[None, :]) ** 2
    return distances


def _share(part: int, total: int) -> float | None:
    return part / total if total else None
