"""The command line and the seed dialects: `--dialect` and `connect --protocol`, in real processes."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.cli.options import DIALECTS as OFFERED
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.compat.dialects import DIALECTS, Dialect
from duologue.transports.process.transport import ProcessTransport
from tests.cli.program import PROGRAM, duologue, environment
from tests.cli.test_serve import served
from tests.cli.test_v2 import shown

BUILTIN = [*PROGRAM, "agent"]
HELLO: dict[str, Any] = {"protocolVersion": 1, "clientCapabilities": {}}


def asked(home: Path, *command: str, **more: Any) -> list[dict[str, Any]]:
    """Return the answers of a program to `initialize` and these requests, in order."""
    requests: list[tuple[str, Any]] = [
        ("initialize", HELLO),
        *((name.replace("__", "/"), params) for name, params in more.items()),
    ]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(requests)
    ]
    ended = duologue(home, *command, stdin="\n".join(lines) + "\n")
    messages = [json.loads(line) for line in ended.stdout.splitlines()]
    return sorted((message for message in messages if "method" not in message), key=lambda each: each["id"])


def test_the_command_line_offers_every_dialect() -> None:
    assert OFFERED == DIALECTS


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_tour_looks_the_same_in_every_dialect(tmp_path: Path, dialect: str) -> None:
    tours: list[tuple[str, str]] = []
    for flags in ([], ["--dialect", dialect]):
        (tmp_path / "duologue-example.txt").unlink(missing_ok=True)
        tours.append(shown(tmp_path, "run", "/tour", "--yes", *flags))

    assert tours[0] == tours[1]


def test_a_chat_goes_on_in_a_dialect(tmp_path: Path) -> None:
    first, _ = shown(tmp_path, "chat", "--dialect", "seed-004", stdin="/modes\n")
    again, history = shown(tmp_path, "chat", "--dialect", "seed-003", "--continue", stdin="/modes\n")

    assert again.startswith(first)
    assert history.count("> /modes") == 1


def test_the_built_in_agent_speaks_the_dialect_of_its_client(tmp_path: Path) -> None:
    (welcome, opened) = asked(
        tmp_path, "agent", "--dialect", "seed-004", session__new={"cwd": str(tmp_path), "mcpServers": []}
    )

    assert welcome["result"]["authenticationMethods"] == []
    assert [mode["modeId"] for mode in welcome["result"]["agentCapabilities"]["sessionModes"]]
    assert "sessionId" in opened["result"]


async def test_a_program_that_is_an_agent_takes_the_dialect_too(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text("from duologue import Agent\n\nAgent('own').cli()\n")
    command = [sys.executable, str(program), "--dialect", "seed-004"]
    async with asyncio.timeout(60), ProcessTransport(command, env=environment(tmp_path)) as wire:
        wire.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode())
        (frame,) = await wire.receive()

    assert json.loads(frame)["result"]["authenticationMethods"] == []


async def test_an_editor_of_a_dialect_uses_todays_agents(tmp_path: Path) -> None:
    command = [*PROGRAM, "connect", "--protocol", "seed-004", "--", *BUILTIN]
    async with asyncio.timeout(60), ProcessTransport(command, env=environment(tmp_path)) as wire:
        wire.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode())
        (frame,) = await wire.receive()

    assert json.loads(frame)["result"]["authenticationMethods"] == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_client", [True, False])
async def test_a_relay_translates_in_both_directions(tmp_path: Path, dialect: Dialect, is_client: bool) -> None:
    """The editor or the agent speaks the dialect, and the other one what is spoken today."""
    agent = BUILTIN if is_client else [*BUILTIN, "--dialect", dialect]
    flag = "--protocol" if is_client else "--dialect"
    command = [*PROGRAM, "connect", flag, dialect, "--", *agent]
    own: Dialect | None = dialect if is_client else None
    async with (
        asyncio.timeout(60),
        connect(command, dialect=own, env=environment(tmp_path), permissions=Permissions.allow_everything()) as remote,
        remote.new_session(tmp_path) as session,
    ):
        turn = await session.prompt("/echo hello")
        assert "You said: hello" in turn.text
        assert session.modes is not None
        await session.set_mode(session.modes.available[-1].mode_id)


async def test_an_agent_of_a_dialect_is_served_to_todays_clients(tmp_path: Path) -> None:
    command = ["--dialect", "seed-004", "--", *BUILTIN, "--dialect", "seed-004"]
    async with (
        asyncio.timeout(60),
        served(tmp_path, *command) as server,
        connect(server.url) as remote,
        remote.new_session(tmp_path) as session,
    ):
        assert "You said: hello" in (await session.prompt("/echo hello")).text


def test_the_doctor_and_the_list_of_sessions_speak_a_dialect(tmp_path: Path) -> None:
    assert "answered in" in shown(tmp_path, "doctor", "--agent", "builtin", "--dialect", "seed-004")[0]
    shown(tmp_path, "run", "/echo hello", "--dialect", "seed-004")
    assert shown(tmp_path, "sessions", "--dialect", "seed-004")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "x", "--dialect", "seed-005"], "seed-004"),
        (["agent", "--dialect", "seed-004", "--scenario", "a.toml"], "scenario"),
        (["connect", "--protocol", "seed-001", "ws://h"], "seed-003"),
    ],
)
def test_an_unknown_or_impossible_dialect_is_rejected(tmp_path: Path, arguments: list[str], message: str) -> None:
    ended = duologue(tmp_path, *arguments)

    assert ended.returncode == 2
    assert message in ended.stderr
