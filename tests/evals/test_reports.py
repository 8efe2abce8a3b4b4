"""The read model of runs: what counts, what is missing and why, and numbers that were computed by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from msgspec import structs

from duologue.evals.exceptions import EvalError, RecordError
from duologue.evals.record.manifest import WorkspaceBase
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.report.eval_report import make_report, metrics_of
from duologue.evals.report.harness_results import read_harness_run
from duologue.evals.report.markdown import comparison_to_markdown, to_markdown
from duologue.evals.report.run_comparison import compare_runs
from duologue.evals.report.run_summary import read_run
from duologue.evals.report.thresholds import Threshold, parse_threshold, unmet_thresholds
from tests.cli.program import duologue
from tests.evals.run_builder import build_run


@pytest.mark.fault("TRI-06")
def test_every_trial_is_there_and_those_that_do_not_count_have_a_reason(tmp_path: Path) -> None:
    run = read_run(build_run(tmp_path, {"one": {"a": "PFCVND-"}}))
    trials = run.agents[0].cases[0].trials

    assert [trial.passed for trial in trials] == [True, False, None, None, None, None, None]
    assert [trial.missing for trial in trials] == [
        None, None, "agent_crashed", "verifier_failed", "not_graded", "record_damaged", "not_run",
    ]  # fmt: skip
    assert [trial.score for trial in trials[:3]] == [1.0, 0.0, None]
    assert trials[2].detail == "hello"
    assert "the workspace of the trial was not saved" in trials[3].detail
    assert "result.json is damaged" in trials[5].detail
    assert trials[0].directory == "trials/one/a/1"
    assert trials[0].grades[0].passed is True
    assert run.agents[0].cases[0].missing == {
        "agent_crashed": 1, "verifier_failed": 1, "not_graded": 1, "record_damaged": 1, "not_run": 1,
    }  # fmt: skip


@pytest.mark.parametrize("graders", [[], [{"type": "text", "matches": "right", "required": False}]])
def test_a_case_without_required_graders_has_no_result(tmp_path: Path, graders: list[dict[str, object]]) -> None:
    path = build_run(tmp_path, {"one": {"a": "PFNC-"}}, fields={"a": {"graders": graders}})
    trials = list(read_run(path).trials())

    assert [trial.passed for trial in trials] == [None] * 5
    assert [trial.missing for trial in trials] == ["no_graders"] * 3 + ["agent_crashed", "not_run"]


def test_a_trial_that_failed_a_required_grader_has_failed_whatever_others_say(tmp_path: Path) -> None:
    # The workspace was not saved, so that the second grader cannot decide.
    graders = [{"type": "text", "matches": "right"}, {"type": "file", "path": "x"}]
    path = build_run(tmp_path, {"one": {"a": "PF"}}, fields={"a": {"graders": graders}})
    passed, failed = read_run(path).trials()

    assert (passed.passed, passed.missing) == (None, "verifier_failed")
    assert (failed.passed, failed.score, failed.missing) == (False, 0.0, None)


def test_missing_trials_are_not_failures(tmp_path: Path) -> None:
    report = make_report([read_run(build_run(tmp_path, {"one": {"a": "PC", "b": "FC", "c": "PP"}}))])
    (agent,) = report.agents
    first = agent.estimate_of("pass@1")

    assert first is not None
    assert first.value == pytest.approx(2 / 3)  # 1, 0 and 1, not 0.5, 0 and 1
    assert first.missing == 2
    second = agent.estimate_of("pass@2")
    assert second is not None
    assert second.value == 1.0
    assert second.left_out == ("a", "b")


def test_the_numbers_of_a_report_are_those_computed_by_hand(tmp_path: Path) -> None:
    run = build_run(tmp_path, {"one": {"a": "PPF", "b": "PFF", "c": "PPP"}}, costs={"one": 0.25})
    (agent,) = make_report([read_run(run)]).agents
    values = {each.metric: each.value for each in agent.estimates}

    # a: 2 of 3, b: 1 of 3, c: 3 of 3
    assert values["pass@1"] == pytest.approx((2 / 3 + 1 / 3 + 1) / 3)
    assert values["pass@2"] == pytest.approx((1 + 2 / 3 + 1) / 3)  # b: 1 - C(2,2)/C(3,2)
    assert values["pass^2"] == pytest.approx((1 / 3 + 0 + 1) / 3)  # a: C(2,2)/C(3,2)
    assert values["pass@3"] == 1.0
    assert values["pass^3"] == pytest.approx(1 / 3)
    assert values["score"] == values["pass@1"]
    assert agent.flakiness.share == pytest.approx(2 / 3)
    assert agent.flakiness.flip_rate == pytest.approx((2 * 2 / 6 + 2 * 2 / 6 + 0) / 3)
    assert [case.is_flaky for case in agent.cases] == [True, True, False]
    assert agent.cost is not None
    assert (agent.cost.mean, agent.cost.total, agent.cost.trials, agent.cost.unit) == (0.25, 2.25, 9, "USD")
    assert agent.seconds is not None
    assert agent.seconds.mean == 2.0
    interval = agent.cases[0].interval
    assert interval is not None
    # Wilson for 2 of 3: (p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)
    assert interval.low == pytest.approx(0.2076596, abs=1e-6)
    assert interval.high == pytest.approx(0.9385081, abs=1e-6)


def test_a_case_in_quarantine_is_listed_and_not_part_of_estimates_or_thresholds(tmp_path: Path) -> None:
    path = build_run(tmp_path, {"one": {"a": "PP", "b": "FF"}}, fields={"b": {"quarantine": "depends on the date"}})
    run = read_run(path)
    report = make_report([run])
    first = report.agents[0].estimate_of("pass@1")

    assert first is not None
    assert first.value == 1.0
    assert report.agents[0].cases[1].quarantine == "depends on the date"
    assert any("b is in quarantine" in note for note in report.notes)
    assert unmet_thresholds(run, [Threshold("pass@1", 1.0)]) == []


def test_agents_of_several_runs_with_one_label_get_the_name_of_their_run(tmp_path: Path) -> None:
    before = read_run(build_run(tmp_path / "one", {"x": {"a": "P"}, "y": {"a": "P"}}, name="before"))
    after = read_run(build_run(tmp_path / "two", {"x": {"a": "F"}}, name="after"))
    report = make_report([before, after])

    assert [agent.label for agent in report.agents] == ["before/x", "y", "after/x"]
    assert len(report.comparisons) == 3
    assert [agent.label for agent in make_report([after, after]).agents] == ["after/x", "after/x (2)"]


def test_runs_of_different_suites_are_reported_with_a_note(tmp_path: Path) -> None:
    one = read_run(build_run(tmp_path / "one", {"x": {"a": "P"}}))
    two = read_run(build_run(tmp_path / "two", {"y": {"b": "P"}}))

    assert "different versions of the suite" in make_report([one, two]).notes[0]
    assert make_report([one, two]).comparisons[0].left_out == ("a", "b")


def test_a_run_without_its_suite_is_reported_with_a_note(tmp_path: Path) -> None:
    path = build_run(tmp_path, {"x": {"a": "P"}})
    (path / "suite.json").unlink()

    assert "tags, families and quarantine are not known" in read_run(path).notes[0]


def test_a_report_says_of_how_many_trials_only_some_writes_are_known(tmp_path: Path) -> None:
    path = build_run(tmp_path, {"one": {"a": "PPF"}})
    first, second, _ = RunDirectory.open(path).records()
    confined = structs.replace(first.manifest(), workspace=WorkspaceBase(sandbox="bwrap", is_watched=True))
    first.write_manifest(confined)
    second.manifest_file.write_text("{")
    report = make_report([read_run(path)])

    assert [trial.is_watched for trial in report.trials()] == [True, None, False]
    (note,) = (note for note in report.notes if "watched" in note)
    assert note == (
        "one: 1 of 2 trials were not confined: of what they wrote outside of the workspace, only files in HOME and "
        "TMPDIR are listed, and nothing else was watched"
    )


def test_a_directory_without_a_run_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="is not the directory of a run"):
        read_run(tmp_path)
    with pytest.raises(EvalError, match="at least one run"):
        make_report([])


@pytest.mark.parametrize("lacking", ["agents", "cases"])
def test_a_run_without_agents_or_cases_is_refused_with_a_sentence(tmp_path: Path, lacking: str) -> None:
    path = build_run(tmp_path, {"one": {"a": "P"}})
    manifest = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**manifest, lacking: []}))

    with pytest.raises(EvalError, match=f"run has no {lacking}, so that there is nothing to report"):
        make_report([read_run(path)])
    shown = duologue(tmp_path, "eval", "report", "run", "--html", "page.html")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == f"duologue: run has no {lacking}, so that there is nothing to report\n"


@pytest.mark.parametrize(
    ("trials", "names"),
    [
        (1, ["pass@1", "score"]),
        (2, ["pass@1", "score", "pass@2", "pass^2"]),
        (7, ["pass@1", "score", "pass@2", "pass@3", "pass@5", "pass@7", "pass^2", "pass^3", "pass^5", "pass^7"]),
    ],
)
def test_metrics_are_reported_for_as_many_trials_as_there_are(trials: int, names: list[str]) -> None:
    assert metrics_of(trials, "pass@1") == names


def test_a_threshold_that_is_not_reached_is_a_sentence(tmp_path: Path) -> None:
    run = read_run(build_run(tmp_path, {"good": {"a": "PP", "b": "PP"}, "bad": {"a": "PF", "b": "-C"}}))

    assert unmet_thresholds(run, [parse_threshold("pass@1=0.5")]) == []
    assert unmet_thresholds(run, [parse_threshold("pass@1=80%"), parse_threshold("complete=1")]) == [
        "bad: pass@1 is 0.500; at least 0.8 is required (1 of 2 cases have a value, 2 trials are missing)",
        "bad: complete is 0.500; at least 1 is required (2 of 4 trials count)",
    ]


def test_a_run_without_any_value_reaches_no_threshold(tmp_path: Path) -> None:
    run = read_run(build_run(tmp_path, {"one": {"a": "CC"}}))

    assert unmet_thresholds(run, [Threshold("pass@1", 0.0)]) == [
        "one: pass@1 has no value; at least 0 is required (0 of 1 cases have a value, 2 trials are missing)"
    ]


def test_rounding_does_not_decide_about_a_threshold(tmp_path: Path) -> None:
    cases = {f"c{number}": "P" if number < 24 else "F" for number in range(30)}

    assert unmet_thresholds(read_run(build_run(tmp_path, {"one": cases})), [Threshold("pass@1", 0.8)]) == []


@pytest.mark.parametrize("text", ["pass@1", "pass@1=2", "pass@1=", "pass@1=nan", "=0.5", "pass@0=0.5", "speed=0.5"])
def test_a_threshold_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_threshold(text)


@pytest.mark.parametrize("name", ["a|b", "a\\|b", "a | b | c", "|", "`a` | b"])
def test_a_bar_in_the_name_of_a_case_does_not_end_its_cell_in_markdown(tmp_path: Path, name: str) -> None:
    for file, passed in (("one", True), ("two", False)):
        line = {"id": name, "output": "x", "score": {"pass": passed, "score": float(passed)}}
        (tmp_path / f"{file}.jsonl").write_text(json.dumps(line))
    runs = [read_harness_run(tmp_path / f"{file}.jsonl") for file in ("one", "two")]

    compared = comparison_to_markdown(compare_runs(runs, agents=["one", "two"]))
    for text, columns in ((to_markdown(make_report(runs)), 3), (compared, 4)):
        rows = [row for row in table_rows(text) if row[0] == name.replace("`", "'")]
        assert [(len(row), "" in row) for row in rows] == [(columns, False)]


def table_rows(markdown: str) -> list[list[str]]:
    """Return the text of the cells of all tables, as a reader of Markdown sees them."""
    rows: list[list[str]] = []
    is_in_row = False
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type in ("tr_open", "tr_close"):
            is_in_row = token.type == "tr_open"
            rows += [[]] if is_in_row else []
        elif token.type == "inline" and is_in_row:
            rows[-1].append("".join(child.content for child in token.children or ()))
    return rows
