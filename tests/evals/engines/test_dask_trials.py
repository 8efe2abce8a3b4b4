"""Real trials on a Dask cluster: processes of agents, graders, files of the suite, variables and kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from duologue.evals.engines.dask_cluster import DaskEngine
from duologue.evals.engines.interface import Engine
from duologue.evals.exceptions import EvalError
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run import bubblewrap
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.progress import RunProgress, TrialEvent
from duologue.evals.run.suite_run import RunEnd, run_suite
from tests.evals.engines.dask_processes import DaskProcesses
from tests.evals.engines.process_ends import left_processes
from tests.evals.engines.proof import results_of
from tests.evals.run.suites import python_agent, write_suite

EXAMPLES = Path(__file__).parents[3] / "examples"
AGENT = {"it": python_agent("obedient_agent")}
CASES = """
[[cases]]
id = "say"
prompts = ["say hello"]
graders = [{ type = "text", matches = "hello" }, { type = "function", function = "checks.py:check" }]

[[cases]]
id = "write"
prompts = ["read data.txt\\nwrite it.txt done"]
files = [{ path = "data.txt", source = "data/data.txt" }]
graders = [{ type = "file", path = "it.txt", contains = ["done"] }]

[[cases]]
id = "fail"
prompts = ["say nothing"]
graders = [{ type = "text", matches = "something" }]

[[cases]]
id = "crash"
prompts = ["crash"]
"""
CHECKS = "def check(trial):\n    return trial.output == 'hello'\n"


def suite_with_files(folder: Path) -> Path:
    """Write a suite whose cases name files; return its path."""
    suite = write_suite(folder, CASES)
    (folder / "data").mkdir()
    (folder / "data" / "data.txt").write_text("some data")
    (folder / "checks.py").write_text(CHECKS)
    return suite


async def run_on(
    engine: Engine | None,
    suite: Path,
    path: Path,
    *,
    on_event: Callable[[TrialEvent, RunProgress], None] = lambda event, progress: None,
    agents: Any = AGENT,
    trials: int = 2,
    **options: Any,
) -> tuple[RunEnd, RunDirectory]:
    """Run a suite unconfined; return the end and the directory."""
    more: dict[str, Any] = {"sandbox": "none", "backoff": 0.0, "retries": 1, **options}
    end = await run_suite(
        suite, agents, path, trials=trials, options=TrialOptions(**more), engine=engine, observer=on_event
    )
    return end, RunDirectory.open(path)


@pytest.mark.fault("TRI-01")
async def test_a_suite_gives_the_same_results_as_in_this_process_although_a_worker_is_killed(tmp_path: Path) -> None:
    suite = suite_with_files(tmp_path / "suite")
    _, local = await run_on(None, suite, tmp_path / "local")
    with DaskProcesses(tmp_path, 2) as cluster:

        def kill(event: TrialEvent, progress: RunProgress) -> None:
            if event.kind == "finished" and progress.finished == 2:
                cluster.kill_worker(cluster.workers[0])
                cluster.start_worker()

        end, run = await run_on(DaskEngine(cluster.address), suite, tmp_path / "run", on_event=kill)

    assert end.progress.done == 8
    assert results_of(run) == results_of(local)
    assert {record.result().outcome.kind for record in run.records()} == {"completed", "agent_crashed"}
    assert [each for each in (run.path / "attempts").iterdir() if each.is_dir()] == []
    # Processes of workers end when they see that these are gone.
    assert left_processes(tmp_path) == []


async def test_workers_that_see_neither_the_run_directory_nor_the_suite_return_the_records(tmp_path: Path) -> None:
    if bubblewrap.obstacle():
        pytest.skip(f"only bubblewrap can hide directories from a worker: {bubblewrap.obstacle()}")
    hidden = tmp_path / "hidden"
    suite = suite_with_files(hidden / "suite")
    _, local = await run_on(None, suite, hidden / "local")
    bwrap = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(hidden), "--die-with-parent"]
    with DaskProcesses(tmp_path, 2, prefix=bwrap) as cluster:
        end, run = await run_on(DaskEngine(cluster.address), suite, hidden / "run")

    assert end.progress.done == 8
    assert results_of(run) == results_of(local)
    for mine, theirs in zip(run.records(), local.records(), strict=True):
        assert _names(mine.directory) == _names(theirs.directory)
        assert mine.patch() == theirs.patch()
        assert [step.type for step in mine.trajectory()] == [step.type for step in theirs.trajectory()]
    assert (len(list((run.path / "failed").glob("*/*/*")))) == 2


def _names(directory: Path) -> set[str]:
    return {str(each.relative_to(directory)) for each in directory.rglob("*") if each.name != "key.json"}


def program_of_one_worker(folder: Path) -> Path:
    """Return an agent that only a worker with its directory in PATH finds."""
    (folder / "programs").mkdir()
    program = folder / "programs" / "only-here"
    program.write_text(f"#!/bin/sh\nexec {python_agent('obedient_agent')}\n")
    program.chmod(0o755)
    return program


@pytest.mark.fault("TRI-07")
async def test_trials_move_to_the_workers_that_have_the_agent(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite", '[[cases]]\nid = "say"\nprompts = ["say hello"]\n')
    program = program_of_one_worker(tmp_path)
    with DaskProcesses(tmp_path, 1) as cluster:
        cluster.start_worker(PATH=f"{program.parent}:{os.environ['PATH']}")
        engine = DaskEngine(cluster.address)
        notices: list[str] = []
        engine.notice = notices.append
        end, run = await run_on(engine, suite, tmp_path / "run", agents={"it": program.name}, trials=6)

    assert (end.is_complete, len(results_of(run))) == (True, 6)
    assert {result[0] for result in results_of(run).values()} == {"completed"}


@pytest.mark.fault("TRI-07")
async def test_a_trial_does_not_wait_for_workers_that_are_gone(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite", '[[cases]]\nid = "say"\nprompts = ["say hello"]\n')
    program = program_of_one_worker(tmp_path)
    with DaskProcesses(tmp_path, 1) as cluster:
        able = cluster.start_worker(PATH=f"{program.parent}:{os.environ['PATH']}")

        def kill(event: TrialEvent, progress: RunProgress) -> None:
            if event.kind == "finished" and able in cluster.workers:
                cluster.kill_worker(able)

        engine, agents = DaskEngine(cluster.address), {"it": program.name}
        end, run = await run_on(engine, suite, tmp_path / "run", agents=agents, trials=6, on_event=kill)

    reasons = {result[1] for result in results_of(run).values() if result[0] != "completed"}
    assert not end.is_complete
    assert reasons == {"CommandNotFound"}


async def test_an_agent_that_no_worker_has_is_an_error_before_the_first_trial(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite", '[[cases]]\nid = "say"\nprompts = ["say hello"]\n')
    with DaskProcesses(tmp_path, 2) as cluster:
        with pytest.raises(EvalError, match=r"'it' cannot be started.*not-there.*on the worker tcp://127"):
            await run_on(DaskEngine(cluster.address), suite, tmp_path / "run", agents={"it": "not-there-at-all"})

    assert not (tmp_path / "run").exists()


async def test_variables_are_those_of_the_worker_and_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIAL_KEY", raising=False)
    step = "env TRIAL_KEY\\nwrite length.txt ${#TRIAL_KEY}"
    suite = write_suite(tmp_path / "suite", f'[[cases]]\nid = "say"\nprompts = ["{step}"]\nenv = ["TRIAL_KEY"]\n')
    with DaskProcesses(tmp_path, 0) as cluster:
        cluster.start_worker(TRIAL_KEY="secret-of-the-worker")
        end, run = await run_on(DaskEngine(cluster.address), suite, tmp_path / "run", trials=1)
    files = [path for path in run.path.rglob("*") if path.is_file()]

    assert end.is_complete
    assert json.loads(next(run.records()).result().output) == {"TRIAL_KEY": "•••"}
    assert [path for path in files if b"secret-of-the-worker" in path.read_bytes()] == []


async def test_a_variable_that_no_worker_has_is_an_error_before_the_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = write_suite(tmp_path / "suite", '[[cases]]\nid = "say"\nprompts = ["say hello"]\nenv = ["TRIAL_KEY"]\n')
    with DaskProcesses(tmp_path, 1) as cluster:
        # What this machine has does not matter.
        monkeypatch.setenv("TRIAL_KEY", "secret-of-the-client")
        with pytest.raises(EvalError, match=r"TRIAL_KEY is named for the agent, and it is not set.*on the worker"):
            await run_on(DaskEngine(cluster.address), suite, tmp_path / "run")


def test_ctrl_c_ends_the_agents_on_the_workers_and_the_run_is_continued(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    os.mkfifo(mark)
    # The first attempt opens the pipe, which tells the test that it runs, and hangs; a later one does not.
    step = f"shell test -e {tmp_path}/done || echo x > {mark}\nshell test -e {tmp_path}/done || sleep 600\nsay done"
    suite = write_suite(tmp_path / "suite", f'[[cases]]\nid = "say"\nprompts = [{json.dumps(step)}]\n')
    with DaskProcesses(tmp_path, 1) as cluster:
        engine = cluster.address.replace("tcp://", "dask://")
        command = [sys.executable, "-m", "duologue", "eval", "run", str(suite), "--sandbox", "none", "--engine", engine]
        first = [*command, "--agent", f"it={AGENT['it']}", "-o", str(tmp_path / "run")]
        with subprocess.Popen(first, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert mark.read_text() == "x\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=120)
        run = RunDirectory.open(tmp_path / "run")

        assert process.returncode == 130, errors
        assert f"--engine {engine}" in errors
        assert results_of(run) == {}
        assert left_processes(tmp_path, "obedient", "sleep") == []

        (tmp_path / "done").touch()
        again = subprocess.run(
            [*command, "--resume", str(run.path)], capture_output=True, text=True, check=False, timeout=120
        )

    assert again.returncode == 0, again.stderr
    assert [result[2] for result in results_of(run).values()] == ["done"]


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for loopback, which is its own authority; return its file and that of its key."""
    certificate, key = folder / "cluster.pem", folder / "cluster.key"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*make, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


@pytest.mark.fault("TRI-08")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
async def test_a_cluster_with_tls_is_used_with_its_certificates_and_refuses_others(
    tmp_path: Path,
) -> None:
    from dask import config

    certificate, key = make_certificate(tmp_path)
    roles = {f"DASK_DISTRIBUTED__COMM__TLS__{role}__": role.lower() for role in ("SCHEDULER", "WORKER", "CLIENT")}
    variables = {f"{prefix}CERT": str(certificate) for prefix in roles} | {f"{prefix}KEY": str(key) for prefix in roles}
    variables["DASK_DISTRIBUTED__COMM__TLS__CA_FILE"] = str(certificate)
    suite = write_suite(tmp_path / "suite", '[[cases]]\nid = "say"\nprompts = ["say hello"]\n')
    with DaskProcesses(tmp_path, 1, env=variables, protocol="tls") as cluster:
        plain = DaskEngine(cluster.address.replace("tls://", "tcp://"), timeout=1.0)
        with pytest.raises(EvalError, match="cannot be reached"):
            await run_on(plain, suite, tmp_path / "none")

        names = {"ca-file": certificate, **{f"{role}.cert": certificate for role in roles.values()}}
        names |= {f"{role}.key": key for role in roles.values()}
        with config.set({f"distributed.comm.tls.{name}": str(path) for name, path in names.items()}):
            end, _ = await run_on(DaskEngine(cluster.address), suite, tmp_path / "run")

    assert cluster.address.startswith("tls://")
    assert end.is_complete


def test_the_example_runs_a_suite_on_a_cluster(tmp_path: Path) -> None:
    suite = EXAMPLES / "first_suite" / "suite.toml"
    with DaskProcesses(tmp_path, 2) as cluster:
        engine = cluster.address.replace("tcp://", "dask://")
        command = [sys.executable, str(EXAMPLES / "cluster_run.py"), engine, str(suite), str(tmp_path / "run")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "builtin: 6 of 6 passed\n"
