"""`python -m benchmarks.engines [--write | --planner N]`: how many trials a second each engine carries out.

Four workers of each on this machine. Stub trials store a result and start no agent; idle tasks do not even store.
With `--planner`, there is no cluster: each of N tasks is done at once, and what is left is the program that plans.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from duologue.evals.engines.dask_cluster import DaskEngine
from duologue.evals.engines.interface import Engine
from duologue.evals.engines.local import LocalEngine
from duologue.evals.engines.ray_cluster import RayEngine
from duologue.evals.engines.worker import run_task
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.suite_run import run_suite
from tests.evals.engines.dask_processes import DaskProcesses
from tests.evals.engines.proof import run_stubs
from tests.evals.engines.ray_processes import RayProcesses
from tests.evals.engines.stub import carry_out, done_at_once, idle, run_stub
from tests.evals.run.suites import python_agent, write_suite
from tests.interop.peers import Absent, ray_python

ROOT = Path(__file__).parents[1]
WORKERS = 4
STUBS = 2000
AGENTS = 60
PAGE = ROOT / "docs" / "project" / "benchmarks-engines.md"
NOTES = ROOT / "benchmarks" / "benchmarks-engines-notes.md"
TICKS = os.sysconf("SC_CLK_TCK")

Figures = dict[str, float]
MEASURES: dict[str, str] = {
    "stub": "stub trials, each stored, 4 workers",
    "idle": "idle tasks, nothing stored, 4 workers, 4 at once",
    "idle64": "the same, 64 at once",
    "client": "the same, CPU of the client for each",
    "scheduler": "the same, CPU of Dask's scheduler for each",
    "agent": "trials that start an agent, 4 workers",
}


def main() -> int:
    """Measure; print the table, and write the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description="Trials for each second.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--planner", metavar="N", type=int, help="measure the program that plans, with N trials")
    parser.add_argument("--ray", metavar="ADDRESS", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duologue-engines-") as name:
        folder = Path(name)
        if chosen.planner:
            print(measure_planner(folder, chosen.planner))
            return 0
        if chosen.ray:
            figures = measure(folder, lambda function: RayEngine(chosen.ray, function=function))
            print(json.dumps(figures))
            return 0
        found = {"local": measure_local(folder / "local"), "Dask": measure_dask(folder / "dask")}
        try:
            found["Ray"] = measure_ray()
        except Absent as reason:
            print(f"no figures of Ray: {reason}")
    table = "\n".join(rows(found))
    print(table)
    if chosen.write:
        from benchmarks import report

        notes = NOTES.read_text("utf-8")
        machine = report.machine({}, 1).partition("; ")[0]
        PAGE.write_text(notes.replace("MACHINE", machine).replace("TABLE", table), "utf-8")
    return 0


def rows(found: dict[str, Figures]) -> list[str]:
    """Return the lines of the table."""
    lines = [f"| what | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for key, label in MEASURES.items():
        unit = "ms" if key in ("client", "scheduler") else "/s"
        cells = [f"{figures[key]:.3g} {unit}" if key in figures else "" for figures in found.values()]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def measure_local(folder: Path) -> Figures:
    """Measure the engine of this process."""
    stub = _rate(folder, "stub", LocalEngine(carry_out), STUBS, WORKERS)
    return {"stub": stub, "agent": _agents(folder, LocalEngine())}


def measure_planner(folder: Path, trials: int) -> str:
    """Return the CPU time and the memory that planning takes."""
    began = time.process_time()
    _rate(folder, "planner", LocalEngine(done_at_once), trials, 64)
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{trials:,} trials: {seconds:.1f} s of CPU, at most {memory:.0f} MB of memory"


def measure_dask(folder: Path) -> Figures:
    """Measure a Dask cluster, and its scheduler alone."""
    folder.mkdir()
    with DaskProcesses(folder, WORKERS) as cluster:
        found = measure(folder, lambda function: DaskEngine(cluster.address, function=function))
        began = _cpu(cluster.scheduler)
        _rate(folder, "scheduler", DaskEngine(cluster.address, function=idle), STUBS, 64)
        found["scheduler"] = 1000 * (_cpu(cluster.scheduler) - began) / STUBS
    return found


def measure_ray() -> Figures:
    """Measure a Ray cluster, in an environment that has Ray."""
    with RayProcesses(ray_python(), WORKERS) as cluster:
        command = cluster.command("-m", "benchmarks.engines", "--ray", cluster.address)
        ended = subprocess.run(
            command, cwd=ROOT, env=cluster.environment, stdout=subprocess.PIPE, text=True, check=True, timeout=3600
        )
    found: Figures = json.loads(ended.stdout.splitlines()[-1])
    return found


def measure(folder: Path, engine: Callable[[Callable[[bytes], bytes]], Engine]) -> Figures:
    """Measure the engine of a cluster."""
    folder.mkdir(exist_ok=True)
    found: Figures = {"stub": _rate(folder, "stub", engine(run_stub), STUBS, None)}
    found["idle"] = _rate(folder, "idle", engine(idle), STUBS, None)
    began = time.process_time()
    found["idle64"] = _rate(folder, "idle64", engine(idle), STUBS, 64)
    found["client"] = 1000 * (time.process_time() - began) / STUBS
    found["agent"] = _agents(folder, engine(run_task))
    return found


def _rate(folder: Path, name: str, engine: Engine, trials: int, jobs: int | None) -> float:
    """Return how many trials a second were done after the first one."""
    moments: list[float] = []
    asyncio.run(
        run_stubs(folder, name, engine, trials, jobs=jobs, on_finished=lambda done: moments.append(time.monotonic()))
    )
    assert len(moments) == trials
    return (trials - 1) / (moments[-1] - moments[0])


def _agents(folder: Path, engine: Engine) -> float:
    suite = write_suite(folder / "agents", '[[cases]]\nid = "say"\nprompts = ["say hello"]\n')
    moments: list[float] = []
    asyncio.run(
        run_suite(
            suite,
            {"it": python_agent("obedient_agent")},
            folder / "agents-run",
            trials=AGENTS,
            options=TrialOptions(sandbox="none", jobs=WORKERS),
            engine=engine,
            observer=lambda event, progress: moments.append(time.monotonic()) if event.kind == "finished" else None,
        )
    )
    # Each worker starts its process for tasks with the first one.
    return (AGENTS - WORKERS) / (moments[-1] - moments[WORKERS - 1])


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    sys.exit(main())
