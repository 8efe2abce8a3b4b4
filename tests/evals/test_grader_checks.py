"""Grading again, labels of people, and references: checks of graders that run no agent."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from duologue.evals.exceptions import EvalError, RecordError
from duologue.evals.report.calibration import TrialLabel, calibrate, read_labels, sample_markdown, sample_to_label
from duologue.evals.report.reference_check import ReferenceResult, check_references
from duologue.evals.report.regrade import regrade_run
from duologue.evals.report.run_summary import read_run
from duologue.evals.suite.loader import load_suite
from tests.cli.program import duologue
from tests.evals.run_builder import build_run, write_small_suite
from tests.evals.samples import write_suite


def test_grading_again_decides_what_was_undecided_and_runs_no_agent(tmp_path: Path) -> None:
    path = build_run(tmp_path, {"one": {"a": "PFVNC-"}})
    found = asyncio.run(regrade_run(path, jobs=2))

    # The agent crashed in one, and one was not run; V and N have answers that do not pass.
    assert (found.graded, found.skipped) == (4, 1)
    assert [(each.trial, each.before, each.after) for each in found.changed] == [(3, None, False), (4, None, False)]
    assert [trial.passed for trial in read_run(path).trials()] == [True, False, False, False, None, None]


def test_graders_of_a_changed_suite_are_used(tmp_path: Path) -> None:
    path = build_run(tmp_path, {"one": {"a": "PF"}})
    graders = [{"type": "text", "contains": ["wrong"]}]
    changed = write_small_suite(tmp_path / "changed", ["a"], "hello", {"a": {"graders": graders}})
    found = asyncio.run(regrade_run(path, suite=changed))

    assert [(each.before, each.after) for each in found.changed] == [(True, False), (False, True)]
    with pytest.raises(EvalError, match="the suite has no case 'a'"):
        asyncio.run(regrade_run(path, suite=write_small_suite(tmp_path / "other", ["b"], "hello", {})))


def test_a_grader_that_cannot_decide_is_named(tmp_path: Path) -> None:
    path = build_run(tmp_path, {"one": {"a": "P"}})
    graders = [{"type": "file", "path": "x"}]
    suite = write_small_suite(tmp_path / "x", ["a"], "hello", {"a": {"graders": graders}})
    found = asyncio.run(regrade_run(path, suite=suite))

    assert found.changed[0].after is None
    assert "workspace of the trial was not saved" in found.undecided[0].errors[0]


def test_a_damaged_record_does_not_keep_others_from_being_graded(tmp_path: Path) -> None:
    path = build_run(tmp_path, {"one": {"a": "NDC"}})
    found = asyncio.run(regrade_run(path, jobs=2))

    assert (found.graded, found.skipped) == (1, 1)
    assert [(each.trial, each.before, each.after) for each in found.undecided] == [(2, None, None)]
    assert "result.json is damaged" in found.undecided[0].errors[0]

    shown = duologue(tmp_path, "eval", "grade", "run")
    assert (shown.returncode, shown.stderr) == (1, "")
    assert "one, a, trial 2: " in shown.stdout
    assert shown.stdout.endswith("1 graded, 0 changed, 1 undecided, 1 not to be graded\n")


def labels_of(*words: str, rater: str = "") -> list[TrialLabel]:
    """Return labels of the trials 1, 2 and so on: `P`, `F`, or `-` for none."""
    values = {"P": True, "F": False, "-": None}
    return [
        TrialLabel(case="a", agent="one", trial=number, passed=values[word], rater=rater)
        for number, word in enumerate(words, 1)
    ]


def test_labels_are_compared_with_the_graders(tmp_path: Path) -> None:
    run = read_run(build_run(tmp_path, {"one": {"a": "PPPFFFC"}}))
    found = calibrate(run, [*labels_of(*"PPFFFPP"), TrialLabel(case="z", agent="one", trial=1, passed=True)])

    assert found.matrix.labels == ["fail", "pass"]
    assert found.matrix.counts == [[2, 1], [1, 2]]
    assert found.matrix.agreement == pytest.approx(4 / 6)
    assert (found.labelled, found.undecided, found.unknown, found.tied) == (6, 1, 1, 0)
    # 12 ratings, 6 of each: expected disagreement 2*6*6/(12*11), observed 2/6; alpha = 1 - (1/3) / (6/11).
    assert found.alpha == pytest.approx(1 - (1 / 3) / (6 / 11))
    assert found.alpha_of_people is None
    assert found.disagreements == ["one, a, trial 3: people say fail", "one, a, trial 6: people say pass"]


def test_of_several_people_the_majority_counts(tmp_path: Path) -> None:
    run = read_run(build_run(tmp_path, {"one": {"a": "PPF"}}))
    labels = [*labels_of(*"PP-", rater="x"), *labels_of(*"PFF", rater="y"), *labels_of(*"P-F", rater="z")]
    found = calibrate(run, labels)

    assert (found.labelled, found.tied, found.matrix.agreement) == (3, 1, 1.0)
    assert found.alpha_of_people is not None


def test_a_grader_can_be_calibrated_alone(tmp_path: Path) -> None:
    run = read_run(build_run(tmp_path, {"one": {"a": "PF"}}))

    assert calibrate(run, labels_of("P", "F"), grader="text 1").labelled == 2
    assert calibrate(run, []).matrix.total == 0


def test_a_grader_that_the_run_does_not_have_is_refused_and_those_that_it_has_are_named(tmp_path: Path) -> None:
    run = read_run(build_run(tmp_path, {"one": {"a": "PF"}}))

    for ask in (lambda: calibrate(run, [], grader="text 2"), lambda: sample_to_label(run, 2, grader="text 2")):
        with pytest.raises(EvalError, match=r"no grader 'text 2': it has 'text 1'; did you mean 'text 1'\?"):
            ask()
    ungraded = read_run(build_run(tmp_path / "other", {"one": {"a": "C"}}))
    with pytest.raises(EvalError, match="none of its trials has been graded"):
        calibrate(ungraded, [], grader="text 1")
    with pytest.raises(EvalError, match="nothing to label"):
        sample_to_label(ungraded, 1)
    with pytest.raises(ValueError, match="at least one trial, not 0"):
        sample_to_label(run, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed=-1"], "argument --seed: expected a whole number from 0, not '-1'"),
        (["--sample", "0"], "argument -s/--sample: expected a number from 1, not 0"),
        (["--sample=-2"], "argument -s/--sample: expected a whole number, not '-2'"),
        (["--labels", "labels.jsonl", "--markdown"], "`--markdown` and `-o` are for a sample"),
        (["--grader", "text"], "no grader 'text': it has 'text 1'"),
    ],
)
def test_wrong_arguments_of_a_calibration_are_refused_with_a_sentence(
    tmp_path: Path, words: list[str], message: str
) -> None:
    build_run(tmp_path, {"one": {"a": "PF"}})
    (tmp_path / "labels.jsonl").touch()
    found = duologue(tmp_path, "eval", "calibrate", "run", *words)

    assert found.returncode in (1, 2)
    assert message in found.stderr
    assert found.stdout == ""


def test_a_sample_has_as_many_passed_as_failed_trials(tmp_path: Path) -> None:
    run = read_run(build_run(tmp_path, {"one": {"a": "PPPPPPFFC", "b": "PPPPPPPP-"}}))
    sample = sample_to_label(run, 6)
    results = {(trial.case, trial.trial): trial.passed for trial in run.trials()}
    chosen = [results[label.case, label.trial] for label in sample]

    assert (chosen.count(True), chosen.count(False)) == (4, 2)
    assert sample == sample_to_label(run, 6)
    assert sample != sample_to_label(run, 6, seed=1)
    assert sample[0].passed is None
    assert "hello" in sample[0].output
    assert sample_markdown(sample).count("- [ ] the grader is right") == 6


def test_a_line_that_is_no_label_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text('{"case": "a", "agent": "one", "trial": 1, "pass": "yes"}\n')

    with pytest.raises(RecordError, match="line 1 is no label such as"):
        read_labels(tmp_path / "labels.jsonl")


SUITE = """
[[cases]]
id = "good"
prompts = ["Write the sum."]
files = [{ path = "numbers.txt", text = "1 2 3" }]
solution = [{ path = "sum.txt", text = "6" }]
graders = [{ type = "file", path = "sum.txt", equals = "6" }, { type = "text", of = "patch", contains = ["+6"] }]

[[cases]]
id = "checks-nothing"
prompts = ["Write the sum."]
solution = [{ path = "sum.txt", text = "6" }]
graders = [{ type = "text", lacks = ["error"] }]

[[cases]]
id = "wrong"
prompts = ["What is 1 + 1?"]
reference = "3"
graders = [{ type = "text", equals = "2" }]

[[cases]]
id = "without"
prompts = ["Anything."]
"""


async def test_references_and_solutions_are_graded(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path, SUITE))
    found: dict[str, ReferenceResult] = {each.id: each async for each in check_references(suite.cases)}

    assert list(found) == ["good", "checks-nothing", "wrong"]
    assert {name: each.is_valid for name, each in found.items()} == {
        "good": True, "checks-nothing": False, "wrong": False,
    }  # fmt: skip
    assert "also pass the workspace without the solution" in found["checks-nothing"].reasoning
    assert "the output is not '2'" in found["wrong"].reasoning


GRADER = """
import json, pathlib, sys
trial = json.load(sys.stdin)
found = pathlib.Path(trial["cwd"], "sum.txt")
print(json.dumps({"pass": found.is_file() and found.read_text() == "6"}))
"""


def test_a_grader_of_the_command_line_grades_a_suite_in_another_directory(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    write_suite(folder, SUITE.replace('text = "6"', 'source = "six.txt"').partition('[[cases]]\nid = "wrong"')[0])
    (folder / "six.txt").write_text("6")
    (tmp_path / "grade.py").write_text(GRADER)
    found = duologue(
        tmp_path, "eval", "validate-refs", "suite/suite.toml", "--grader", f"{sys.executable} grade.py", "--json"
    )

    assert found.returncode == 0, found.stderr
    assert [json.loads(line)["pass"] for line in found.stdout.splitlines()] == [True, True]


def test_the_commands_that_check_graders(tmp_path: Path) -> None:
    build_run(tmp_path, {"one": {"a": "PFV"}})
    write_suite(tmp_path, SUITE)
    graded = duologue(tmp_path, "eval", "grade", "run")
    sample = duologue(tmp_path, "eval", "calibrate", "run", "--sample", "2")
    labels = [json.loads(line) | {"pass": True} for line in sample.stdout.splitlines()]
    (tmp_path / "labels.jsonl").write_text("\n".join(json.dumps(label) for label in labels))
    calibrated = duologue(tmp_path, "eval", "calibrate", "run", "--labels", "labels.jsonl")
    references = duologue(tmp_path, "eval", "validate-refs", "suite.toml", "--json")

    assert (
        graded.stdout
        == "one, a, trial 3: undecided, now failed\n3 graded, 1 changed, 0 undecided, 0 not to be graded\n"
    )
    assert "agreement        0.500 (95 % interval" in calibrated.stdout
    assert references.returncode == 1
    assert [json.loads(line)["pass"] for line in references.stdout.splitlines()] == [True, True, False]
    assert "1 of 3 references pass their graders, 1 cases have none" in references.stderr
