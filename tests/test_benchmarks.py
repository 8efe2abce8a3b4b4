"""The benchmarks: their programs still run, and their verdicts are true."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree as ET

import pytest

from benchmarks import history
from benchmarks.growth import AMOUNTS, svg
from benchmarks.load import SATURATED_SECONDS
from benchmarks.measures import Aim, Row, at_most, better, within
from benchmarks.peers import (
    BARE,
    GO,
    OFFICIAL,
    OURS,
    OURS_PUBLIC,
    PROGRAMS,
    ROOT,
    RUST,
    RUST_TUNED,
    TYPESCRIPT,
    Peer,
    prepare,
)
from benchmarks.remote import better_than_all
from benchmarks.report import table
from benchmarks.runs import ENVIRONMENT, Sample, converse, interleave, run_program
from benchmarks.servers import full_part, serve_command
from tests.interop import peers as foreign

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the figures come from Linux's /proc")

ENV = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}


@pytest.mark.parametrize("prefix", ["duologue", "public"])
@pytest.mark.parametrize("scenario", ["spawn", "stream", "sessions", "large", "sequential", "in_flight"])
def test_our_programs_play_every_scenario(prefix: str, scenario: str) -> None:
    sample = converse(Peer(OURS, sys.executable, prefix, env=ENV), scenario, 200)

    assert sample["first_session"] > 0
    assert sample["cpu"] == sample["client_cpu"] + sample["agent_cpu"]


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("scenario", ["stream", "sequential"])
def test_our_programs_play_in_both_versions(version: str, scenario: str) -> None:
    sample = converse(Peer(OURS, sys.executable, "public", env=ENV), scenario, 50, {"BENCH_VERSION": version})

    assert sample["cpu"] > 0


@pytest.mark.parametrize("prefix", ["duologue", "public"])
@pytest.mark.parametrize("wire", ["ws", "http"])
def test_our_programs_play_over_the_network(prefix: str, wire: str) -> None:
    sample = converse(Peer(OURS, sys.executable, prefix, env=ENV), "sessions", 200, {"BENCH_WIRE": wire})

    assert sample["cpu"] > 0


@pytest.mark.parametrize("what", [["idle", "20"], ["stalled"]])
def test_a_server_is_measured_while_its_clients_rest_or_do_not_read(what: list[str]) -> None:
    agent = Peer(OURS, sys.executable, "duologue", env=ENV).program("agent")
    env = {**ENVIRONMENT, **ENV, "BENCH_WIRE": "ws"}
    seen = json.loads(run_program([sys.executable, "-m", "benchmarks.sockets", *what, "--", *agent], env))

    assert set(seen) == ({"each"} if what[0] == "idle" else {"growth", "alone", "beside", "ratio"})


def test_a_bare_connection_sends_what_the_public_api_sends() -> None:
    peer = Peer(OURS, sys.executable, "duologue", env={**ENV, "BENCH_SAME_FRAMES": "1"})

    assert converse(peer, "stream", 50)["cpu"] > 0
    assert converse(peer, "sequential", 50)["cpu"] > 0


def test_an_agent_is_measured_while_it_saves_its_sessions(tmp_path: Path) -> None:
    peer = Peer(OURS_PUBLIC, sys.executable, "public", env=ENV)

    assert converse(peer, "stream", 50, {"BENCH_STORE": str(tmp_path)})["cpu"] > 0
    assert list(tmp_path.iterdir())


@pytest.mark.parametrize("how", ["leave", "leave-running", "close"])
def test_the_end_of_many_sessions_is_measured(how: str) -> None:
    command = [sys.executable, str(PROGRAMS / "sessions_end.py"), how, "20"]

    assert json.loads(run_program(command, {**ENVIRONMENT, **ENV}))["seconds"] > 0


@pytest.mark.parametrize("kind", AMOUNTS)
def test_an_update_is_measured_with_much_open(kind: str) -> None:
    command = [sys.executable, str(PROGRAMS / "growth.py"), kind, "20", "100"]

    assert json.loads(run_program(command, {**ENVIRONMENT, **ENV}))["microseconds"] > 0


def test_the_plot_of_growth_is_well_formed() -> None:
    drawn = ET.fromstring(svg({"sessions": {10: 5.0, 1_000: 10.0}, "tools": {1: 5.0}}))

    assert {title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")} == {
        "10 open sessions: 1.00x",
        "1,000 open sessions: 2.00x",
        "1 open tool calls: 1.00x",
    }


@pytest.mark.parametrize("is_served", [False, True])
def test_a_server_is_measured_while_its_clients_receive_updates(is_served: bool) -> None:
    agent = [sys.executable, str(PROGRAMS / "public_agent.py")]
    command = serve_command(sys.executable, "--shared") if is_served else agent
    program = [sys.executable, "-m", "benchmarks.load", "5", "1", "5,10", "--", *command]
    first, *others = json.loads(run_program(program, {**ENVIRONMENT, **ENV, "BENCH_WIRE": "ws"}))["steps"]

    assert first["share"] == 1
    assert first["server_cpu"] > 0
    assert (first["agent_cpu"] > 0) is is_served
    assert len(others) == (first["p99"] <= SATURATED_SECONDS)


@pytest.mark.parametrize(
    ("server", "agent", "generator", "expected"),
    [
        (0.97, 0.0, 0.4, "the server"),
        (0.3, 0.9, 0.2, "the agent behind it"),
        (0.5, 0.1, 0.99, "the load generator"),
        (0.1, 0.1, 0.1, "no process of these; other work may use the cores"),
    ],
)
def test_a_saturated_step_names_what_is_full(server: float, agent: float, generator: float, expected: str) -> None:
    step = {"server_cpu": server, "agent_cpu": agent, "generator_cpu": generator}

    assert full_part(step) == expected


@pytest.mark.parametrize("wire", ["ws", "http"])
def test_an_agent_is_measured_behind_duologue_serve(wire: str) -> None:
    client = Peer(OURS_PUBLIC, sys.executable, "public", env=ENV).program("client")
    command = [*client, "stream", "50", "--", *serve_command(sys.executable)]

    assert json.loads(run_program(command, {**ENVIRONMENT, **ENV, "BENCH_WIRE": wire}))["agent_cpu"] > 0


def test_a_peer_without_a_toolchain_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: object, **options: object) -> NoReturn:
        raise foreign.Absent("cargo is not installed here")

    def present(*args: object) -> str:
        return sys.executable

    for name in ("rust_benchmark", "go_benchmark", "typescript_sdk"):
        monkeypatch.setattr(foreign, name, missing)
    monkeypatch.setattr(foreign, "official_python", present)
    monkeypatch.setattr("benchmarks.peers.python_environment", present)
    ready, absent = prepare()

    assert absent == dict.fromkeys((TYPESCRIPT, RUST, RUST_TUNED, GO), "cargo is not installed here")
    assert not set(absent) & set(ready)


@pytest.mark.chaos
@pytest.mark.fault("WSK-11")
@pytest.mark.timeout(300)
def test_ten_thousand_idle_connections_are_cheap(record_property: Callable[[str, object], None]) -> None:
    agent = Peer(OURS, sys.executable, "public", env=ENV).program("agent")
    env = {**ENVIRONMENT, **ENV, "BENCH_WIRE": "ws"}
    command = [sys.executable, "-m", "benchmarks.sockets", "idle", "9950", "--", *agent]
    seen = json.loads(run_program(command, env, 280))
    record_property("count", 10_000)  # with those that warm it up

    assert seen["each"] <= 64 * 1024


def test_the_best_of_the_others_is_the_one_to_beat() -> None:
    aims = better_than_all({OURS: 2.0, OURS_PUBLIC: 1.0, OFFICIAL: 30.0, TYPESCRIPT: 5.0}, 2)

    assert [(aim.wanted, aim.reached, aim.is_hit) for aim in aims] == [
        ("2x the best of the others (TypeScript 2.4.0)", "2.5x", True)
    ]


def test_the_floor_echoes() -> None:
    assert converse(Peer(BARE, sys.executable, "bare", env=ENV), "sequential", 10)["cpu"] > 0


def test_all_peers_run_in_turns_and_the_median_counts() -> None:
    order: list[str] = []
    values = iter([1.0, 2.0, 9.0, 4.0, 5.0, 3.0])

    def sample(peer: Peer) -> Sample:
        order.append(peer.prefix)
        return {"cpu": next(values)}

    peers = [Peer(OURS, "", "a"), Peer(OFFICIAL, "", "b")]
    medians = interleave(peers, 3, sample, "a test")

    assert order == ["a", "b", "b", "a", "a", "b"]
    assert medians == {OURS: {"cpu": 4.0}, OFFICIAL: {"cpu": 3.0}}


def test_a_row_says_what_was_aimed_at_and_what_was_reached() -> None:
    cells = {OURS: 2.0, OFFICIAL: 30.0}
    aims = (*better(cells, {OFFICIAL: 14}), within(2.0, 1.9, 1.15, "of something"))
    shown = table([Row("a turn", "ms", cells, aims)], [OURS, OURS_PUBLIC, OFFICIAL], {"Another": "it is not here"})

    assert "| 2.00 ms  | 30.0 ms (15.0x)" in shown
    assert "14x official 0.12.1; within 1.15x of something" in shown
    assert "15.0x; 1.05x" in shown
    assert "hit" in shown
    assert "not here" in shown
    assert OURS_PUBLIC not in shown


def test_an_aim_is_missed_by_the_smallest_amount() -> None:
    assert not better({OURS: 1.0, OFFICIAL: 13.9}, {OFFICIAL: 14})[0].is_hit
    assert not within(1.16, 1.0, 1.15, "of one").is_hit
    assert not at_most(32.1, 32, "MB").is_hit
    assert at_most(32, 32, "MB").is_hit


def test_a_run_is_compared_with_the_one_before(tmp_path: Path) -> None:
    history_file = tmp_path / "history.jsonl"
    hit = Aim("14x official", "15x", is_hit=True)
    for value, aim in ((2.0, hit), (3.0, replace(hit, reached="9x", is_hit=False))):
        rows = [Row("a turn", "ms", {OURS: value}, (aim,)), Row("the same, wall", "ms", {OURS: 1.0})]
        history.append(rows, {OURS: Peer(OURS, "", "a")}, "Measured: today, a machine", 3, history_file)

    shown = history.compare(history_file)

    assert "a turn, ms: duologue 2 -> 3 (1.50x)" in shown
    assert "a turn (wall), ms: duologue 1 -> 1 (1.00x)" in shown
    assert "no longer reached: a turn, ms: 14x official" in shown
    assert "run `make bench` until there are two" in history.compare(tmp_path / "nothing")
