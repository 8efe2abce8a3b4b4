"""Results of acp-harness: read as runs, summarized, and the balance of suites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duologue.evals.exceptions import RecordError
from duologue.evals.report.balance import analyze_balance
from duologue.evals.report.eval_report import make_report
from duologue.evals.report.harness_results import read_harness_lines, read_harness_run
from duologue.evals.report.harness_summaries import summarize_lines, summary_markdown
from duologue.evals.report.phrases import facts
from duologue.evals.suite.case import Case
from duologue.evals.suite.grader_specs import TextGrader
from tests.evals.hostile_texts import HOSTILE

STEPS: list[dict[str, Any]] = [
    {"type": "thought", "content": "Let me read.", "timestamp": 5},
    {"type": "tool_call", "name": "Read", "status": "completed", "input": {"path": "x"}, "timestamp": 10},
    {"type": "plan", "entries": [{"content": "one"}], "timestamp": 12},
    {"type": "message", "content": HOSTILE, "timestamp": 20},
]
TRIALS: dict[str, Any] = {
    "id": "one",
    "input": ["first", "second"],
    "k": 5,
    "passRate": 0.2,
    "passAtK": 0.672,
    "passExpK": 0.0003,
    "trials": [
        {
            "trialNum": n,
            "output": "x" * 1000,
            "trajectory": STEPS,
            "duration": 1500,
            "pass": n == 1,
            "score": float(n == 1),
        }
        for n in range(1, 6)
    ],
    "metadata": {"category": "files"},
}
CAPTURES: list[dict[str, Any]] = [
    {"id": "a", "input": "q", "output": "yes", "trajectory": STEPS, "metadata": {}, "timing": {"total": 900},
     "toolErrors": False, "score": {"pass": True, "score": 0.75}},
    {"id": "b", "input": "q", "output": "", "trajectory": [], "metadata": {}, "timing": {}, "toolErrors": False},
    {"id": "c", "input": "q", "output": "", "trajectory": [], "metadata": {}, "timing": {}, "errors": ["timeout"]},
]  # fmt: skip


def write(path: Path, *lines: object) -> Path:
    """Write JSON lines."""
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return path


def test_trials_of_the_harness_get_the_unbiased_values(tmp_path: Path) -> None:
    report = make_report([read_harness_run(write(tmp_path / "trials.jsonl", TRIALS))])
    values = {each.metric: each.value for each in report.agents[0].estimates}

    # One of five: its own pass@5 of 0.672 is biased.
    assert (values["pass@1"], values["pass@5"], values["pass^5"]) == (0.2, 1.0, 0.0)
    assert report.agents[0].seconds is not None
    assert report.agents[0].seconds.mean == 1.5
    assert facts(report.runs[0]) == f"trials: 1 case, 5 trials of each, {tmp_path}/trials.jsonl"
    assert not any("watched" in note for note in report.notes)


def test_captures_without_a_grade_are_missing(tmp_path: Path) -> None:
    (agent,) = read_harness_run(write(tmp_path / "captures.jsonl", *CAPTURES)).agents
    trials = [case.trials[0] for case in agent.cases]

    assert [(trial.passed, trial.score, trial.missing) for trial in trials] == [
        (True, 0.75, None), (None, None, "not_graded"), (None, None, "harness_failed"),
    ]  # fmt: skip


def test_summaries_have_the_names_of_tool_calls(tmp_path: Path) -> None:
    lines = read_harness_lines(write(tmp_path / "results.jsonl", CAPTURES[0], TRIALS))
    found = list(summarize_lines(lines))

    assert [each.id for each in found] == ["a", *(f"one-trial-{n}" for n in range(1, 6))]
    assert found[0].tool_calls == ["Read"]
    assert found[1].duration == 1500


def test_a_summary_as_markdown_cuts_long_texts_and_has_no_markup_of_agents(tmp_path: Path) -> None:
    text = summary_markdown(read_harness_lines(write(tmp_path / "results.jsonl", TRIALS)))

    assert "[→one-step-2\\] tool call Read (completed)" in text
    assert "… (550 characters) …" in text
    assert "<script" not in text.replace("\\<", "")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "has no results"),
        ("{}", "line 1 is no result of `capture` or `trials`"),
        ('{"id": "a", "output": ""}\n{"id": "a", "output": ""}', "has the id 'a' twice"),
        ("[" * 100_000, "line 1 is no result"),
    ],
)
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, content: str, error: str) -> None:
    (tmp_path / "x.jsonl").write_text(content)

    with pytest.raises(RecordError, match=error):
        read_harness_run(tmp_path / "x.jsonl")


def test_the_balance_of_a_suite_names_what_has_too_few_cases() -> None:
    grader = TextGrader(contains=["x"])
    cases = [Case(id=f"a{n}", prompts=["x"], tags=["files"], graders=[grader]) for n in range(6)]
    cases += [Case(id="b", prompts=["x"], tags=["git", "git"]), Case(id="c", prompts=["x"], metadata={"level": 3})]
    found = analyze_balance(cases)

    assert [(each.name, each.count, each.percentage, each.graded) for each in found.categories] == [
        ("files", 6, 75.0, 6), ("git", 1, 12.5, 0), ("(none)", 1, 12.5, 0),
    ]  # fmt: skip
    assert found.underrepresented == ["git"]  # an even share is 8/3, half of it 1.33
    assert found.suggestions == ["add at least 1 of 'git'", "1 cases have no tags", "2 cases have no graders"]
    assert analyze_balance(cases, key="level").categories[1].name == "3"
    assert analyze_balance([]).categories == []
