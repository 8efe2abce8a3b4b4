"""Comparisons are paired by case, name a winner only where the data show one, and say what they could have found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from duologue.evals.statistics.case_trials import CaseTrials
from duologue.evals.statistics.comparison import compare, compare_all, holm, mcnemar_p
from duologue.evals.statistics.power import cases_needed, least_units, minimum_detectable_effect
from duologue.evals.statistics.resamples import bootstrap_interval, exact_sign_flip_p, sign_flip_p
from tests.evals.simulated import CASES, DIFFICULTIES, TRIALS, case_trials, shares

COMPARISONS = 2_000
SAMPLE = 20
"""Comparisons that go through the public function in the usual run."""


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_equal_agents_differ_in_at_most_6_of_100_comparisons(
    difficulty: str, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    chance = np.random.default_rng(77)
    chances = DIFFICULTIES[difficulty](chance, COMPARISONS)
    differences = shares(chance, chances) - shares(chance, chances)
    flips = min(1_000 * chaos_factor, 10_000)
    p_values = sign_flip_p(differences, flips=flips, seed=5)
    low, high = bootstrap_interval(differences, np.ones(CASES), level=0.95, draws=flips, seed=6)
    better = float(np.mean((p_values <= 0.05) & ((low > 0) | (high < 0))))
    record_property("count", COMPARISONS)
    record_property("false_better", better)

    assert better <= 0.06


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_public_function_finds_no_winner_among_equal_agents_more_often(
    difficulty: str, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    chance = np.random.default_rng(78)
    count = SAMPLE * chaos_factor
    chances = DIFFICULTIES[difficulty](chance, count)
    first, second = shares(chance, chances), shares(chance, chances)
    verdicts = [
        compare(case_trials(first[:, n]), case_trials(second[:, n]), draws=1_000, seed=n).verdict for n in range(count)
    ]
    better = sum(verdict != "no_difference_shown" for verdict in verdicts)
    record_property("count", count)

    # With few comparisons, so many that fewer than 1 in 1,000 fair tests would have more.
    assert better <= max(0.06 * count, float(stats.binom.ppf(0.999, count, 0.05)))


def test_a_clear_difference_has_a_winner() -> None:
    chance = np.random.default_rng(3)
    chances = DIFFICULTIES["uniform"](chance, 1)
    strong, weak = shares(chance, chances**0.25)[:, 0], shares(chance, chances)[:, 0]
    found = compare(case_trials(strong), case_trials(weak), names=("strong", "weak"))
    reverse = compare(case_trials(weak), case_trials(strong), names=("weak", "strong"))

    assert (found.verdict, reverse.verdict) == ("first_better", "second_better")
    assert found.sentence.startswith("strong is better than weak: +0.")
    assert reverse.sentence.startswith("strong is better than weak: +0.")
    assert found.difference == pytest.approx(float(strong.mean() - weak.mean()))
    assert found.test == "sign_flip"


def test_equal_results_are_no_difference_shown() -> None:
    cases = case_trials(np.random.default_rng(4).uniform(size=CASES))
    found = compare(cases, cases, names=("one", "two"))

    assert (found.verdict, found.p_value, found.difference) == ("no_difference_shown", 1.0, 0.0)
    assert found.sentence.startswith("no difference shown between one and two: +0.000 (95 % interval")
    # Nothing differed, and yet only a difference of this size would have been found.
    assert found.detectable == pytest.approx(6 / 30)
    assert found.interval is not None
    assert found.interval.low < -0.05 < 0.05 < found.interval.high


def test_one_number_for_each_agent_is_too_little_for_a_verdict() -> None:
    # acp-harness resamples the one average of each run: width 0, and every difference is "significant".
    found = compare([CaseTrials(case="a", passed=[True] * 9)], [CaseTrials(case="a", passed=[False] * 9)])

    assert (found.verdict, found.interval, found.detectable) == ("too_few_cases", None, None)
    assert found.sentence == "too few cases: 1, and fewer than 6 cannot show a difference between any two agents"


@pytest.mark.parametrize(("cases", "verdict"), [(5, "too_few_cases"), (6, "first_better")])
def test_five_cases_never_show_a_difference_and_six_that_all_agree_do(cases: int, verdict: str) -> None:
    one = [CaseTrials(case=str(n), passed=[True]) for n in range(cases)]
    two = [CaseTrials(case=str(n), passed=[False]) for n in range(cases)]

    assert least_units(0.05) == 6
    assert compare(one, two).verdict == verdict


def test_one_trial_of_each_case_is_compared_with_mcnemar() -> None:
    one = [CaseTrials(case=str(n), passed=[n < 20]) for n in range(30)]
    two = [CaseTrials(case=str(n), passed=[n < 10 or n == 29]) for n in range(30)]
    found = compare(one, two)

    assert found.test == "mcnemar"
    assert found.p_value == pytest.approx(mcnemar_p(10, 1)) == pytest.approx(2 * (1 + 11) / 2**11)
    assert mcnemar_p(0, 0) == 1.0


def test_mcnemar_is_the_sign_flip_test_of_single_trials() -> None:
    for first, second in [(0, 0), (1, 0), (6, 0), (7, 2), (5, 5), (12, 3)]:
        differences = np.array([1.0] * first + [-1.0] * second + [0.0] * 4)

        assert exact_sign_flip_p(differences) == pytest.approx(mcnemar_p(first, second), abs=1e-12)


def test_all_sign_flips_agree_with_the_permutation_test_of_scipy() -> None:
    differences = np.random.default_rng(8).normal(0.3, 1, 9)
    theirs = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=2**9, alternative="two-sided"
    )

    assert exact_sign_flip_p(differences) == pytest.approx(float(theirs.pvalue), abs=1e-12)


def test_random_sign_flips_agree_with_all_of_them() -> None:
    differences = np.random.default_rng(9).integers(-5, 6, 18) / 5
    exact = exact_sign_flip_p(differences)

    assert float(sign_flip_p(differences[:, None], flips=50_000, seed=1)[0]) == pytest.approx(exact, abs=0.01)
    with pytest.raises(ValueError, match="21 units have too many sign flips"):
        exact_sign_flip_p(np.ones(21))


def test_all_sign_flips_are_tried_where_few_cases_differ() -> None:
    one = case_trials(np.array([1.0] * 8 + [0.6] * 92))
    two = case_trials(np.array([0.2] * 8 + [0.6] * 92))
    found = compare(one, two)

    assert (found.test, found.p_value) == ("sign_flip_exact", 2 / 2**8)
    assert found.verdict == "first_better"


def test_holm_corrects_for_the_number_of_comparisons() -> None:
    assert holm([0.01, 0.04, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_difference_between_two_of_many_agents_needs_more_evidence() -> None:
    chance = np.random.default_rng(1)
    agents = {f"a{n}": case_trials(shares(chance, np.full((CASES, 1), 0.5))[:, 0]) for n in range(5)}
    strong = [CaseTrials(case=case.case, passed=[True] * TRIALS) for case in agents["a0"]]
    # One case of six differs in one direction: significant alone, and not among ten comparisons.
    slightly = [
        CaseTrials(case=case.case, passed=[False] * TRIALS if n < 6 else [True] * TRIALS)
        for n, case in enumerate(strong)
    ]
    alone = compare(strong, slightly)
    among = {
        (each.first, each.second): each
        for each in compare_all({"strong": strong, "slightly": slightly, **agents}, draws=1_000)
    }

    assert (alone.verdict, alone.p_value) == ("first_better", 2 / 2**6)
    pair = among["strong", "slightly"]
    assert len(among) == 21
    assert (pair.verdict, pair.p_value) == ("no_difference_shown", alone.p_value)
    assert pair.adjusted_p > 0.05
    assert among["strong", "a0"].verdict == "first_better"


def test_only_cases_that_both_have_are_compared() -> None:
    one = [CaseTrials(case=str(n), passed=[True, False], missing=0) for n in range(10)]
    two = [CaseTrials(case=str(n), passed=[False] * (2 if n < 8 else 0)) for n in range(2, 12)]
    found = compare(one, two)

    assert (found.cases, found.left_out) == (6, ("0", "1", "8", "9", "10", "11"))


def test_families_are_compared_as_units() -> None:
    one = [CaseTrials(case=str(n), passed=[True], family=str(n // 10)) for n in range(50)]
    two = [CaseTrials(case=str(n), passed=[False], family=str(n // 10)) for n in range(50)]

    assert compare(one, two).verdict == "too_few_cases"


def family_trials(shares_of_cases: list[list[float]]) -> list[CaseTrials]:
    """Return ten trials of each case, with these shares of passed ones for each family."""
    return [
        CaseTrials(
            case=f"{family}-{n}",
            passed=[True] * round(10 * share) + [False] * round(10 - 10 * share),
            family=str(family),
        )
        for family, of_family in enumerate(shares_of_cases)
        for n, share in enumerate(of_family)
    ]


def test_families_with_equal_means_have_an_interval_with_a_width() -> None:
    # The cases of a family differ, and all families have the same mean difference: 0.1.
    one = family_trials([[0.7, 0.5]] * 8)
    two = family_trials([[0.5, 0.5]] * 8)
    found = compare(one, two)

    assert found.difference == pytest.approx(0.1)
    assert found.interval is not None
    assert found.interval.method == "wilson"
    assert found.interval.low < 0 < 0.1 < found.interval.high
    assert found.verdict == "no_difference_shown"


def test_a_difference_that_is_only_rounding_counts_as_0() -> None:
    # 0.3 - 0.2 and 0.8 - 0.7 are not the same number.
    unequal = [0.3 - 0.2, 0.8 - 0.7] * 5
    labels = [str(n) for n in range(10)]
    nothing = [0.1 + 0.2 - 0.3, 0.0] * 5

    assert minimum_detectable_effect(unequal, labels) == pytest.approx(0.1 * 6 / 10)
    assert minimum_detectable_effect(nothing, labels) == pytest.approx(6 / 10)


def test_the_detectable_difference_is_found_with_the_power_it_claims() -> None:
    chance = np.random.default_rng(21)
    spread = 0.3
    labels = [str(n) for n in range(CASES)]
    pilot = chance.normal(0, 1, CASES)
    pilot = (pilot - pilot.mean()) / pilot.std(ddof=1) * spread
    effect = minimum_detectable_effect(list(pilot), labels)
    assert effect is not None
    differences = chance.normal(effect, spread, (CASES, 2_000))
    found = float(np.mean(sign_flip_p(differences, flips=1_000, seed=2) <= 0.05))

    assert 0.76 <= found <= 0.86
    assert cases_needed(effect, spread) in (CASES - 1, CASES, CASES + 1)


def test_a_smaller_difference_needs_more_cases() -> None:
    needed = [cases_needed(effect, 0.4) for effect in (0.4, 0.2, 0.1, 0.05)]

    assert needed == sorted(needed)
    assert needed[-1] == pytest.approx(503, abs=5)
    with pytest.raises(ValueError, match="a difference of 0"):
        cases_needed(0, 0.4)
