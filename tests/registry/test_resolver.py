"""Names of agents: the order of the look-up, and what is refused before anything is started."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from duologue import connect, sync
from duologue.errors import CommandNotFound, StartError
from duologue.registry.approvals import approvals_file, approve, unapproved
from duologue.registry.index import RegistryError
from duologue.registry.lock_file import AgentsLock, LockedAgent, installation_directory, user_lock, write_lock
from duologue.registry.resolver import find_agent, named_agents, resolve
from tests.registry.locked_agents import locked

SCRIPT = b"#!/bin/sh\nexec duologue agent\n"


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOLOGUE_CONFIG", str(tmp_path / "config" / "config.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("DUOLOGUE_REGISTRY", raising=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "config").mkdir()


def installed(content: bytes = SCRIPT, **changes: Any) -> LockedAgent:
    """Install an agent of one file; return its entry."""
    agent = locked(programs={"bin/sample": hashlib.sha256(content).hexdigest()}, **changes)
    program = installation_directory(agent) / agent.program
    program.parent.mkdir(parents=True)
    program.write_bytes(content)
    program.chmod(0o755)
    return agent


def lock(path: Path, *agents: LockedAgent) -> Path:
    write_lock(path, AgentsLock(agents={agent.id: agent for agent in agents}))
    return path


def on_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
    (tmp_path / "bin" / name).chmod(0o755)


def configure(tmp_path: Path, text: str) -> None:
    (tmp_path / "config" / "config.toml").write_text(text)


def refusal(word: str, path: Path | None = None) -> str:
    with pytest.raises(StartError) as caught:
        resolve(word, path)
    return str(caught.value)


def test_a_locked_agent_comes_before_the_configuration_and_path(tmp_path: Path) -> None:
    agent = installed(args=["--acp"], env={"A": "1"})
    lock(user_lock(), agent)
    configure(tmp_path, '[agents.sample]\ncommand = "other"\n')
    on_path(tmp_path, "sample")

    program = str(installation_directory(agent) / "bin/sample")
    assert resolve("sample") == {"command": program, "args": ["--acp"], "env": {"A": "1"}}
    assert resolve("sample@1.2.3") == resolve("sample")


def test_the_configuration_comes_before_path(tmp_path: Path) -> None:
    configure(tmp_path, '[agents.gemini]\ncommand = "other"\n')
    on_path(tmp_path, "gemini")

    assert resolve("gemini") == {"command": "other"}


def test_a_known_command_on_path_gets_its_arguments(tmp_path: Path) -> None:
    on_path(tmp_path, "gemini")
    on_path(tmp_path, "my-agent")

    assert resolve("gemini") == {"command": "gemini", "args": ["--acp"]}
    assert resolve("my-agent") == {"command": "my-agent"}


def test_a_version_is_found_in_the_lock_file_only(tmp_path: Path) -> None:
    on_path(tmp_path, "gemini")
    lock(user_lock(), installed())

    assert "run: duologue agents add gemini@0.61.0" in refusal("gemini@0.61.0")
    assert "sample is locked at 1.2.3, not 2.0.0; run: duologue agents add sample@2.0.0" in refusal("sample@2.0.0")


def test_the_builtin_agent_cannot_be_replaced_by_a_lock_file() -> None:
    lock(user_lock(), installed(id="builtin"))

    assert find_agent("builtin").source == "builtin"
    assert named_agents()["builtin"].source == "builtin"


def test_a_program_that_differs_is_refused_with_both_hashes() -> None:
    agent = installed()
    lock(user_lock(), agent)
    program = installation_directory(agent) / "bin/sample"
    program.write_bytes(b"#!/bin/sh\nevil\n")

    message = refusal("sample")
    assert f"{program} has the SHA-256 {hashlib.sha256(program.read_bytes()).hexdigest()}" in message
    assert f"the lock file has {agent.programs['bin/sample']}" in message
    assert "`duologue agents verify sample`" in message
    assert "`duologue agents install sample`" in message
    assert "`duologue agents approve sample`" in message


def test_a_program_that_is_a_link_out_of_the_installation_is_refused(tmp_path: Path) -> None:
    agent = installed()
    lock(user_lock(), agent)
    program = installation_directory(agent) / "bin/sample"
    elsewhere = tmp_path / "elsewhere"
    program.rename(elsewhere)
    program.symlink_to(elsewhere)

    assert "is not a file of the installation" in refusal("sample")


def test_an_agent_that_is_not_installed_or_for_another_platform_is_refused() -> None:
    lock(user_lock(), locked(), locked(id="foreign", platform="plan9-mips"))

    assert "not installed here; run: duologue agents install sample" in refusal("sample")
    assert "foreign is locked for plan9-mips" in refusal("foreign")


def test_a_lock_file_of_a_project_is_used_only_when_it_is_named_and_approved(tmp_path: Path) -> None:
    agent = installed()
    project = lock(tmp_path / "agents.lock", agent)

    assert "unknown agent 'sample'" in refusal("sample")
    assert "which you have not approved" in refusal("sample", project)
    approve([agent], project)
    assert resolve("sample", project)["command"].endswith("bin/sample")
    lock(project, locked(programs=agent.programs, env={"LD_PRELOAD": "evil.so"}))
    assert "which you have not approved" in refusal("sample", project)


def test_a_lock_file_that_is_missing_or_broken_is_refused(tmp_path: Path) -> None:
    assert "there is no lock file" in refusal("sample", tmp_path / "none.lock")
    user_lock().write_text("{}")
    assert "is not a valid lock file" in refusal("sample")
    with pytest.raises(StartError, match="is not a valid lock file"):
        named_agents()


def test_an_unknown_name_gets_a_suggestion_or_the_command_that_installs_it() -> None:
    lock(user_lock(), locked())

    assert "did you mean 'sample'?" in refusal("smaple")
    assert refusal("gemini") == "the agent 'gemini' is not installed; run: duologue agents add gemini"
    with pytest.raises(CommandNotFound, match="known agents: builtin, code, sample"):
        resolve("xyzzy")


def test_an_approval_needs_a_file_of_its_owner_and_whole_lines(tmp_path: Path) -> None:
    agent = locked()
    approve([agent], tmp_path / "agents.lock")
    approve([agent], tmp_path / "agents.lock")

    assert len(approvals_file().read_text().splitlines()) == 1
    assert unapproved([agent]) == []
    approvals_file().write_text(approvals_file().read_text()[:-20])
    assert unapproved([agent]) == [agent]
    approvals_file().chmod(0o644)
    with pytest.raises(RegistryError, match="other users may access it"):
        unapproved([agent])
    with pytest.raises(RegistryError, match="other users may access it"):
        approve([agent], tmp_path / "agents.lock")


async def test_connect_starts_a_locked_agent_and_compares_it_at_each_start(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    agent = installed(f"#!{sys.executable}\nfrom duologue.cli.main import main\nmain(['agent'])\n".encode())
    lock(user_lock(), agent)

    async with connect("sample@1.2.3") as remote:
        assert remote.info is not None
        assert remote.info.name == "duologue"
    (installation_directory(agent) / "bin/sample").write_bytes(b"#!/bin/sh\n")
    with pytest.raises(StartError, match="sample is not started"):
        async with connect("sample"):
            pass


def test_the_blocking_client_accepts_names_and_a_lock_file(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="there is no lock file"), sync.connect("sample", lock=tmp_path / "no.lock"):
        pass
    with pytest.raises(ValueError, match="`lock` needs the name of an agent"):
        connect("sample --acp", lock=tmp_path / "no.lock")
