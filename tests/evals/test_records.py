"""Records of trials: complete or absent, one result for each trial, older versions read and newer ones refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from duologue.evals.exceptions import RecordError
from duologue.evals.record.attempt import lock_file_of
from duologue.evals.record.key import TrialKey, directory_name
from duologue.evals.record.manifest import RECORD_FORMAT
from duologue.evals.record.result import Grade, Grades, final_outcome
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.record.trial_record import TrialRecord
from tests.evals.samples import run_manifest, small_suite, trial_manifest, trial_result, write_suite


def new_run(folder: Path, *, agents: tuple[str, ...] = ("one", "two"), trials: int = 2) -> RunDirectory:
    """Make the directory of a run."""
    suite = small_suite(folder / "suite")
    return RunDirectory.create(folder / "run", run_manifest(suite, agents=agents, trials=trials), suite)


def commit(run: RunDirectory, key: TrialKey, output: str = "hello") -> TrialRecord:
    """Commit a trial and return its record."""
    with run.begin(key) as attempt:
        attempt.write_manifest(trial_manifest(key))
        attempt.write_trajectory([TrajectoryStep(type="message", number=1, t=0.5, text=output)])
        attempt.write_patch(b"diff --git a/x b/x\n")
        assert attempt.commit(trial_result(key, output=output))
    record = run.record(key)
    assert record is not None
    return record


def test_a_committed_attempt_is_the_record_of_its_trial(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    first, *others = run.pending()
    record = commit(run, first)

    assert record.directory == tmp_path / "run" / "trials" / "one" / "greet" / "1"
    assert record.result() == trial_result(first)
    assert record.manifest() == trial_manifest(first)
    assert [step.text for step in record.trajectory()] == ["hello"]
    assert record.patch().startswith("diff --git")
    assert record.grades() is None
    assert RunDirectory.open(run.path).pending() == others
    assert list((run.path / "attempts").iterdir()) == []


def test_agents_are_interleaved(tmp_path: Path) -> None:
    keys = new_run(tmp_path).pending()

    assert [(key.trial, key.case, key.agent) for key in keys[:5]] == [
        (1, "greet", "one"), (1, "greet", "two"), (1, "edit", "one"), (1, "edit", "two"), (2, "greet", "one"),
    ]  # fmt: skip


def test_an_attempt_that_is_left_is_removed(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    key = run.pending()[0]
    with pytest.raises(ZeroDivisionError), run.begin(key) as attempt:
        attempt.write_manifest(trial_manifest(key))
        raise ZeroDivisionError

    assert key in run.pending()
    assert list((run.path / "attempts").iterdir()) == []


@pytest.mark.fault("TRI-04")
def test_the_first_result_of_a_trial_stays(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    key = run.pending()[0]
    with run.begin(key) as slow:
        commit(run, key, "first")

        assert not slow.commit(trial_result(key, output="second"))
    record = run.record(key)
    assert record is not None
    assert record.result().output == "first"
    with pytest.raises(RecordError, match="has a record already"):
        run.begin(key)


def test_a_failed_attempt_is_set_aside_and_counted(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    key = run.pending()[0]
    for number in (1, 2):
        with run.begin(key) as attempt:
            path = attempt.set_aside(trial_result(key, "provider_failed"))
        assert path.name == f"1-{number}"

    assert run.failed_attempts(key) == 2
    assert key in run.pending()


def test_a_result_of_another_trial_is_not_committed(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    one, two, *_ = run.pending()
    with run.begin(one) as attempt:
        with pytest.raises(ValueError, match="is that of"):
            attempt.commit(trial_result(two))
        attempt.commit(trial_result(one))
        with pytest.raises(ValueError, match="has ended"):
            attempt.commit(trial_result(one))


def test_grades_are_replaced_as_a_whole(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    record = commit(run, run.pending()[0])
    record.write_grades(Grades(passed=False, score=0.0))
    record.write_grades(Grades(passed=True, score=1.0, grades=[Grade(name="a", type="text", passed=True, score=1.0)]))

    grades = record.grades()
    assert grades is not None
    assert (grades.passed, [grade.name for grade in grades.grades]) == (True, ["a"])
    assert json.loads(record.grades_file.read_bytes())["pass"] is True
    assert [path.name for path in record.directory.glob(".*")] == []


def test_a_grader_that_failed_makes_a_trial_missing_and_not_failed(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    result = commit(run, run.pending()[0]).result()
    failed = Grades(grades=[Grade(name="tests", type="command", error="it took longer than 3 s")])

    assert final_outcome(result, Grades(passed=False, score=0.0)).rule.counts
    assert final_outcome(result, failed).kind == "verifier_failed"
    assert not final_outcome(result, failed).rule.counts


def _begin_and_wait(path: Path, key: TrialKey, ready: Event, end: Event) -> None:
    attempt = RunDirectory.open(path).begin(key)
    ready.set()
    end.wait(60)
    attempt.discard()


@pytest.mark.fault("TRI-01")
def test_an_attempt_whose_process_was_killed_is_found_and_a_running_one_is_not(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    key = run.pending()[0]
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    process = context.Process(target=_begin_and_wait, args=(run.path, key, ready, end))
    process.start()
    assert ready.wait(60)

    assert run.interrupted() == []
    process.kill()
    process.join(60)
    (interrupted,) = run.interrupted()
    assert interrupted.key == key
    assert key in run.pending()
    interrupted.remove()
    assert list((run.path / "attempts").iterdir()) == []


def test_an_attempt_that_ended_before_its_key_was_written_is_interrupted(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    (run.path / "attempts" / "x").mkdir()

    (interrupted,) = run.interrupted()
    assert interrupted.key is None
    assert lock_file_of(interrupted.directory).name == "x.lock"


def test_a_run_is_continued_only_with_its_own_suite(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    other = write_suite(tmp_path / "other", '[[cases]]\nid = "x"\nprompts = ["y"]')

    assert RunDirectory.open(run.path, suite_digest=run.manifest.suite_digest).suite() == run.suite()
    with pytest.raises(RecordError, match=r"another version of the suite 'small'.*start a new run"):
        RunDirectory.open(run.path, suite_digest="0" * 64)
    with pytest.raises(RecordError, match="has a run already: continue it with --resume"):
        RunDirectory.create(run.path, run.manifest, run.suite())
    with pytest.raises(RecordError, match="is not the directory of a run"):
        RunDirectory.open(other.parent)


@pytest.mark.parametrize("name", ["run.json", "suite.json"])
def test_a_newer_version_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    run = new_run(tmp_path)
    content = json.loads((run.path / name).read_bytes())
    (run.path / name).write_text(json.dumps(content | {"format": RECORD_FORMAT + 1, "cases": "other things"}))

    with pytest.raises(RecordError, match=r"has format 2, and this version of duologue reads up to 1: install a newer"):
        RunDirectory.open(run.path).suite()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', '{"format": "x"}', '"' + "[" * 100_000])
@pytest.mark.fault("TRI-06")
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    run = new_run(tmp_path)
    record = commit(run, run.pending()[0])
    record.result_file.write_text(content)

    with pytest.raises(RecordError, match=r"result\.json is damaged, or no TrialResult"):
        list(run.records())


def test_a_record_under_the_wrong_name_is_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    one, two, *_ = run.pending()
    moved = commit(run, one).directory.rename(tmp_path / "moved")
    target = run.path / "trials" / two.directory
    target.parent.mkdir(parents=True)
    moved.rename(target)

    with pytest.raises(RecordError, match="has the result of another trial"):
        run.record(two)


def test_a_damaged_step_of_a_trajectory_is_named(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    record = commit(run, run.pending()[0])
    with record.trajectory_file.open("a") as file:
        file.write('{"type":"message"}\n')

    with pytest.raises(RecordError, match="line 2 is damaged"):
        list(record.trajectory())


@pytest.mark.fault("TRI-06")
def test_a_pipe_in_a_record_does_not_block_its_reader(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    record = commit(run, run.pending()[0])
    record.result_file.unlink()
    os.mkfifo(record.result_file)

    with pytest.raises(RecordError, match="is not a regular file"):
        record.result()


def test_records_are_private(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    record = commit(run, run.pending()[0])

    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(record.result_file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("claude", "claude"),
        ("gemini@0.61", None),
        ("npx -y x --acp", None),
        ("..", None),
        ("", None),
        ("a" * 200, None),
    ],
)
def test_every_label_of_an_agent_has_a_safe_directory(label: str, name: str | None) -> None:
    found = directory_name(label)

    assert found == name or (name is None and found != label)
    assert "/" not in found
    assert not found.startswith(".")
    assert len(found) <= 100
    assert directory_name(label) == found


def test_a_run_of_format_1_is_read() -> None:
    """Read files that the first version wrote; they stay as they are, whatever is written today."""
    run = RunDirectory.open(Path(__file__).parent / "earlier" / "format-1")
    (record,) = run.records()
    grades = record.grades()

    assert [case.id for case in run.suite().cases] == ["greet", "edit"]
    assert (record.result().output, record.manifest().agent.version) == ("hello", "1.2")
    assert [step.paths for step in record.trajectory()] == [["/w/a"]]
    assert grades is not None
    assert grades.passed
    assert [key.case for key in run.pending()] == ["edit"]
