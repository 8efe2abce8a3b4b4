"""The proof of an engine: many stub trials while workers are killed, each result once and equal to that of a local run.

    python -m tests.evals.engines.proof ENGINE FOLDER TRIALS

A line of stdout for each finished trial lets a caller kill workers meanwhile; the last line is the summary in JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duologue.evals.engines.interface import Engine
from duologue.evals.engines.local import LocalEngine
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.suite_run import RunEnd, run_suite
from tests.evals.engines.stub import carry_out, run_stub
from tests.evals.run.suites import write_suite

CASES = 4


def stub_suite(folder: Path) -> Path:
    """Write a suite for stub trials and return its path."""
    cases = (f'[[cases]]\nid = "case-{number}"\nprompts = ["nothing"]\n' for number in range(CASES))
    return write_suite(folder / "suite", *cases)


async def run_stubs(
    folder: Path,
    name: str,
    engine: Engine,
    trials: int,
    *,
    on_finished: Callable[[int], None] = lambda done: None,
    jobs: int | None = None,
) -> tuple[RunEnd, RunDirectory]:
    """Run stub trials with an engine; call a function after each one."""
    options = TrialOptions(sandbox="none", backoff=0.0, jobs=jobs)
    end = await run_suite(
        stub_suite(folder),
        {"one": "stub"},
        folder / name,
        trials=trials // CASES,
        options=options,
        engine=engine,
        observer=lambda event, progress: on_finished(progress.finished) if event.kind == "finished" else None,
    )
    return end, RunDirectory.open(folder / name)


def results_of(run: RunDirectory) -> dict[str, Any]:
    """Return the results and grades of a run by their keys, without times."""
    found: dict[str, Any] = {}
    for record in run.records():
        result, grades = record.result(), record.grades()
        passed = None if grades is None else grades.passed
        name = str(result.key.directory)
        assert name not in found
        found[name] = (result.outcome.kind, result.outcome.reason, result.output, result.attempts, passed)
    return found


def executions_of(run: RunDirectory) -> Counter[str]:
    """Return how often each trial was executed."""
    return Counter((run.path / "executions").read_text().splitlines())


async def compare(folder: Path, engine: Engine, trials: int, on_finished: Callable[[int], None]) -> dict[str, Any]:
    """Run stub trials with an engine and in this process; return what is to be compared."""
    _, local = await run_stubs(folder, "local", LocalEngine(carry_out), trials)
    began = time.monotonic()
    end, run = await run_stubs(folder, "cluster", engine, trials, on_finished=on_finished)
    seconds = time.monotonic() - began
    executed = executions_of(run)
    usual = executions_of(local)
    return {
        "is_complete": end.is_complete,
        "problem": end.problem,
        "trials": len(results_of(run)),
        "is_equal": results_of(run) == results_of(local),
        "executions": sum(executed.values()),
        "local_executions": sum(usual.values()),
        "left": [each.name for each in (run.path / "attempts").iterdir() if each.is_dir()],
        "seconds": round(seconds, 1),
    }


def main(address: str, folder: str, trials: str) -> None:
    """Run the proof for the engine at an address."""

    def say(done: int) -> None:
        sys.stdout.write(f"{done}\n")
        sys.stdout.flush()

    if address.startswith("ray://"):
        from duologue.evals.engines.ray_cluster import RayEngine

        engine: Engine = RayEngine(address, function=run_stub)
    else:
        from duologue.evals.engines.dask_cluster import DaskEngine

        engine = DaskEngine(address, function=run_stub)
    engine.notice = lambda text: print(text, file=sys.stderr)
    print(json.dumps(asyncio.run(compare(Path(folder), engine, int(trials), say))))


if __name__ == "__main__":
    main(*sys.argv[1:])
