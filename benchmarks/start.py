"""Measures of starting: importing duologue, `--help`, and the first output of a turn."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from benchmarks.measures import Row, at_most, cells, within
from benchmarks.peers import OURS, OURS_PUBLIC, ROOT, Peer
from benchmarks.remote import remote_python
from benchmarks.runs import ENVIRONMENT, RunFailed, Sample, interleave

CLI = "import sys; from duologue.cli.main import main; sys.exit(main())"
COMMANDS = {
    "empty": ["-c", "pass"],
    "argparse": ["-c", "import argparse; argparse.ArgumentParser().parse_args([])"],
    "duologue": ["-c", "import duologue"],
    "client": ["-c", "import duologue.client.connect"],
    "help": ["-c", CLI, "--help"],
}
LONGEST_SECONDS = 60


def start(peers: Mapping[str, Peer], rounds: int) -> list[Row]:
    """Measure interpreters that import something and end, and `duologue run` until it prints."""
    runtime = remote_python()
    ours = [Peer(name, runtime, "", env=peers[OURS].env) for name in COMMANDS]

    def sample(peer: Peer) -> Sample:
        return _run([peer.runtime, *COMMANDS[peer.name]], peer.env)

    got = interleave(ours, rounds + 2, sample, "start")
    # The command line needs the package's metadata, which only an installed duologue has.
    first = interleave(
        [Peer("run", sys.executable, "", env=peers[OURS].env)], min(rounds, 5), _first_output, "duologue run"
    )
    shown = {OURS_PUBLIC: first["run"]["seconds"] * 1000} if first["run"] else {}
    cpu = cells(got, "cpu", 1000)
    above = cpu["duologue"] - cpu["empty"]
    return [
        Row("an interpreter that does nothing, CPU", "ms", {OURS_PUBLIC: cpu["empty"]}),
        Row("`import duologue`, above that, CPU", "ms", {OURS_PUBLIC: above}, (at_most(above, 15, "ms"),)),
        Row("`import duologue.client.connect`, above that, CPU", "ms", {OURS_PUBLIC: cpu["client"] - cpu["empty"]}),
        Row("an interpreter with argparse, CPU", "ms", {OURS_PUBLIC: cpu["argparse"]}),
        Row(
            "`duologue --help`, CPU",
            "ms",
            {OURS_PUBLIC: cpu["help"]},
            (within(cpu["help"], cpu["argparse"], 1.5, "of that"),),
        ),
        Row("`duologue run` until the built-in agent's first output, wall", "ms", shown),
    ]


def _run(command: Sequence[str], env: Mapping[str, str]) -> Sample:
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env={**ENVIRONMENT, **env}, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RunFailed(f"{command} ended with {process.returncode}")
    return {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime}


def _first_output(peer: Peer) -> Sample:
    with tempfile.TemporaryDirectory() as folder:
        env = {**ENVIRONMENT, **peer.env, "XDG_DATA_HOME": f"{folder}/data"}
        command = [peer.runtime, "-c", CLI, "run", "/tour", "--yes", "--cwd", folder]
        began = time.perf_counter()
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            first = process.stdout.read(1)
            seconds = time.perf_counter() - began
            try:
                process.communicate(timeout=LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        if not first:
            raise RunFailed(f"`duologue run` printed nothing and ended with {process.returncode}")
    return {"seconds": seconds}
