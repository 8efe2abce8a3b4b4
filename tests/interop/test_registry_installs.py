"""Published agents are installed by name from npm and PyPI, locked, verified, and answer `initialize`."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from duologue import connect
from duologue.errors import DuologueError
from duologue.registry import installation
from duologue.registry.index import RegistryEntry, RegistryError
from duologue.registry.install_recipe import InstallProgress, InstallSource
from duologue.registry.installer import AddRequest
from duologue.registry.lock_file import installation_directory, read_lock
from duologue.registry.resolver import start_configuration
from tests.interop.peers.building import cache

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

AGENTS = {
    "gemini": ("0.61.0", {"npx": {"package": "@google/gemini-cli@0.61.0", "args": ["--acp"]}}),
    "codex-acp": ("0.16.0", {"npx": {"package": "@zed-industries/codex-acp@0.16.0"}}),
    "claude-acp": ("0.23.1", {"npx": {"package": "@zed-industries/claude-agent-acp@0.23.1"}}),
    "mistral-vibe": ("3.0.2", {"uvx": {"package": "mistral-vibe==3.0.2", "cmd": "vibe-acp"}}),
}
SOURCE = InstallSource(progress=InstallProgress())


def entry(agent_id: str) -> RegistryEntry:
    version, distribution = AGENTS[agent_id]
    fields = {"id": agent_id, "name": agent_id, "version": version, "description": "x", "distribution": distribution}
    return msgspec.convert(fields, RegistryEntry)


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a lock file next to installations that stay from run to run, as other interop installs do."""
    recipe = hashlib.sha256(repr(AGENTS).encode()).hexdigest()[:12]
    folder = cache() / f"registry-{recipe}"
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    # Interpreters that are not on PATH, as pyenv has them.
    others = sorted(Path.home().glob(".pyenv/versions/3.1[1-4]*/bin"))
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ["PATH"], *map(str, others)]))
    return folder / "agents.lock"


@pytest.mark.parametrize("agent_id", AGENTS)
async def test_a_published_agent_is_installed_locked_and_starts(agent_id: str, lock: Path, tmp_path: Path) -> None:
    try:
        if agent_id not in read_lock(lock).agents:
            installation.add(AddRequest(entry=entry(agent_id), registry="tests"), lock, SOURCE)
        agent = read_lock(lock).agents[agent_id]
        installation.install([agent], lock, SOURCE)
    except RegistryError as error:
        pytest.skip(f"{agent_id} cannot be installed here: {error}")
    assert installation.verify(agent) == []
    assert installation_directory(agent).is_dir()

    async with connect(start_configuration(agent), env={"HOME": str(tmp_path)}) as remote:
        assert remote.info is not None
        try:
            async with remote.new_session(tmp_path):
                pass
        except DuologueError as error:
            print(f"{agent_id} opens no session without a login: {error}")

    assert installation.verify(agent) == []
