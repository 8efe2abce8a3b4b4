"""Measures over the network, on loopback: WebSocket and HTTP, idle connections, and a client that does not read."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version

from benchmarks.measures import MEGABYTE, Aim, Cells, Row, at_most, cells, public_to_bare, within
from benchmarks.peers import (
    OFFICIAL_NEXT,
    OURS,
    OURS_PUBLIC,
    OURS_SAME,
    ROOT,
    TYPESCRIPT,
    Peer,
)
from benchmarks.runs import ENVIRONMENT, RunFailed, Sample, converse, interleave, run_program
from tests.interop import peers as foreign
from tests.interop.peers.building import python_environment

UPDATES = 20_000
REQUESTS = 1_000
IDLE_CONNECTIONS = 5_000
KIBIBYTE = 1024
OURS_ALL = (OURS, OURS_SAME, OURS_PUBLIC)
WIRES = {"ws": "WebSocket", "http": "HTTP"}
OF_OURS = ("msgspec", "websockets", "uvicorn", "starlette", "httptools")


def network(peers: Mapping[str, Peer], rounds: int) -> list[Row]:
    """Measure a long turn and small requests over WebSocket and over HTTP/1.1."""
    players = _over_network(peers)
    rows: list[Row] = []
    for wire, name in WIRES.items():
        env = {"BENCH_WIRE": wire}

        def sample(peer: Peer, env: Mapping[str, str] = env) -> Sample:
            turn = converse(peer, "stream", UPDATES, env)
            single, many = (converse(peer, what, REQUESTS, env) for what in ("sequential", "in_flight"))
            trips = {"trip": single["seconds"], "trip_cpu": single["cpu"], "many_cpu": many["cpu"]}
            return {**turn, **trips, "many": many["seconds"]}

        got = interleave(players, min(rounds, 5), sample, f"over {name}")
        cpu = cells(got, "cpu", 1e6 / UPDATES)
        aims = better_than_all(cpu, 4 if wire == "ws" else 1)
        aims += public_to_bare(cpu, 1.5) if wire == "ws" else ()
        trip, many = cells(got, "trip_cpu", 1e6 / REQUESTS), cells(got, "many_cpu", 1e6 / REQUESTS)
        trips = better_than_all(trip, 1.6 if wire == "ws" else 2.5)
        rows += [
            Row(f"{name}: an update of a long turn, CPU of both sides", "us", cpu, aims),
            Row("the same, client alone", "us", cells(got, "client_cpu", 1e6 / UPDATES)),
            Row("the same, server alone", "us", cells(got, "agent_cpu", 1e6 / UPDATES)),
            Row("the same, wall", "us", cells(got, "seconds", 1e6 / UPDATES)),
            Row(f"{name}: round trip, one after the other, CPU", "us", trip, trips),
            Row("the same, wall", "us", cells(got, "trip", 1e6 / REQUESTS)),
            Row(
                f"{name}: request with 64 in flight, CPU",
                "us",
                many,
                better_than_all(many, 2.5) if wire == "http" else (),
            ),
            Row("the same, wall", "us", cells(got, "many", 1e6 / REQUESTS)),
        ]
    return rows


def sockets(peers: Mapping[str, Peer], rounds: int) -> list[Row]:
    """Measure what idle WebSockets cost a server, and one whose client does not read."""
    players = [peer for peer in _over_network(peers) if peer.name != OURS_SAME]
    resting = interleave(players, 1, partial(_connect, what=("idle", str(IDLE_CONNECTIONS))), "idle")
    each = cells(resting, "each", 1 / KIBIBYTE)
    stuck = interleave(players, min(rounds, 3), partial(_connect, what=("stalled",)), "a client that does not read")
    growth, ratio = cells(stuck, "growth", 1 / MEGABYTE), cells(stuck, "ratio")
    bounds = tuple(at_most(each[name], 64, "KiB") for name in (OURS, OURS_PUBLIC))
    return [
        Row(f"{IDLE_CONNECTIONS:,} idle WebSockets: memory of the server for each", "KiB", each, bounds),
        Row("a client that does not read: growth of the server", "MB", growth, (at_most(growth[OURS], 64, "MB"),)),
        Row("the same, round trip of another client, to one before", "x", ratio, (within(ratio[OURS], 1, 2, "of it"),)),
    ]


REMOTE_MEASURES: dict[str, Callable[[Mapping[str, Peer], int], list[Row]]] = {"network": network, "sockets": sockets}


def better_than_all(values: Cells, factor: float) -> tuple[Aim, ...]:
    """Return the target to need this many times less than the best of the others."""
    others = {name: value for name, value in values.items() if name not in OURS_ALL}
    if not others:
        return ()
    best = min(others, key=lambda name: others[name])
    ratio = others[best] / values[OURS]
    return (Aim(f"{factor:g}x the best of the others ({best})", f"{ratio:.1f}x", ratio >= factor),)


def remote_python() -> str:
    """Return the interpreter of an environment with what duologue needs for the network."""
    return python_environment("duologue-remote", *(f"{name}=={version(name)}" for name in OF_OURS))


def _over_network(peers: Mapping[str, Peer]) -> list[Peer]:
    """Return the peers that support the network, in environments with what that needs."""
    ours = remote_python()
    official = foreign.official_python_remote(foreign.OFFICIAL_NEXT)
    runtimes = {**dict.fromkeys(OURS_ALL, ours), OFFICIAL_NEXT: official, TYPESCRIPT: shutil.which("node") or ""}
    return [replace(peer, runtime=runtimes[name]) for name, peer in peers.items() if name in runtimes]


def _connect(peer: Peer, what: tuple[str, ...]) -> Sample:
    command = [sys.executable, "-m", "benchmarks.sockets", *what, "--", *peer.program("agent")]
    sources = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    output = run_program(command, {**ENVIRONMENT, **peer.env, "PYTHONPATH": sources, "BENCH_WIRE": "ws"})
    sample: Sample = json.loads(output)
    if not sample:
        raise RunFailed("it saw nothing")
    return sample
