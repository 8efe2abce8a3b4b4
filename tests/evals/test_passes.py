"""pass@k and pass^k are the shares of all selections of k trials, and have no value without a selection."""

from __future__ import annotations

from itertools import combinations

import pytest

from duologue.evals.statistics.case_trials import CaseTrials, parse_metric
from duologue.evals.statistics.passes import pass_at_k, pass_hat_k

MOST_TRIALS = 9


def test_both_are_equal_to_a_full_enumeration() -> None:
    for n in range(1, MOST_TRIALS + 1):
        for c in range(n + 1):
            trials = [True] * c + [False] * (n - c)
            for k in range(1, n + 1):
                selections = list(combinations(trials, k))
                any_passed = sum(map(any, selections)) / len(selections)
                all_passed = sum(map(all, selections)) / len(selections)

                assert pass_at_k(n, c, k) == pytest.approx(any_passed, abs=1e-12)
                assert pass_hat_k(n, c, k) == pytest.approx(all_passed, abs=1e-12)


def test_both_are_undefined_for_fewer_trials_than_k() -> None:
    assert [pass_at_k(n, c, 5) for n in range(5) for c in range(n + 1)] == [None] * 15
    assert [pass_hat_k(n, c, 5) for n in range(5) for c in range(n + 1)] == [None] * 15


def test_one_of_five_is_certain_to_pass_once_in_five_and_not_by_the_biased_formula() -> None:
    biased = 1 - (1 - 1 / 5) ** 5

    assert pass_at_k(5, 1, 5) == 1.0
    assert biased == pytest.approx(0.672, abs=1e-3)


def test_the_estimates_stay_exact_for_thousands_of_trials() -> None:
    assert pass_at_k(10_000, 1, 5_000) == 0.5
    assert pass_hat_k(10_000, 9_999, 5_000) == 0.5


@pytest.mark.parametrize(("n", "c", "k"), [(5, 6, 1), (5, -1, 1), (5, 1, 0), (-1, 0, 1)])
def test_impossible_numbers_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=r"must be at least 1|cannot have passed"):
        pass_at_k(n, c, k)
    with pytest.raises(ValueError, match=r"must be at least 1|cannot have passed"):
        pass_hat_k(n, c, k)


def test_a_metric_gives_the_value_of_a_case() -> None:
    trials = CaseTrials(case="a", passed=[True, False, True], scores=[1.0, 0.4, 0.9])
    names = ["score", "pass@1", "pass@2", "pass^2", "pass@4"]

    assert [parse_metric(name).value(trials) for name in names] == [
        pytest.approx(2.3 / 3),
        pytest.approx(2 / 3),
        1.0,
        pytest.approx(1 / 3),
        None,
    ]
    assert parse_metric("score").value(CaseTrials(case="a", passed=[])) is None


@pytest.mark.parametrize("name", ["pass", "pass@", "pass@0", "pass@-1", "pass^x", "accuracy", "pass@1 "])
def test_an_unknown_metric_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected score, pass@K or pass"):
        parse_metric(name)


def test_scores_that_do_not_belong_to_the_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="2 trials have 1 scores"):
        CaseTrials(case="a", passed=[True, False], scores=[1.0])
