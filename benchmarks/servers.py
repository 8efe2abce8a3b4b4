"""Measures of servers: `duologue serve` in front of an agent, and one server with a thousand clients."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.load import SATURATED_SECONDS, WHOLE
from benchmarks.measures import MEGABYTE, Row, at_most, cells, within
from benchmarks.peers import OURS_PUBLIC, PROGRAMS, ROOT, Peer
from benchmarks.remote import WIRES, remote_python
from benchmarks.runs import ENVIRONMENT, Sample, converse, interleave, run_program

UPDATES = 20_000
CONNECTIONS = 1_000
RATES = (10, 15, 20, 25, 30, 40, 60)
"""Updates a second for each connection; the first is the one that is reported in full."""
SECONDS = 5
FULL = 0.85
"""The share of a core from which a process counts as full: the rest is the waiting between its steps."""
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
    """Measure one server with a thousand connections, and raise the rate of their updates until it is saturated."""
    runtime = remote_python()
    agent = [runtime, str(PROGRAMS / "public_agent.py")]
    kinds = {"an `Agent` in process": agent, "`duologue serve --shared`": serve_command(runtime, "--shared")}
    rows: list[Row] = []
    for kind, command in kinds.items():
        first, *others = _load(command)
        rows += _scale_rows(f"{kind}, {CONNECTIONS:,} WebSockets with {RATES[0]} updates/s each", first)
        steps = [first, *others]
        timely = [step["rate"] for step in steps if not _is_saturated(step)]
        rows.append(
            Row(f"{kind}: most that came within a second", "updates/s", {OURS_PUBLIC: max(timely, default=0.0)})
        )
        last = steps[-1]
        ending = f"saturated; full: {full_part(last)}" if _is_saturated(last) else "not saturated by the highest rate"
        rows.append(Row(f"the same, the last rate tried ({ending})", "updates/s", {OURS_PUBLIC: last["rate"]}))
        rows.append(Row("the same, 99 of 100 within", "ms", {OURS_PUBLIC: last["p99"] * 1000}))
        for process, figure in PROCESSES.items():
            if last[figure]:
                rows.append(Row(f"the same, CPU of {process}", "%", {OURS_PUBLIC: last[figure] * 100}))
    return rows


PROCESSES = {"the server": "server_cpu", "the agent behind it": "agent_cpu", "the load generator": "generator_cpu"}


def _is_saturated(step: Sample) -> bool:
    return step["p99"] > SATURATED_SECONDS or step["share"] < WHOLE


def full_part(step: Sample) -> str:
    """Name the process whose core is full, or the machine."""
    busiest = max(PROCESSES, key=lambda process: step[PROCESSES[process]])
    if step[PROCESSES[busiest]] >= FULL:
        return busiest
    cores = os.cpu_count() or 1
    if sum(step[figure] for figure in PROCESSES.values()) >= FULL * cores:
        return f"all {cores} cores of the machine"
    return "no process of these; other work may use the cores"


def _scale_rows(label: str, found: Sample) -> list[Row]:
    def cell(figure: str, scale: float) -> dict[str, float]:
        return {OURS_PUBLIC: found[figure] * scale}

    server = {OURS_PUBLIC: (found["server_cpu"] + found["agent_cpu"]) * 100}
    return [
        Row(f"{label}: CPU of the server and its agent", "%", server),
        Row("the same, CPU of the load generator", "%", cell("generator_cpu", 100)),
        Row("the same, memory of the server", "MB", cell("memory", 1 / MEGABYTE)),
        Row("the same, half of the updates come within", "ms", cell("p50", 1000)),
        Row("the same, 99 of 100 within", "ms", cell("p99", 1000), (at_most(found["p99"] * 1000, 1000, "ms"),)),
        Row("the same, updates that came", "%", cell("share", 100)),
    ]


def _load(command: list[str]) -> list[Sample]:
    figures = [str(CONNECTIONS), str(SECONDS), ",".join(map(str, RATES))]
    program = [sys.executable, "-m", "benchmarks.load", *figures, "--", *command]
    printed = run_program(program, {**ENVIRONMENT, **SOURCES, "BENCH_WIRE": "ws"})
    found: list[Sample] = json.loads(printed)["steps"]
    return found


SERVER_MEASURES = {"serve": serve, "scale": scale}
