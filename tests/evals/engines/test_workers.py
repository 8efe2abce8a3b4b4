"""Messages to workers and their answers, without a cluster: what is sent, stored, ended and refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duologue import Agent
from duologue.client.target import Target
from duologue.evals.engines import worker
from duologue.evals.engines.address import open_engine
from duologue.evals.engines.execution import stored_report
from duologue.evals.engines.interface import EngineError
from duologue.evals.engines.local import LocalEngine
from duologue.evals.engines.message import MOST_FILE_BYTES, MessageWriter, decode_message, encode
from duologue.evals.engines.record_archive import pack, store_report
from duologue.evals.engines.task import AttemptReport, TrialTask, failure
from duologue.evals.engines.worker import WorkerReply, run_task
from duologue.evals.exceptions import EvalError
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run.credentials import CredentialFile
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.targets import EvalAgent
from duologue.evals.suite.loader import load_suite
from tests.evals.engines.process_ends import left_processes
from tests.evals.run.suites import python_agent, write_suite
from tests.evals.samples import run_manifest

SAY = '[[cases]]\nid = "say"\nprompts = ["say hello"]\n'


def trial_task(folder: Path, case: str = SAY, *, target: Target | None = None, **options: Any) -> TrialTask:
    """Return the task of a trial of a new run."""
    suite = load_suite(write_suite(folder / "suite", case))
    run = RunDirectory.create(folder / "run", run_manifest(suite, agents=("it",), trials=1), suite)
    settings: dict[str, Any] = {"sandbox": "none", **options}
    return TrialTask(
        key=run.pending()[0],
        run=run,
        case=suite.cases[0],
        agent=EvalAgent(label="it", target=target or python_agent("obedient_agent")),
        options=TrialOptions(**settings),
    )


def reply_to(task: TrialTask, **changes: object) -> WorkerReply:
    """Have a worker of this process carry out a task; return its reply."""
    message = msgspec.structs.replace(MessageWriter().write(task, "a"), **changes)
    return msgspec.json.decode(run_task(encode(message)), type=WorkerReply)


@pytest.fixture(autouse=True)
def no_process_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes of tasks work below the directory of the test, and end them."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(worker, "_idle", [])
    monkeypatch.setattr(worker, "END_SECONDS", 1.0)


def end_idle() -> None:
    """End the processes that wait for another task."""
    while worker._idle:
        worker._idle.pop().close()


@pytest.mark.fault("TRI-04")
def test_a_trial_that_is_carried_out_twice_has_one_result_and_starts_its_agent_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    command = f"echo started >> {starts}; exec {python_agent('obedient_agent')}"
    task = trial_task(tmp_path, target=["sh", "-c", command])
    first = json.loads(bytes(reply_to(task).report))
    second = json.loads(bytes(reply_to(task).report))
    end_idle()

    assert first["result"]["ended"] == second["result"]["ended"]
    assert len(list(task.run.records())) == 1
    assert starts.read_text() == "started\n"


@pytest.mark.fault("TRI-03")
def test_a_trial_that_does_not_end_is_ended_with_its_processes(tmp_path: Path) -> None:
    # The agent stops the process that runs the trial: its parent is the reaper, and that one's parent is the process.
    stop = "r=$(cut -d' ' -f4 /proc/$PPID/stat); kill -STOP $(cut -d' ' -f4 /proc/$r/stat); sleep 600"
    task = trial_task(tmp_path, f'[[cases]]\nid = "say"\nprompts = [{json.dumps(f"shell {stop}")}]\n')
    reply = reply_to(task, seconds=5.0)

    assert (reply.problem, reply.detail) == ("late", "it did not end within 5 s")
    assert stored_report(task) is None
    # The agent sees the end of its input; its reaper ends what is left.
    assert left_processes(tmp_path) == []


def test_a_process_that_ends_in_a_trial_is_a_named_problem_and_the_next_trial_runs(tmp_path: Path) -> None:
    kill = "r=$(cut -d' ' -f4 /proc/$PPID/stat); test -e mark || kill -KILL $(cut -d' ' -f4 /proc/$r/stat)"
    task = trial_task(tmp_path, f'[[cases]]\nid = "say"\nprompts = [{json.dumps(f"shell {kill}")}]\n')
    reply = reply_to(task)

    assert (reply.problem, reply.detail) == ("ended", "the process that ran it ended with status -9")
    other = trial_task(tmp_path / "other")
    assert json.loads(bytes(reply_to(other).report))["result"]["output"] == "hello"
    end_idle()


def test_a_message_has_names_of_secrets_and_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "k-0123456789abcdef")
    secret = tmp_path / "key.json"
    secret.write_text('{"key": "f-0123456789abcdef"}')
    files = (CredentialFile(secret, ".config/key.json"),)
    content = encode(MessageWriter().write(trial_task(tmp_path, env=("MY_API_KEY",), credentials=files), "a"))

    assert b"MY_API_KEY" in content
    assert b"k-0123456789abcdef" not in content
    assert b"f-0123456789abcdef" not in content


@pytest.mark.parametrize(
    "target", ["agent --key k-0123456789abcdef", ["agent", "k-0123456789abcdef"], {"command": "a", "env": {"K": "v"}}]
)
def test_an_agent_that_is_named_with_a_secret_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Target
) -> None:
    monkeypatch.setenv("MY_API_KEY", "k-0123456789abcdef")

    with pytest.raises(EvalError, match=r"named with a secret, which is not sent to workers"):
        MessageWriter().write(trial_task(tmp_path, target=target), "a")


def test_an_object_of_this_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="an object of this program, which workers of a cluster cannot start"):
        MessageWriter().write(trial_task(tmp_path, target=Agent("mine")), "a")


def test_large_files_stay_where_they_are_and_a_worker_without_them_says_so(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "large").write_bytes(os.urandom(MOST_FILE_BYTES + 1))
    task = trial_task(tmp_path, SAY + 'files = [{ path = "large", source = "large" }]\n')
    message = MessageWriter().write(task, "a")
    (tmp_path / "suite" / "large").unlink()
    report = json.loads(bytes(msgspec.json.decode(run_task(encode(message)), type=WorkerReply).report))
    end_idle()

    assert len(encode(message)) < 10_000
    assert "too large to be sent: put the suite on a path" in report["result"]["outcome"]["detail"]


def test_a_file_of_a_message_cannot_leave_the_directory_of_the_suite(tmp_path: Path) -> None:
    task = trial_task(tmp_path)
    content = encode(MessageWriter().write(task, "a"))
    hostile = json.loads(content)
    hostile["files"] = {"../../escaped": {"content": "eA=="}}
    hostile["case_digest"] = "another"
    report = json.loads(bytes(msgspec.json.decode(run_task(json.dumps(hostile).encode()), type=WorkerReply).report))
    end_idle()

    assert "leads out of the suite" in report["result"]["outcome"]["detail"]
    assert list(tmp_path.rglob("escaped")) == []


def test_a_message_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    newer = msgspec.structs.replace(MessageWriter().write(trial_task(tmp_path), "a"), format=99)

    with pytest.raises(EvalError, match=r"has format 99, .* install the same version of duologue on all machines"):
        decode_message(encode(newer))


@pytest.mark.fault("TRI-04")
def test_a_report_that_comes_twice_is_stored_once(tmp_path: Path) -> None:
    task = trial_task(tmp_path)
    first = failure(task, "late", "the first")
    second = failure(task, "late", "the second")
    assert isinstance(first, AttemptReport)
    assert isinstance(second, AttemptReport)
    store_report(task.run, first)
    stored = store_report(task.run, second)

    assert stored.result.outcome.detail == "the first"
    assert len(list(task.run.records())) == 1


def test_links_that_lead_out_do_not_travel_with_a_record(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    (folder / "workspace").mkdir(parents=True)
    (folder / "workspace" / "file").write_text("x")
    (folder / "workspace" / "inside").symlink_to("file")
    (folder / "workspace" / "outside").symlink_to("/etc/passwd")
    (folder / "workspace" / "above").symlink_to("../../secret")
    task = trial_task(tmp_path)
    report = failure(task, "late", "x")
    assert isinstance(report, AttemptReport)
    store_report(task.run, msgspec.structs.replace(report, files=pack(folder)))
    workspace = next(task.run.records()).workspace_directory

    assert sorted(each.name for each in workspace.iterdir()) == ["file", "inside"]


@pytest.mark.fault("TRI-06")
def test_an_archive_of_a_worker_cannot_write_elsewhere(tmp_path: Path) -> None:
    import io
    import tarfile

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo("../../escaped")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    task = trial_task(tmp_path)
    report = failure(task, "late", "x")
    assert isinstance(report, AttemptReport)

    stored = store_report(task.run, msgspec.structs.replace(report, files=content.getvalue(), worker="bad"))

    assert stored.result.outcome.kind == "harness_failed"
    assert "the worker bad returned files that cannot be used" in stored.result.outcome.detail
    assert list(tmp_path.rglob("escaped")) == []


@pytest.mark.parametrize("text", ["", "dask", "dask://", "dask://a:99999", "spark://a", "dask://a/b", "ray://u:p@a"])
def test_a_name_that_is_no_engine_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match=r"is no engine: expected local, dask://HOST"):
        open_engine(text)


def test_the_local_engine_is_the_usual_one() -> None:
    assert isinstance(open_engine("local"), LocalEngine)
