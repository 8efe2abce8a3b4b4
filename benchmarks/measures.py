"""The measures and their targets.

Each function takes the peers and a number of rounds and returns the rows of the table it fills. CPU time is used
where possible: on a shared machine it varies far less than wall-clock time.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from benchmarks.peers import (
    BARE,
    OFFICIAL,
    OFFICIAL_NEXT,
    OURS,
    OURS_PUBLIC,
    OURS_SAME,
    PROGRAMS,
    RUST_TUNED,
    TYPESCRIPT,
    Peer,
)
from benchmarks.runs import ENVIRONMENT, Sample, codecs, converse, interleave, run_program, start_up

UPDATES = 20_000
REQUESTS = 5_000
ROUND_TRIPS = 5_000
FLOOD_UPDATES = 30_000
LARGE_MEGABYTES = (10, 25, 50)
LARGE_LIMIT = 64 * 1024 * 1024
MEGABYTE = 1_000_000
ENDED_SESSIONS = 1_200
RUNNING_SESSIONS = 1_000
"""Fewer, because a connection limits how many requests are open at once."""

Cells: TypeAlias = Mapping[str, float]
"""A value per peer; a peer without one failed or does not take part."""

Peers: TypeAlias = Mapping[str, Peer]


@dataclass(frozen=True)
class Aim:
    """A target, and whether it was reached."""

    wanted: str
    reached: str
    is_hit: bool


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    label: str
    unit: str
    cells: Cells
    aims: tuple[Aim, ...] = ()


def imports(peers: Peers, rounds: int) -> list[Row]:
    """Measure an interpreter from start to end that imports what an agent needs."""
    got = interleave([peer for peer in peers.values() if peer.imports], rounds + 2, start_up, "imports")
    cpu = cells(got, "cpu", 1000)
    return [
        Row("import what an agent needs, CPU", "ms", cpu, better(cpu, {OFFICIAL: 5})),
        Row("the same, wall", "ms", cells(got, "seconds", 1000)),
        Row("the same, peak memory", "MB", cells(got, "peak", 1 / MEGABYTE)),
    ]


def codec(peers: Peers, rounds: int) -> list[Row]:
    """Measure single messages: decoding to checked objects, encoding, and forwarding."""
    python = [peer for peer in peers.values() if peer.name in (OURS, OFFICIAL, OFFICIAL_NEXT)]
    cases: dict[str, tuple[str, float]] = {
        "read mix": ("read and check a message of the mix, CPU", 5),
        "read chunks": ("the same, a chunk of text", 0),
        "write mix": ("write a message of the mix, CPU", 0),
        "build and write chunks": ("build and write a chunk of text, CPU", 15),
        "forward mix": ("proxy: read the envelope, pass the bytes on, CPU", 18),
        "relay mix": ("proxy: the same, requests under another id, CPU", 18),
    }
    rows: list[Row] = []
    with codecs(python) as ask:
        for case, (label, factor) in cases.items():
            got = interleave(python, rounds * 5, partial(ask, case), f"single messages: {case}")
            cpu = cells(got, "microseconds")
            rows.append(Row(label, "us", cpu, better(cpu, {OFFICIAL: factor} if factor else {})))
    return rows


def stream(peers: Peers, rounds: int) -> list[Row]:
    """Measure one long turn, and the same number of updates in a hundred sessions."""

    def sample(peer: Peer) -> Sample:
        one = converse(peer, "stream", UPDATES)
        if not peer.can_play("sessions"):
            return one
        many = converse(peer, "sessions", UPDATES)
        return {**one, "many_cpu": many["cpu"], "many_seconds": many["seconds"]}

    got = interleave(players(peers, "stream"), rounds, sample, f"{UPDATES} updates")
    cpu, many = cells(got, "cpu", 1000), cells(got, "many_cpu", 1000)
    aims = (
        *better(cpu, {OFFICIAL: 15, TYPESCRIPT: 8}),
        *better(cpu, {OFFICIAL: 9, RUST_TUNED: 2}, OURS_PUBLIC),
        *public_to_bare(cpu, 1.4),
    )
    spread = (within(many[OURS], cpu[OURS], 1.3, "of one session"), *public_to_bare(many, 1.6))
    return [
        Row(f"{UPDATES:,} updates in a turn, CPU of both sides", "ms", cpu, aims),
        Row("the same, client alone", "ms", cells(got, "client_cpu", 1000)),
        Row("the same, agent alone", "ms", cells(got, "agent_cpu", 1000)),
        Row("the same, wall", "ms", cells(got, "seconds", 1000)),
        Row("the same, client's peak memory", "MB", cells(got, "client_peak", 1 / MEGABYTE)),
        Row(f"{UPDATES:,} updates in 100 sessions, CPU of both sides", "ms", many, spread),
        Row("the same, wall", "ms", cells(got, "many_seconds", 1000)),
    ]


def requests(peers: Peers, rounds: int) -> list[Row]:
    """Measure small requests and their responses, 64 at a time."""
    playing = players(peers, "in_flight")
    got = interleave(playing, rounds, lambda peer: converse(peer, "in_flight", REQUESTS), "64 in flight")
    cpu = cells(got, "cpu", 1e6 / REQUESTS)
    aims = (
        *better(cpu, {OFFICIAL: 4, TYPESCRIPT: 5}),
        *better(cpu, {OFFICIAL: 2.5}, OURS_PUBLIC),
        *public_to_bare(cpu, 1.6),
    )
    return [
        Row("request with 64 in flight, CPU of both sides", "us", cpu, aims),
        Row("the same, wall", "us", cells(got, "seconds", 1e6 / REQUESTS)),
    ]


def round_trips(peers: Peers, rounds: int) -> list[Row]:
    """Measure small requests one after the other: mostly the cost of the event loop."""
    playing = players(peers, "sequential")
    got = interleave(playing, rounds, lambda peer: converse(peer, "sequential", ROUND_TRIPS), "round trips")
    wall, cpu = cells(got, "seconds", 1e6 / ROUND_TRIPS), cells(got, "cpu", 1e6 / ROUND_TRIPS)
    walls = (
        within(wall[OURS], wall[BARE], 1.15, "of bare asyncio"),
        *better(wall, {OFFICIAL: 1.75}, OURS_PUBLIC),
        *public_to_bare(wall, 1.15),
    )
    near_rust = (
        *near(cpu, OURS, RUST_TUNED, 1),
        *near(cpu, OURS_PUBLIC, RUST_TUNED, 1.3),
    )
    return [
        Row("round trip, one after the other, wall", "us", wall, walls),
        Row("the same, CPU of both sides", "us", cpu, near_rust),
    ]


def spawn(peers: Peers, rounds: int) -> list[Row]:
    """Measure a client that starts an agent and opens a session."""
    got = interleave(players(peers, "spawn"), rounds + 2, lambda peer: converse(peer, "spawn", 0), "first session")
    wall = cells(got, "first_session", 1000)
    aims = (*better(wall, {OFFICIAL: 6, TYPESCRIPT: 2}), *public_to_bare(wall, 1.15))
    return [Row("start an agent and open a session, wall", "ms", wall, aims)]


def slow(peers: Peers, rounds: int) -> list[Row]:
    """Measure a client that is busy for the first second and a half of a flood."""
    playing = players(peers, "slow")
    got = interleave(playing, min(rounds, 3), lambda peer: converse(peer, "slow", FLOOD_UPDATES), "slow client")
    growth = cells(got, "client_growth", 1 / MEGABYTE)
    label = f"slow client, {FLOOD_UPDATES:,} updates of 2 kB: growth of its memory"
    aims = (at_most(growth[OURS], 32, "MB"), at_most(growth[OURS_PUBLIC], 48, "MB", "public API "))
    return [Row(label, "MB", growth, aims)]


def large(peers: Peers, rounds: int) -> list[Row]:
    """Measure one message of many megabytes there and back, with a limit that allows it."""
    limit = {"BENCH_MAX_MESSAGE_BYTES": str(LARGE_LIMIT)}
    rows: list[Row] = []
    seconds: dict[int, float] = {}
    for size in LARGE_MEGABYTES:
        got = interleave(
            players(peers, "large"),
            min(rounds, 3),
            partial(converse, scenario="large", count=size * MEGABYTE, env=limit),
            f"{size} MB",
        )
        cpu = cells(got, "cpu", 1000)
        seconds[size] = cpu[OURS] / size
        first = LARGE_MEGABYTES[0]
        is_last = size == LARGE_MEGABYTES[-1]
        linear = within(seconds[size], seconds[first], 1.1, f"of {first} MB, per byte") if is_last else None
        rows.append(Row(f"{size} MB there and back, CPU of both sides", "ms", cpu, (linear,) if linear else ()))
        if is_last:
            rows.append(Row("the same, wall", "ms", cells(got, "seconds", 1000)))
            rows.append(Row("the same, client's peak memory", "MB", cells(got, "client_peak", 1 / MEGABYTE)))
    return rows


def versions(peers: Peers, rounds: int) -> list[Row]:
    """Measure the same agent and the same client over version 1 and over version 2."""
    public = peers[OURS_PUBLIC]
    by_version = [replace(public, name=f"version {n}", env={**public.env, "BENCH_VERSION": str(n)}) for n in (1, 2)]
    plays = {"stream": UPDATES, "sessions": UPDATES, "sequential": ROUND_TRIPS}
    labels = {
        "stream": f"{UPDATES:,} updates in a turn",
        "sessions": f"{UPDATES:,} updates in 100 sessions",
        "sequential": f"{ROUND_TRIPS:,} requests, one after the other",
    }
    rows: list[Row] = []
    for scenario, count in plays.items():
        sample = partial(converse, scenario=scenario, count=count)
        got = interleave(by_version, rounds, sample, f"versions, {scenario}")
        older, newer = (cells(got, "cpu", 1000)[peer.name] for peer in by_version)
        aim = within(newer, older, 1.2, "of version 1")
        label = f"{labels[scenario]}, version"
        rows.append(Row(f"{label} 1, CPU of both sides", "ms", {OURS_PUBLIC: older}))
        rows.append(Row(f"{label} 2, CPU of both sides", "ms", {OURS_PUBLIC: newer}, (aim,)))
    return rows


def store(peers: Peers, rounds: int) -> list[Row]:
    """Measure the same agent with and without its sessions saved in SQLite."""
    public = peers[OURS_PUBLIC]

    def sample(peer: Peer) -> Sample:
        plain = converse(peer, "stream", UPDATES)
        with tempfile.TemporaryDirectory() as folder:
            saved = converse(peer, "stream", UPDATES, {"BENCH_STORE": folder})
        return {"plain": plain["cpu"], "saved": saved["cpu"], "plain_agent": plain["agent_cpu"], **saved}

    got = interleave([public], min(rounds, 5), sample, "sessions saved")
    plain, saved = cells(got, "plain", 1000), cells(got, "saved", 1000)
    aims = tuple(within(saved[name], plain[name], 1.4, "of the same without") for name in saved)
    return [
        Row(f"{UPDATES:,} updates, nothing saved, CPU of both sides", "ms", plain),
        Row(f"{UPDATES:,} updates, saved by `persist_sessions`, CPU of both sides", "ms", saved, aims),
        Row("the same, agent alone", "ms", cells(got, "agent_cpu", 1000)),
        Row("the same, wall", "ms", cells(got, "seconds", 1000)),
    ]


def ends(peers: Peers, rounds: int) -> list[Row]:
    """Measure how long it takes to end many open sessions."""
    public = peers[OURS_PUBLIC]
    hows = {
        "leave": ("by leaving", ENDED_SESSIONS),
        "leave-running": ("by leaving, a turn in each", RUNNING_SESSIONS),
        "leave-running saved": ("by leaving, a turn in each, saved by `persist_sessions`", RUNNING_SESSIONS),
        "close": ("by closing each", ENDED_SESSIONS),
    }
    rows: list[Row] = []
    for how, (label, count) in hows.items():
        end, _, saved = how.partition(" ")
        program = [public.runtime, str(PROGRAMS / "sessions_end.py"), end, str(count)]

        def sample(peer: Peer, program: list[str] = program, saved: str = saved) -> Sample:
            with tempfile.TemporaryDirectory() as folder:
                env = {**ENVIRONMENT, **peer.env, **({"BENCH_STORE": folder} if saved else {})}
                found: Sample = json.loads(run_program(program, env))
            return found

        got = interleave([public], min(rounds, 3), sample, f"sessions ended {label}")
        wall = cells(got, "seconds", 1000)
        aims = tuple(at_most(value, 1000, "ms") for value in wall.values())
        rows.append(Row(f"{count:,} open sessions ended {label}, wall", "ms", wall, aims))
    return rows


MEASURES: dict[str, Callable[[Peers, int], list[Row]]] = {
    "imports": imports,
    "codec": codec,
    "stream": stream,
    "requests": requests,
    "round_trips": round_trips,
    "spawn": spawn,
    "slow": slow,
    "large": large,
    "versions": versions,
    "store": store,
    "ends": ends,
}


def better(cells: Cells, factors: Mapping[str, float], ours: str = OURS) -> tuple[Aim, ...]:
    """Return the targets to need this many times less than each of these."""
    aims: list[Aim] = []
    for name, factor in factors.items():
        if name in cells and ours in cells:
            ratio = cells[name] / cells[ours]
            aims.append(Aim(f"{label(ours)}{factor:g}x {name}", f"{ratio:.1f}x", ratio >= factor))
    return tuple(aims)


def near(cells: Cells, ours: str, other: str, factor: float) -> tuple[Aim, ...]:
    """Return the target to need at most this many times what another peer needs, if that takes part."""
    if ours not in cells or other not in cells:
        return ()
    return (within(cells[ours], cells[other], factor, f"of {other}", label(ours)),)


def public_to_bare(cells: Cells, factor: float) -> tuple[Aim, ...]:
    """Return the target of the public API relative to a bare connection that sends the same frames."""
    if OURS_PUBLIC not in cells or OURS_SAME not in cells:
        return ()
    return (within(cells[OURS_PUBLIC], cells[OURS_SAME], factor, "of the same frames", label(OURS_PUBLIC)),)


def label(ours: str) -> str:
    """Return the prefix of a target that is not that of the bare connection."""
    return "public API " if ours == OURS_PUBLIC else ""


def within(value: float, other: float, factor: float, of_what: str, whose: str = "") -> Aim:
    """Return the target to need at most this many times as much."""
    return Aim(f"{whose}within {factor:g}x {of_what}", f"{value / other:.2f}x", value <= factor * other)


def at_most(value: float, limit: float, unit: str, whose: str = "") -> Aim:
    """Return the target to stay below a fixed number."""
    return Aim(f"{whose}at most {limit:g} {unit}", f"{value:.0f} {unit}", value <= limit)


def at_least(value: float, limit: float, unit: str, whose: str = "") -> Aim:
    """Return the target to reach a fixed number."""
    return Aim(f"{whose}at least {limit:,g} {unit}", f"{value:,.0f} {unit}", value >= limit)


def players(peers: Peers, *scenarios: str) -> Sequence[Peer]:
    """Return the peers that can play all of these scenarios."""
    return [peer for peer in peers.values() if peer.can_play(*scenarios)]


def cells(got: Mapping[str, Sample], figure: str, scale: float = 1.0) -> dict[str, float]:
    """Return one figure of each peer that has it."""
    return {name: sample[figure] * scale for name, sample in got.items() if figure in sample}
