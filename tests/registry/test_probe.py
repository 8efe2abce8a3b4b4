"""Probing installed agents: what is recorded, what counts as a change, and agents that fail or hang."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from duologue.cli.main import main
from duologue.errors import StartError
from duologue.registry.lock_file import (
    AgentsLock,
    LockedAgent,
    ProbeResult,
    installation_directory,
    read_lock,
    user_lock,
    write_lock,
)
from duologue.registry.probe import drift, probe
from tests.registry.locked_agents import locked

BUILTIN = [sys.executable, "-P", "-m", "duologue", "agent"]
ODD = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    capabilities = {"_meta": {"run": 17}, "promptCapabilities": {"image": True, "_meta": {}}}
    result = {"protocolVersion": 1, "agentCapabilities": capabilities}
    error = {"code": -32603, "message": "run 17"}
    reply = {"result": result} if message["method"] == "initialize" else {"error": error}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"""


def configuration(*command: str) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:])}


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOLOGUE_CONFIG", str(tmp_path / "config" / "config.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


async def test_an_agent_is_recorded_as_it_describes_itself() -> None:
    found = await probe(configuration(*BUILTIN, "--v2"))

    assert found.protocol_versions == [1, 2]
    assert found.agent_info is not None
    assert found.agent_info["name"] == "duologue"
    assert found.capabilities["loadSession"] is True
    assert found.session == "opened"
    assert found.modes
    assert drift(found, await probe(configuration(*BUILTIN, "--v2"))) == []


async def test_an_agent_that_requires_a_login_is_recorded_as_such() -> None:
    found = await probe(configuration(*BUILTIN, "--login"))

    assert (found.session, found.protocol_versions) == ("login needed", [1])
    assert found.auth_methods


async def test_ids_of_one_run_are_removed_from_the_record() -> None:
    found = await probe(configuration(sys.executable, "-c", ODD))

    assert found.capabilities == {"promptCapabilities": {"image": True}}
    assert found.session == "failed: run 17"
    assert drift(found, replace(found, session="failed: run 18", start_seconds=9.0, probed_at="later")) == []


async def test_an_agent_that_hangs_or_exits_is_an_error() -> None:
    with pytest.raises(StartError, match=r"within 0\.2 s"):
        await probe(configuration(sys.executable, "-c", "input(); input()"), 0.2)
    with pytest.raises(Exception, match="exited with code 3"):
        await probe(configuration(sys.executable, "-c", "raise SystemExit(3)"))


def test_each_change_is_named_with_its_values() -> None:
    before = ProbeResult(
        probed_at="", protocol_versions=[1], session="opened", start_seconds=1.0, capabilities={"a": {"b": 1, "c": 2}}
    )
    after = replace(before, protocol_versions=[1, 2], capabilities={"a": {"b": 1}, "d": {}}, session="login needed")

    assert {(change.field, str(change.before), str(change.after)) for change in drift(before, after)} == {
        ("protocol_versions", "[1]", "[1, 2]"),
        ("capabilities.a.c", "2", "None"),
        ("capabilities.d", "None", "{}"),
        ("session", "opened", "login needed"),
    }


def install(agent_id: str, *command: str) -> LockedAgent:
    """Install an agent whose program runs this command."""
    script = f"#!/bin/sh\nexec {' '.join(command)}\n".encode()
    agent = locked(id=agent_id, programs={"bin/sample": hashlib.sha256(script).hexdigest()})
    program = installation_directory(agent) / agent.program
    program.parent.mkdir(parents=True)
    program.write_bytes(script)
    program.chmod(0o755)
    return agent


def write(*agents: LockedAgent) -> None:
    write_lock(user_lock(), AgentsLock(agents={agent.id: agent for agent in agents}))


def lines(text: str) -> dict[str, dict[str, Any]]:
    return {line["id"]: line for line in map(json.loads, text.splitlines())}


def test_the_first_probe_is_stored_and_the_next_finds_no_change(capfd: pytest.CaptureFixture[str]) -> None:
    write(install("one", *BUILTIN))
    assert main(["agents", "probe", "one", "--update", "--json"]) == 0
    assert lines(capfd.readouterr().out)["one"]["state"] == "first"
    assert read_lock(user_lock()).agents["one"].probe is not None

    assert main(["agents", "probe", "--all", "--json"]) == 0
    assert lines(capfd.readouterr().out)["one"]["state"] == "unchanged"


def test_a_change_has_an_exit_code_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    write(install("one", *BUILTIN))
    assert main(["agents", "probe", "one", "--update"]) == 0
    agent = read_lock(user_lock()).agents["one"]
    assert agent.probe is not None
    write(replace(agent, probe=replace(agent.probe, modes=["gone"])))
    capfd.readouterr()

    assert main(["agents", "probe", "one"]) == 10
    assert 'modes: ["gone"] -> ' in capfd.readouterr().out


def test_an_agent_that_hangs_does_not_stop_the_others(capfd: pytest.CaptureFixture[str]) -> None:
    changed = install("changed", *BUILTIN)
    absent = locked(id="absent")
    hanging = install("hanging", "sleep", "600")
    write(absent, hanging, install("one", *BUILTIN, "--login"), changed)

    assert main(["agents", "probe", "--all", "--json", "--timeout", "20"]) == 1
    found = lines(capfd.readouterr().out)
    assert {name: line["state"] for name, line in found.items()} == {
        "absent": "failed",
        "hanging": "failed",
        "one": "first",
        "changed": "first",
    }
    assert found["one"]["probe"]["session"] == "login needed"


@pytest.mark.parametrize("arguments", [[], ["one", "--all"], ["missing"]])
def test_a_wrong_choice_of_agents_is_refused(arguments: list[str]) -> None:
    write(locked(id="one"))

    assert main(["agents", "probe", *arguments]) == 2
