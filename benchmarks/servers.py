"""Measures of servers: `duologue serve` in front of an agent, and one server with a thousand clients."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.measures import MEGABYTE, Row, at_most, cells, within
from benchmarks.peers import OURS_PUBLIC, PROGRAMS, ROOT, Peer
from benchmarks.remote import WIRES, remote_python
from benchmarks.runs import ENVIRONMENT, RunFailed, Sample, converse, interleave, run_program

UPDATES = 20_000
CONNECTIONS = (250, 500, 1_000, 2_000)
MAIN_CONNECTIONS = 1_000
RATE = 10
SECONDS = 8
SATURATED_SECONDS = 1.0
"""A server is saturated if 1 of 100 updates comes later than this."""
SOURCES = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}


def serve_command(runtime: str, *options: str) -> list[str]:
    """Return the command of `duologue serve` in front of the public API's agent, which uses pipes."""
    run = "import sys; from duologue.cli.main import main; sys.exit(main())"
    agent = ["env", "-u", "BENCH_WIRE", runtime, str(PROGRAMS / "public_agent.py")]
    return [runtime, "-c", run, "serve", "--dangerously-without-token", *options, "--", *agent]


def serve(peers: Mapping[str, Peer], rounds: int) -> list[Row]:
    """Measure the CPU per update that `duologue serve` adds to an agent."""
    runtime = remote_python()
    alone = replace(peers[OURS_PUBLIC], runtime=runtime)
    rows: list[Row] = []

    def through(wire: str) -> Sample:
        command = [*alone.program("client"), "stream", str(UPDATES), "--", *serve_command(runtime)]
        sample: Sample = json.loads(run_program(command, {**ENVIRONMENT, **alone.env, "BENCH_WIRE": wire}))
        return sample

    def sample(peer: Peer) -> Sample:
        own = converse(peer, "stream", UPDATES)
        return {"alone": own["agent_cpu"], **{wire: through(wire)["agent_cpu"] for wire in WIRES}}

    got = interleave([alone], min(rounds, 5), sample, "duologue serve")
    own = cells(got, "alone", 1e6 / UPDATES)
    rows.append(Row("an `Agent` on pipes: an update, CPU of the agent", "us", own))
    for wire, name in WIRES.items():
        added = cells(got, wire, 1e6 / UPDATES)
        aims = tuple(within(added[peer], own[peer], 0.35, "of the agent alone") for peer in added)
        rows.append(Row(f"{name}: what `duologue serve` in front of it adds, CPU of the server", "us", added, aims))
    return rows


def scale(peers: Mapping[str, Peer], rounds: int) -> list[Row]:
    """Measure one server with more and more connections that each receive ten updates a second."""
    runtime = remote_python()
    agent = [runtime, str(PROGRAMS / "public_agent.py")]
    kinds = {"an `Agent` in process": agent, "`duologue serve --shared`": serve_command(runtime, "--shared")}
    rows: list[Row] = []
    for kind, command in kinds.items():
        best = found = Sample()
        for connections in CONNECTIONS:
            found = _load(command, connections)
            if connections == MAIN_CONNECTIONS:
                rows += _scale_rows(f"{kind}, {connections:,} WebSockets with {RATE} updates/s each", found)
            if found["p99"] > SATURATED_SECONDS or found["share"] < 1:
                break
            best = found
        label = f"{kind}: most of {', '.join(f'{number:,}' for number in CONNECTIONS)} connections within a second"
        rows.append(Row(label, "updates/s", {OURS_PUBLIC: best["rate"]} if best else {}))
        rows.append(Row("the same, CPU of the server at the last step tried", "%", {OURS_PUBLIC: found["cpu"] * 100}))
    return rows


def _scale_rows(label: str, found: Sample) -> list[Row]:
    def cell(figure: str, scale: float) -> dict[str, float]:
        return {OURS_PUBLIC: found[figure] * scale}

    return [
        Row(f"{label}: CPU of the server", "%", cell("cpu", 100)),
        Row("the same, CPU of the load generator", "%", cell("generator_cpu", 100)),
        Row("the same, memory of the server", "MB", cell("memory", 1 / MEGABYTE)),
        Row("the same, half of the updates come within", "ms", cell("p50", 1000)),
        Row("the same, 99 of 100 within", "ms", cell("p99", 1000), (at_most(found["p99"] * 1000, 1000, "ms"),)),
        Row("the same, updates that came", "%", cell("share", 100)),
    ]


def _load(command: list[str], connections: int, rate: float = RATE, seconds: float = SECONDS) -> Sample:
    figures = [str(connections), str(rate), str(seconds)]
    program = [sys.executable, "-m", "benchmarks.load", *figures, "--", *command]
    sample: Sample = json.loads(run_program(program, {**ENVIRONMENT, **SOURCES, "BENCH_WIRE": "ws"}))
    if not sample:
        raise RunFailed("it saw nothing")
    return sample


SERVER_MEASURES = {"serve": serve, "scale": scale}
