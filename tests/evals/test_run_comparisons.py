"""Comparisons of runs: which agents are paired, and numbers that were computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.evals.exceptions import EvalError
from duologue.evals.report.markdown import comparison_to_markdown
from duologue.evals.report.run_comparison import compare_runs
from duologue.evals.report.run_summary import RunSummary, read_run
from tests.evals.hostile_texts import HOSTILE
from tests.evals.run_builder import build_run


def outcomes(letters: str) -> dict[str, str]:
    """Return one trial for each of the cases c0, c1 and so on."""
    return {f"c{number}": letter for number, letter in enumerate(letters)}


def run_of(folder: Path, name: str, **agents: str) -> RunSummary:
    """Return a run in which each agent ran each case once."""
    return read_run(build_run(folder / name, {label: outcomes(each) for label, each in agents.items()}, name=name))


def test_one_trial_of_each_case_is_compared_by_mcnemar(tmp_path: Path) -> None:
    # Nine cases only the first passed, one only the second: p = 2 (C(10,0) + C(10,1)) / 2^10.
    run = run_of(tmp_path, "run", one="P" * 9 + "F" + "PPFF", two="F" * 9 + "P" + "PPFF")
    (found,) = compare_runs([run]).comparisons

    assert found.result.test == "mcnemar"
    assert found.result.p_value == pytest.approx(2 * 11 / 1024)
    assert found.result.difference == pytest.approx(8 / 14)
    assert found.result.verdict == "first_better"
    assert found.result.sentence.startswith("one is better than two: +0.571 (95 % interval +0.")


def test_p_values_of_several_agents_are_corrected(tmp_path: Path) -> None:
    run = run_of(tmp_path, "run", one="P" * 10, two="F" * 10, three="PPPPPFFFFF")
    found = {(each.result.first, each.result.second): each.result for each in compare_runs([run]).comparisons}

    # 10 of 10 differ: 2/2^10, of three tests the smallest; 5 of 10 differ: 2/2^5, not below the others.
    assert found["one", "two"].p_value == pytest.approx(2 / 1024)
    assert found["one", "two"].adjusted_p == pytest.approx(3 * 2 / 1024)
    assert found["one", "three"].p_value == found["two", "three"].p_value == pytest.approx(2 / 32)
    assert found["one", "three"].adjusted_p == found["two", "three"].adjusted_p == pytest.approx(2 * 2 / 32)
    assert found["one", "three"].verdict == "no_difference_shown"


def test_no_difference_is_reported_as_that_with_what_could_have_been_found(tmp_path: Path) -> None:
    run = run_of(tmp_path, "run", one="PPPPPPFFFFFF", two="PPPPPFPFFFFF")
    (found,) = compare_runs([run]).comparisons

    assert found.result.verdict == "no_difference_shown"
    assert found.result.detectable is not None
    assert "no difference shown between one and two: +0.000" in found.result.sentence
    assert f"12 cases show differences from {found.result.detectable:.3f} on" in found.result.sentence
    assert [case.case for case in found.cases if case.difference] == ["c5", "c6"]
    assert found.flip_rate == pytest.approx(2 / 12)


def test_an_agent_of_two_runs_is_compared_with_itself(tmp_path: Path) -> None:
    before = run_of(tmp_path, "before", one="PF", two="PP")
    after = run_of(tmp_path, "after", one="PP", two="PP")
    found = compare_runs([before, after])

    assert [(each.result.first, each.result.second) for each in found.comparisons] == [
        ("before/one", "after/one"),
        ("before/two", "after/two"),
    ]
    assert len(compare_runs([before, after], agents=["one"]).comparisons) == 1
    assert len(compare_runs([before, after], agents=["before/one", "after/two"]).comparisons) == 1


def test_runs_of_different_agents_are_compared_with_each_other(tmp_path: Path) -> None:
    (found,) = compare_runs([run_of(tmp_path, "a", one="PF"), run_of(tmp_path, "b", two="PP")]).comparisons

    assert (found.result.first, found.result.second, found.result.verdict) == ("one", "two", "too_few_cases")


def test_a_comparison_needs_two_agents(tmp_path: Path) -> None:
    run = run_of(tmp_path, "run", one="PF")

    with pytest.raises(EvalError, match="needs two agents"):
        compare_runs([run])
    with pytest.raises(EvalError, match="no run has an agent 'three'; the agents are one"):
        compare_runs([run], agents=["three"])


def test_the_same_runs_give_the_same_numbers(tmp_path: Path) -> None:
    letters = {label: {f"c{n}": "PF"[n % k == 0] * 3 for n in range(30)} for label, k in (("one", 2), ("two", 3))}
    path = build_run(tmp_path, letters)

    assert compare_runs([read_run(path)]) == compare_runs([read_run(path)])


def test_hostile_labels_are_plain_text_in_markdown(tmp_path: Path) -> None:
    path = build_run(tmp_path, {HOSTILE: {"a": "P"}, "two": {"a": "F"}})

    assert "<script" not in comparison_to_markdown(compare_runs([read_run(path)])).replace("\\<", "")
