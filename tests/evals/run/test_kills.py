"""A run that is killed again and again and continued loses no trial and runs none twice; many trials leave nothing."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from duologue.evals.record.run_directory import RunDirectory
from tests.evals.run.suites import python_agent, run_cases, write_suite

KILLS = 3
"""Kills of the usual run; `make chaos` multiplies them by 100."""
TRIALS = 12
MOST_TRIALS = 200
LONGEST = 1.2
"""Latest moment of a kill, as a multiple of the time until the first trial was done: few processes finish a trial."""


@pytest.mark.fault("TRI-01", "TRI-02", "TRI-04")
def test_no_trial_is_lost_or_run_twice_when_the_runner_is_killed(
    tmp_path: Path, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    kills, trials = KILLS * chaos_factor, min(MOST_TRIALS, TRIALS * chaos_factor)
    chance = random.Random(20)
    # Each attempt at which the agent gets its prompt adds a line to a file of its own.
    counts = tmp_path / "counts"
    counts.mkdir()
    step = f"shell echo x >> {counts}/$DUOLOGUE_TRIAL_SEED\nwrite it.txt done\nsay done"
    case = f'[[cases]]\nid = "it"\nprompts = [{json.dumps(step)}]\ngraders = [{{ type = "file", path = "it.txt" }}]\n'
    suite = write_suite(tmp_path / "suite", case)
    words = ["--agent", f"it={python_agent('obedient_agent')}", "--sandbox", "none", "-j", "2", "-n", str(trials)]
    command = [sys.executable, "-m", "duologue", "eval", "run", str(suite), *words]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    run_path = tmp_path / "run"
    done: dict[Path, int] = {}
    killed, seconds = 0, 0.0
    while killed < kills:
        began = time.monotonic()
        target = ["--resume", str(run_path)] if killed else ["-o", str(run_path)]
        with subprocess.Popen(
            [*command, *target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, start_new_session=True
        ) as process:
            assert process.stdout is not None
            if not killed:
                process.stdout.readline()
                seconds = time.monotonic() - began
            else:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0, LONGEST * seconds))
            process.kill()
            killed += 1
        run = RunDirectory.open(run_path)
        records = {record.directory: record.result_file.stat().st_mtime_ns for record in run.records()}
        assert done.items() <= records.items(), "a finished trial was touched"
        done = records
    ended = subprocess.run(
        [*command, "--resume", str(run_path)], capture_output=True, text=True, env=env, check=False, timeout=280
    )
    record_property("count", killed)

    assert ended.returncode == 0, ended.stderr
    run = RunDirectory.open(run_path)
    records = {record.directory: record.result_file.stat().st_mtime_ns for record in run.records()}
    assert done.items() <= records.items()
    assert len(records) == trials == len({record.result().key for record in run.records()})
    assert all(record.result().outcome.kind == "completed" for record in run.records())
    # A trial that was cut off is run again, and no other: its line was not followed by a record.
    begun = Counter({path.name: len(path.read_text().split()) for path in counts.iterdir()})
    assert len(begun) == trials
    assert sum(begun.values()) <= trials + 2 * killed
    assert [each for each in (run_path / "attempts").iterdir() if each.is_dir()] == []
    assert list(tmp_path.glob("duologue-*")) == []
    assert processes_below(tmp_path) == []


@pytest.mark.fault("TRI-03")
async def test_many_trials_of_the_built_in_agent_leave_no_process_and_no_directory(
    tmp_path: Path,
    chaos_factor: int,
    record_property: Callable[[str, object], None],
    leftovers: Callable[[], list[str]],
) -> None:
    trials = min(1000, 10 * chaos_factor)
    case = """
[[cases]]
id = "edit"
prompts = ["/write notes.txt one line"]
permissions = { edit = "allow" }
graders = [{ type = "file", path = "notes.txt" }]
"""
    end, run = await run_cases(tmp_path, case, trials=trials, options={"jobs": 4})
    record_property("count", trials)

    assert end.progress.passed == trials
    assert leftovers() == []
    assert list((run.path / "attempts").iterdir()) == []
    assert [record.result().left_processes for record in run.records()] == [[]] * trials
    assert processes_below(tmp_path) == []


def processes_below(directory: Path) -> list[str]:
    """Return the command lines of processes that work below a directory, or have it in their environment."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(path.name) == os.getpid():
                continue
            environment = (path / "environ").read_bytes().decode("utf-8", "replace")
            is_here = Path(os.readlink(path / "cwd")).is_relative_to(directory)
            if is_here or str(directory) in environment:
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return found
