"""`make cluster-demo`: start a Dask cluster and a Ray cluster on this machine, and run a suite on each.

    python -m scripts.cluster_demo [dask] [ray]

Everything listens on loopback, and ends with the demo. Ray is installed in an environment of its own on first use.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.evals.engines.ray_processes import RayProcesses, free_port
from tests.interop.peers import Absent, ray_python

ROOT = Path(__file__).parents[1]
SUITE = "examples/first_suite/suite.toml"
WORKERS = 2
END_SECONDS = 30.0


def main() -> int:
    """Show the engines that are named, or all; return the exit code."""
    demos: dict[str, Callable[[Path], int]] = {"dask": dask, "ray": ray}
    chosen = sys.argv[1:] or list(demos)
    codes: list[int] = []
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="duologue-demo-") as folder:
            codes.append(demos[name](Path(folder)))
    return max(codes)


def dask(folder: Path) -> int:
    """Run the suite on a scheduler and two workers of Dask."""
    address = f"127.0.0.1:{free_port()}"
    program = str(Path(sys.executable).with_name("dask"))
    scheduler = [program, "scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard"]
    worker = [program, "worker", f"tcp://{address}", "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard"]
    worker += ["--nworkers", str(WORKERS), "--local-directory", str(folder)]
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "dask.log").open("wb") as log:
        try:
            for command in (scheduler, worker):
                show([*command, "&"])
                started.append(subprocess.Popen(command, stdout=log, stderr=log))
            return evaluate([sys.executable], f"dask://{address}", folder)
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(END_SECONDS)


def ray(folder: Path) -> int:
    """Run the suite on a head of Ray with two slots."""
    try:
        python = ray_python()
        processes = RayProcesses(python, WORKERS)
    except (Absent, FileNotFoundError) as reason:
        print(f"Ray cannot be had here: {reason}")
        return 0
    with processes as cluster:
        port = cluster.address.rpartition(":")[2]
        show(["ray", "start", "--head", "--ray-client-server-port", port, "--num-cpus", str(WORKERS)])
        # The agent finds this package as its workers do: by a variable of theirs.
        return evaluate(cluster.command(), cluster.address, folder, cluster.environment, "--env", "PYTHONPATH")


def evaluate(
    python: Sequence[str], engine: str, folder: Path, env: Mapping[str, str] | None = None, *options: str
) -> int:
    """Run the suite with an engine; return the exit code."""
    words = ["eval", "run", SUITE, "-n", "5", "--engine", engine, "-o", str(folder / "run"), *options]
    show(["duologue", *words])
    ended = subprocess.run([*python, "-m", "duologue", *words], cwd=ROOT, env=env or dict(os.environ), check=False)
    print()
    return ended.returncode


def show(command: Sequence[str]) -> None:
    """Print a command as a user would write it."""
    name, *rest = command
    print(f"$ {Path(name).name} {' '.join(word if word == '&' else shlex.quote(word) for word in rest)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
