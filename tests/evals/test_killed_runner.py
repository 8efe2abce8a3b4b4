"""A runner that is killed at random moments and resumed leaves each trial with one result."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.evals.record.run_directory import RunDirectory
from tests.evals.samples import run_manifest, small_suite

ROOT = Path(__file__).parents[2]
KILLS = 3
"""Kills of the usual run; `make chaos` multiplies them by 100."""
STEPS_OF_A_TRIAL = 4


@pytest.mark.fault("TRI-02", "TRI-04")
def test_no_trial_is_lost_and_none_has_two_results_after_kills(
    tmp_path: Path, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    kills = KILLS * chaos_factor
    chance = random.Random(19)
    suite = small_suite(tmp_path / "suite")
    run = RunDirectory.create(tmp_path / "run", run_manifest(suite, agents=("a", "b"), trials=50), suite)
    total = len(run.pending())
    # On average all kills together leave half of the trials for the last process.
    most = max(2, total * STEPS_OF_A_TRIAL // kills)
    done: dict[Path, int] = {}
    killed = 0
    while run.pending():
        is_last = killed == kills
        command = [sys.executable, "-m", "tests.evals.killed_runner", str(run.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            for number, _ in enumerate(process.stdout):
                if not is_last and number >= chance.randrange(most):
                    process.kill()
                    killed += 1
                    break
        records = {record.directory: record.result_file.stat().st_mtime_ns for record in run.records()}
        # What was finished before is untouched.
        assert done.items() <= records.items()
        done = records
    record_property("count", killed)

    assert len(done) == total == len({record.result().key for record in run.records()})
    assert {record.result().output for record in run.records()} == {
        f"{case} {trial}" for case in ("greet", "edit") for trial in range(1, 51)
    }
    assert [each for each in (run.path / "attempts").iterdir() if each.is_dir()] == []
    assert all(len(list(record.trajectory())) == 100 for record in run.records())
