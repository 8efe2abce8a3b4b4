"""Agreement of graders with people: the confusion matrix, and Krippendorff's alpha with his own example."""

from __future__ import annotations

import pytest

from duologue.evals.statistics.agreement import Measurement, confusion_matrix, krippendorff_alpha
from duologue.evals.statistics.case_trials import CaseTrials
from duologue.evals.statistics.flakiness import flakiness, flip_rate_between

# Four observers and twelve units: Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011.
EXAMPLE: list[list[int | None]] = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


@pytest.mark.parametrize(("measurement", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_example(measurement: Measurement, alpha: float) -> None:
    assert krippendorff_alpha(EXAMPLE, measurement) == pytest.approx(alpha, abs=5e-4)


def test_alpha_is_1_for_perfect_agreement_and_negative_for_systematic_disagreement() -> None:
    assert krippendorff_alpha([["a", "b", "a"], ["a", "b", "a"]]) == 1.0
    found = krippendorff_alpha([["a", "b", "a", "b"], ["b", "a", "b", "a"]])
    assert found is not None
    assert found < 0


@pytest.mark.parametrize("ratings", [[], [[]], [["a", "a"], ["a", "a"]], [["a", None], [None, "b"]], [["a", "b"]]])
def test_alpha_is_undefined_where_nothing_can_be_compared(ratings: list[list[str | None]]) -> None:
    assert krippendorff_alpha(ratings) is None


def test_raters_with_different_numbers_of_items_are_refused() -> None:
    with pytest.raises(ValueError, match="an entry for each item"):
        krippendorff_alpha([["a"], ["a", "b"]])


def test_a_confusion_matrix_counts_what_a_grader_gets_wrong() -> None:
    truth = ["pass"] * 8 + ["fail"] * 4
    given = ["pass"] * 6 + ["fail"] * 2 + ["fail"] * 3 + ["pass"]
    matrix = confusion_matrix(truth, given)

    assert (matrix.labels, matrix.counts, matrix.total) == (["fail", "pass"], [[3, 1], [2, 6]], 12)
    assert matrix.agreement == 0.75
    assert [matrix.recall("pass"), matrix.precision("pass")] == [0.75, pytest.approx(6 / 7)]
    assert matrix.interval is not None
    assert matrix.interval.low < 0.5 < matrix.interval.high


def test_an_empty_confusion_matrix_has_no_shares() -> None:
    matrix = confusion_matrix([], [])

    assert (matrix.agreement, matrix.interval, matrix.counts) == (None, None, [])
    assert confusion_matrix(["a"], ["b"]).precision("a") is None
    with pytest.raises(ValueError, match="shorter"):
        confusion_matrix(["a", "b"], ["a"])


def test_flaky_cases_are_those_that_pass_and_fail() -> None:
    cases = [
        CaseTrials(case="stable", passed=[True] * 4),
        CaseTrials(case="rare", passed=[True, True, True, False]),
        CaseTrials(case="even", passed=[True, False] * 2),
        CaseTrials(case="once", passed=[True]),
    ]
    found = flakiness(cases)

    assert found.cases == ("even", "rare")
    assert found.share == pytest.approx(2 / 3)
    assert found.flip_rate == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)
    assert flakiness([cases[3]]).share is None


def test_the_flip_rate_between_two_runs() -> None:
    one = [CaseTrials(case="a", passed=[True]), CaseTrials(case="b", passed=[True, False])]
    two = [CaseTrials(case="a", passed=[False]), CaseTrials(case="b", passed=[True]), CaseTrials(case="c", passed=[])]

    assert flip_rate_between(one, two) == pytest.approx(0.75)
    assert flip_rate_between(one, []) is None
