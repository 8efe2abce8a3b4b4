"""Write a run for Inspect, for Harbor and for SWE-bench.

python export_run.py RUN DIRECTORY
"""

import sys
from pathlib import Path

from duologue.evals import read_run, to_swebench, write_atif, write_inspect_logs


def main(run: str, directory: Path) -> None:
    """Write the run below the directory, and print how many files and lines there are."""
    runs = [read_run(run)]
    logs = write_inspect_logs(runs, directory / "logs")
    trajectories = write_atif(runs, directory / "trajectories")
    predictions = to_swebench(runs, agent=runs[0].agents[0].label)
    (directory / "predictions.jsonl").write_text(predictions.text, "utf-8")
    for line in predictions.left_out:
        print(f"left out: {line}", file=sys.stderr)
    lines = predictions.text.count("\n")
    print(f"{len(logs)} log, {len(trajectories)} trajectories, {lines} prediction")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
