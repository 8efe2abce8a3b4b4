"""A suite on a Dask cluster: nothing is lost or doubled, whatever is killed, restarted, hung or missing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from duologue.evals.engines.dask_cluster import DaskEngine
from duologue.evals.engines.interface import EngineError
from duologue.evals.exceptions import EvalError
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.run.suite_run import run_suite
from duologue.evals.run.watched_trial import TrialWatch
from tests.evals.engines.dask_processes import DaskProcesses
from tests.evals.engines.proof import compare, results_of, run_stubs, stub_suite
from tests.evals.engines.stub import DEADLY, run_deadly, run_late, run_stub, run_unfit, run_wrong

WORKERS = 4
TRIALS = 100
"""Trials of the usual run, with one kill; `make chaos` runs 10,000 with 50."""
MOST_TRIALS = 10_000
MOST_KILLS = 50


@pytest.mark.fault("TRI-01")
@pytest.mark.fault("TRI-04")
async def test_every_result_is_there_once_and_equal_to_the_local_run_although_workers_are_killed(
    tmp_path: Path, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    trials = min(MOST_TRIALS, TRIALS * chaos_factor)
    kills = max(1, MOST_KILLS * trials // MOST_TRIALS)
    chance = random.Random(20)
    moments = set(chance.sample(range(1, trials * 9 // 10), kills))
    with DaskProcesses(tmp_path, WORKERS) as cluster:
        killed = 0

        def kill(done: int) -> None:
            nonlocal killed
            if done in moments:
                cluster.kill_worker(chance.choice(cluster.workers))
                cluster.start_worker()
                killed += 1

        engine = DaskEngine(cluster.address, function=run_stub)
        found = await compare(tmp_path, engine, trials, kill)
    record_property("count", killed)

    assert killed == kills
    assert found["is_complete"], found
    assert found["is_equal"]
    assert found["trials"] == trials
    # What ran on a killed worker is run again, and little else.
    assert found["executions"] <= found["local_executions"] + 2 * WORKERS * kills
    assert found["left"] == []


@pytest.mark.fault("TRI-05")
async def test_a_run_goes_on_when_the_scheduler_is_killed_and_another_one_started(tmp_path: Path) -> None:
    with DaskProcesses(tmp_path, 2) as cluster:

        def restart(done: int) -> None:
            if done == 20:
                cluster.kill_scheduler()
                cluster.end_workers()
                cluster.restart_scheduler()
                cluster.start_worker()
                cluster.start_worker()

        engine = DaskEngine(cluster.address, function=run_stub)
        notices: list[str] = []
        engine.notice = notices.append
        found = await compare(tmp_path, engine, 60, restart)

    assert found["is_complete"], found
    assert found["is_equal"]
    assert any("connecting again" in text for text in notices)


@pytest.mark.fault("TRI-07")
async def test_a_run_without_workers_ends_with_the_reason_and_is_continued_later(tmp_path: Path) -> None:
    with DaskProcesses(tmp_path, 2) as cluster:

        def end_workers(done: int) -> None:
            if done == 10:
                cluster.end_workers()

        engine = DaskEngine(cluster.address, function=run_stub, timeout=5.0)
        notices: list[str] = []
        engine.notice = notices.append
        end, run = await run_stubs(tmp_path, "run", engine, 40, on_finished=end_workers)

        assert (end.is_complete, end.progress.stop) == (False, "engine")
        assert "has had no workers for 5 s" in end.problem
        assert any("0 of 2 workers are there" in text for text in notices)
        assert 10 <= len(results_of(run)) < 40

        cluster.start_worker()
        engine = DaskEngine(cluster.address, function=run_stub, timeout=30.0)
        end, run = await run_stubs(tmp_path, "run", engine, 40)

    assert end.is_complete
    assert len(results_of(run)) == 40


@pytest.mark.fault("TRI-07")
async def test_an_agent_that_cannot_be_started_is_an_error_also_if_the_same_worker_is_asked_again(
    tmp_path: Path,
) -> None:
    with DaskProcesses(tmp_path, 1) as cluster:
        engine = DaskEngine(cluster.address, function=run_unfit)

        with pytest.raises(EvalError, match=r"there is no agent \(on the worker a process\)"):
            await run_stubs(tmp_path, "run", engine, 4)

    assert not (tmp_path / "run").exists()


async def test_trials_of_a_cluster_cannot_be_watched(tmp_path: Path) -> None:
    engine = DaskEngine("tcp://127.0.0.1:1", function=run_stub, timeout=1.0)

    with pytest.raises(EngineError, match=r"received `watch` with the engine dask at .*, expected the local one"):
        await run_suite(stub_suite(tmp_path), {"one": "stub"}, tmp_path / "run", engine=engine, watch=TrialWatch())

    assert not (tmp_path / "run").exists()


@pytest.mark.fault("TRI-05")
async def test_a_scheduler_that_is_not_there_is_an_error_before_the_first_trial(tmp_path: Path) -> None:
    engine = DaskEngine("tcp://127.0.0.1:1", function=run_stub, timeout=1.0)

    with pytest.raises(EngineError, match=r"dask at tcp://127\.0\.0\.1:1 cannot be reached for 1 s"):
        await run_stubs(tmp_path, "run", engine, 4)

    assert not (tmp_path / "run").exists()


async def test_a_scheduler_without_workers_is_an_error_before_the_first_trial(tmp_path: Path) -> None:
    with DaskProcesses(tmp_path, 0) as cluster:
        engine = DaskEngine(cluster.address, function=run_stub, timeout=5.0)

        with pytest.raises(EngineError, match="has had no workers for 5 s; start workers"):
            await run_stubs(tmp_path, "run", engine, 4)


@pytest.mark.fault("TRI-01")
async def test_a_trial_that_kills_its_workers_is_missing_and_the_others_are_done(tmp_path: Path) -> None:
    # The scheduler abandons a task at once, instead of after three workers.
    strict = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with DaskProcesses(tmp_path, 2, env=strict) as cluster:
        engine = DaskEngine(cluster.address, function=run_deadly)
        notices: list[str] = []

        def replace(text: str) -> None:
            notices.append(text)
            if "submitted again" in text:
                cluster.start_worker()

        engine.notice = replace
        end, run = await run_stubs(tmp_path, "run", engine, 20)
    results = results_of(run)

    assert (end.progress.done, end.progress.missing) == (20, 1)
    assert results[DEADLY][:2] == ("harness_failed", "WorkerLost")
    assert {each[0] for name, each in results.items() if name != DEADLY} == {"completed"}
    assert sum("submitted again" in text for text in notices) >= engine.most_losses


@pytest.mark.fault("TRI-06")
@pytest.mark.parametrize("answer", ["nothing", "garbage", "another"])
async def test_an_answer_that_is_no_report_of_the_trial_makes_it_missing(tmp_path: Path, answer: str) -> None:
    with DaskProcesses(tmp_path, 1, env={"STUB_ANSWER": answer}) as cluster:
        engine = DaskEngine(cluster.address, function=run_wrong)
        end, run = await run_stubs(tmp_path, "run", engine, 4)
    outcomes = {record.result().outcome.kind for record in run.records()}

    assert end.progress.missing == 4
    assert outcomes == {"harness_failed"}


@pytest.mark.fault("TRI-03")
async def test_a_trial_that_did_not_end_in_time_is_tried_again_and_says_so(tmp_path: Path) -> None:
    with DaskProcesses(tmp_path, 1) as cluster:
        end, run = await run_stubs(tmp_path, "run", DaskEngine(cluster.address, function=run_late), 8)
    failed = [TrialRecord(path).result() for path in (run.path / "failed").glob("*/case-0/*")]

    assert end.is_complete
    assert {(result.outcome.kind, result.outcome.reason) for result in failed} == {("harness_failed", "late")}
    assert failed[0].outcome.detail == "it did not end within 1 s (on the worker stub)"
    assert {result[3] for name, result in results_of(run).items() if "case-0" in name} == {2}
