"""A suite on a Ray cluster: nothing is lost or doubled, whatever is killed or restarted.

Ray is large and is not among the packages of the project: it is installed in an environment of its own on first use.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from duologue.evals.record.run_directory import RunDirectory
from tests.evals.engines.proof import results_of
from tests.evals.engines.ray_processes import RayProcesses
from tests.evals.run.suites import python_agent, write_suite
from tests.interop.peers import Absent, ray_python

# Ray is installed on first use, and 10,000 trials take ten minutes on two busy cores.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]

WORKERS = 4
TRIALS = 100
"""Trials of the usual run, with one kill; `make chaos` runs 10,000 with 50."""
MOST_TRIALS = 10_000
MOST_KILLS = 50


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayProcesses]:
    """Return a cluster of this machine."""
    try:
        processes = RayProcesses(ray_python(), WORKERS)
    except (Absent, FileNotFoundError) as reason:
        pytest.skip(f"Ray cannot be had here, or not kept on loopback: {reason}")
    with processes as made:
        yield made


def prove(cluster: RayProcesses, folder: Path, trials: int, on_finished: Callable[[int], None]) -> dict[str, Any]:
    """Run the proof in an environment with Ray; call a function after each trial."""
    command = cluster.command("-m", "tests.evals.engines.proof", cluster.address, str(folder), str(trials))
    last = "{}"
    errors = (folder / "errors").open("w+")
    with (
        errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=cluster.environment) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            last = line
            with suppress(ValueError):
                on_finished(int(line))
    assert process.returncode == 0, (folder / "errors").read_text()[-5000:]
    found: dict[str, Any] = json.loads(last)
    return found


@pytest.mark.fault("TRI-01")
@pytest.mark.fault("TRI-04")
def test_every_result_is_there_once_and_equal_to_the_local_run_although_workers_are_killed(
    tmp_path: Path, cluster: RayProcesses, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    trials = min(MOST_TRIALS, TRIALS * chaos_factor)
    kills = max(1, MOST_KILLS * trials // MOST_TRIALS)
    chance = random.Random(20)
    moments = set(chance.sample(range(1, trials * 9 // 10), kills))
    due = killed = 0

    def kill(done: int) -> None:
        nonlocal due, killed
        due += done in moments
        # There may be none for a moment: a worker that was just started has no name yet.
        if killed < due and (workers := cluster.workers()):
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                killed += 1

    found = prove(cluster, tmp_path, trials, kill)
    record_property("count", killed)

    assert killed == kills
    assert found["is_complete"], found
    assert found["is_equal"]
    assert found["trials"] == trials
    assert found["executions"] <= found["local_executions"] + 2 * WORKERS * kills
    assert found["left"] == []


def test_a_run_of_real_agents_gives_the_results_of_a_local_one(tmp_path: Path, cluster: RayProcesses) -> None:
    graders = '[{ type = "text", matches = "hello" }]'
    cases = [f'[[cases]]\nid = "{word}"\nprompts = ["say {word}"]\ngraders = {graders}\n' for word in ("hello", "no")]
    suite = write_suite(tmp_path / "suite", *cases)
    words = ["--agent", f"it={python_agent('obedient_agent')}", "-n", "3", "--sandbox", "none", "--json"]
    command = cluster.command("-m", "duologue", "eval", "run", str(suite), *words)
    for name, engine in (("local", "local"), ("run", cluster.address)):
        target = ["--engine", engine, "-o", str(tmp_path / name)]
        ended = subprocess.run(
            [*command, *target], capture_output=True, text=True, env=cluster.environment, check=False, timeout=240
        )
        assert ended.returncode == 0, ended.stderr
        # Nothing of Ray's own is printed.
        assert all(line.startswith("{") for line in ended.stdout.splitlines())
        assert "ray" not in ended.stderr.replace(cluster.address, "").lower()
    local, run = (RunDirectory.open(tmp_path / name) for name in ("local", "run"))

    assert len(results_of(run)) == 6
    assert results_of(run) == results_of(local)


@pytest.mark.fault("TRI-07")
def test_an_agent_that_no_worker_has_is_an_error_before_the_first_trial(tmp_path: Path, cluster: RayProcesses) -> None:
    suite = write_suite(tmp_path / "suite", '[[cases]]\nid = "say"\nprompts = ["say hello"]\n')
    command = cluster.command("-m", "duologue", "eval", "run", str(suite), "-o", str(tmp_path / "run"))
    agent = ["--agent", "it=no-such-agent", "--engine", cluster.address]
    ended = subprocess.run(
        [*command, *agent], capture_output=True, text=True, env=cluster.environment, check=False, timeout=240
    )

    assert ended.returncode != 0
    assert "duologue: the agent 'it' cannot be started" in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.fault("TRI-08")
def test_a_wrong_token_is_an_error_before_the_first_trial(tmp_path: Path, cluster: RayProcesses) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("0" * 64)
    suite = write_suite(tmp_path / "suite", '[[cases]]\nid = "say"\nprompts = ["say hello"]\n')
    command = cluster.command("-m", "duologue", "eval", "run", str(suite), "-o", str(tmp_path / "run"))
    engine = ["--engine", cluster.address, "--engine-token", str(wrong), "--engine-timeout", "1s"]
    ended = subprocess.run(
        [*command, *engine], capture_output=True, text=True, env=cluster.environment, check=False, timeout=240
    )

    assert ended.returncode != 0
    assert f"duologue: ray at {cluster.address}" in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.fault("TRI-05")
def test_a_run_goes_on_when_the_head_is_ended_and_another_one_started(tmp_path: Path, cluster: RayProcesses) -> None:
    def restart(done: int) -> None:
        if done == 20:
            cluster.stop()
            cluster.start()

    found = prove(cluster, tmp_path, 60, restart)

    assert found["is_complete"], found
    assert found["is_equal"]
