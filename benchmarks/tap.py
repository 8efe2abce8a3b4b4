"""Costs of `duologue tap` between a client and an agent while it records."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measures import Row, at_least, at_most, cells, within
from benchmarks.peers import OURS_PUBLIC, PROGRAMS, Peer
from benchmarks.runs import ENVIRONMENT, Sample, converse, interleave, run_program

UPDATES = 20_000
REQUESTS = 2_000
RATE = 20_000
"""Updates a second that must pass unchanged."""
MAX_DELAY_MS = 2
"""Most that a tap may add to the round trip that 99 of 100 do not exceed."""


def tap(peers: Mapping[str, Peer], rounds: int) -> list[Row]:
    """Measure the CPU of a tap that records, what it adds to a round trip, and that every byte passes."""
    public = peers[OURS_PUBLIC]
    with tempfile.TemporaryDirectory(prefix="duologue-tap-") as folder:
        got = interleave([public], min(rounds, 5), lambda peer: _sample(peer, Path(folder)), "duologue tap")
    pair, own = cells(got, "pair", 1e6 / UPDATES), cells(got, "tap", 1e6 / UPDATES)
    direct, tapped = cells(got, "direct_p99", 1000), cells(got, "tapped_p99", 1000)
    rate, same = cells(got, "rate"), cells(got, "identical", 100)
    return [
        Row("a client and an `Agent` on the public API: an update, CPU of both", "us", pair),
        Row("the same with `duologue tap` between them, CPU of the tap", "us", own,
            tuple(within(own[name], pair[name], 0.3, "of the pair") for name in own)),
        Row("the same with a program that only passes the bytes on", "us", cells(got, "forward", 1e6 / UPDATES)),
        Row("the same, and writes them to a file without a look at them", "us", cells(got, "write", 1e6 / UPDATES)),
        Row("a raw client and the built-in agent: 99 of 100 round trips within", "ms", direct),
        Row("the same with a tap between them", "ms", tapped,
            tuple(at_most(tapped[name] - direct[name], MAX_DELAY_MS, "ms more") for name in tapped)),
        Row("the same, updates that pass", "updates/s", rate,
            tuple(at_least(each, RATE, "updates/s") for each in rate.values())),
        Row("the same, runs whose bytes are identical on both ends", "%", same,
            tuple(at_least(each, 100, "%") for each in same.values())),
    ]  # fmt: skip


def _sample(peer: Peer, folder: Path) -> Sample:
    recording = folder / "run.acp"
    recording.unlink(missing_ok=True)
    own = converse(peer, "stream", UPDATES)
    floor = [sys.executable, str(PROGRAMS / "floor_tap.py")]
    taps = {"tap": _tap(recording), "forward": [*floor, "--"], "write": [*floor, "-o", str(folder / "floor"), "--"]}
    cpu = {name: _cpu_between(peer, command) for name, command in taps.items()}
    direct = _raw(peer, folder, [])
    raw = _raw(peer, folder, _tap(recording))
    figures = {"pair": own["cpu"], **cpu, "rate": raw["rate"], "identical": raw["identical"]}
    return {**figures, "direct_p99": direct["p99"], "tapped_p99": raw["p99"]}


def _cpu_between(peer: Peer, tap: list[str]) -> float:
    """Return the CPU time of a tap between the client and the agent of a peer."""
    command = [*peer.program("client"), "stream", str(UPDATES), "--", *tap, *peer.program("agent")]
    sample: Sample = json.loads(run_program(command, {**ENVIRONMENT, **peer.env}))
    return sample["agent_cpu"]


def _tap(recording: Path) -> list[str]:
    return [sys.executable, "-m", "duologue", "tap", "-o", str(recording), "--"]


def _raw(peer: Peer, folder: Path, between: list[str]) -> Sample:
    copy = folder / "copy"
    agent = shlex.join([sys.executable, "-m", "duologue", "agent", "--sessions", str(folder / "sessions")])
    copied = ["sh", "-c", f"{agent} | tee {shlex.quote(str(copy))}"]
    program = [sys.executable, str(PROGRAMS / "raw_client.py"), str(UPDATES), str(REQUESTS), str(copy)]
    sample: Sample = json.loads(run_program([*program, "--", *between, *copied], {**ENVIRONMENT, **peer.env}))
    return sample
