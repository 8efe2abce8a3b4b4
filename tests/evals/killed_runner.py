"""A runner without agents: commits the trials of a run one by one, and prints a line before each step it takes.

python -m tests.evals.killed_runner RUN
"""

from __future__ import annotations

import sys
from pathlib import Path

from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trajectory import TrajectoryStep
from tests.evals.samples import trial_manifest, trial_result


def main(path: Path) -> None:
    """Run what is pending."""
    run = RunDirectory.open(path)
    for interrupted in run.interrupted():
        interrupted.remove()
    for key in run.pending():
        step("begin")
        with run.begin(key) as attempt:
            step("manifest")
            attempt.write_manifest(trial_manifest(key))
            step("trajectory")
            attempt.write_trajectory(TrajectoryStep(type="message", number=n, t=n, text="x" * 100) for n in range(100))
            step("commit")
            attempt.commit(trial_result(key, output=f"{key.case} {key.trial}"))
    step("end")


def step(name: str) -> None:
    """Print the name of the next step."""
    sys.stdout.write(f"{name}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
