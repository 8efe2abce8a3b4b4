"""Runs the programs of all peers in turns, and takes medians.

The order is rotated in each round, so that no peer always runs after the same one.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from benchmarks.peers import ROOT, Peer, log

LONGEST_RUN_SECONDS = 120

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
"""Without settings such as the one that keeps bytecode from being written: an installed library has its bytecode."""

Sample: TypeAlias = dict[str, float]


class RunFailed(Exception):
    """A program failed."""


def interleave(peers: Sequence[Peer], rounds: int, sample: Callable[[Peer], Sample], label: str) -> dict[str, Sample]:
    """Run the peers in turns; return the median of each figure for each peer that did not fail."""
    taken: dict[str, list[Sample]] = {peer.name: [] for peer in peers}
    for number in range(rounds):
        log(f"{label}, round {number + 1} of {rounds}")
        turn = number % len(peers)
        for peer in [*peers[turn:], *peers[:turn]]:
            try:
                taken[peer.name].append(sample(peer))
            except RunFailed as failure:
                log(f"{peer.name} failed: {failure}")
    return {name: _medians(samples) for name, samples in taken.items()}


def _medians(samples: list[Sample]) -> Sample:
    return {key: statistics.median(sample[key] for sample in samples) for key in samples[0]} if samples else {}


def converse(peer: Peer, scenario: str, count: int, env: Mapping[str, str] | None = None) -> Sample:
    """Let its client and its agent play one scenario.

    Raises:
        RunFailed: They did not finish it.
    """
    command = [*peer.program("client"), scenario, str(count), "--", *peer.program("agent")]
    output = run_program(command, {**ENVIRONMENT, **peer.env, **(env or {})})
    sample: Sample = json.loads(output)
    sample["cpu"] = sample["client_cpu"] + sample["agent_cpu"]
    return sample


def start_up(peer: Peer) -> Sample:
    """Measure an interpreter that only imports, from start to end."""
    env = {**ENVIRONMENT, **peer.env}
    began = time.perf_counter()
    process = subprocess.Popen(peer.importing, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RunFailed(f"importing ended with {process.returncode}")
    return {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss * 1024.0}


@contextmanager
def codecs(peers: Sequence[Peer]) -> Generator[Callable[[str, Peer], Sample]]:
    """Start processes that time single messages on request."""
    with ExitStack() as stack:
        running: dict[str, subprocess.Popen[str]] = {}
        for peer in peers:
            process = subprocess.Popen(
                peer.program("codec"),
                cwd=ROOT,
                env={**ENVIRONMENT, **peer.env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            running[peer.name] = stack.enter_context(process)

        def ask(case: str, peer: Peer) -> Sample:
            process = running[peer.name]
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(case + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                raise RunFailed(f"the timing of {case} ended early")
            return {"microseconds": float(answer)}

        yield ask


def run_program(command: list[str], env: Mapping[str, str], seconds: float = LONGEST_RUN_SECONDS) -> str:
    """Run a program; return the JSON object it prints.

    Raises:
        RunFailed: It printed something else, or did not end.
    """
    process = subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RunFailed(f"no end after {seconds:g} s") from None
    if process.returncode or not output.startswith("{"):
        raise RunFailed((errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1][:200])
    return output
