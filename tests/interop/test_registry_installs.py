"""Published agents are installed by name from npm and PyPI, locked, verified, and probed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec
import pytest

from duologue.registry import installation
from duologue.registry.approvals import approve
from duologue.registry.index import RegistryEntry, RegistryError
from duologue.registry.install_recipe import InstallProgress, InstallSource
from duologue.registry.installer import AddRequest
from duologue.registry.lock_file import installation_directory, read_lock
from duologue.registry.probe import drift, probe
from duologue.registry.resolver import resolve
from tests.interop.peers.building import cache

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

AGENTS = {
    "gemini": ("0.61.0", {"npx": {"package": "@google/gemini-cli@0.61.0", "args": ["--acp"]}}),
    "codex-acp": ("0.16.0", {"npx": {"package": "@zed-industries/codex-acp@0.16.0"}}),
    "claude-acp": ("0.23.1", {"npx": {"package": "@zed-industries/claude-agent-acp@0.23.1"}}),
    "mistral-vibe": ("3.0.2", {"uvx": {"package": "mistral-vibe==3.0.2", "cmd": "vibe-acp"}}),
}
SESSIONS = {"claude-acp": "failed: Internal error: Query closed before response received"}
"""Answers of agents to `session/new` without a login, other than that one is needed."""

ABSENT = re.compile(
    r"(npm|uv) is needed|needs Python \S+ and there is only"  # tools that this machine does not have
    r"|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH"  # what npm says without a network
    r"|dns error|tcp connect error|error sending request|operation timed out",  # what uv says
    re.IGNORECASE,
)
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
    return folder / "agents.lock"


@pytest.mark.parametrize("agent_id", AGENTS)
async def test_a_published_agent_is_installed_locked_and_probed(agent_id: str, lock: Path, tmp_path: Path) -> None:
    try:
        if agent_id not in read_lock(lock).agents:
            installation.add(AddRequest(entry=entry(agent_id), registry="tests"), lock, SOURCE)
        agent = read_lock(lock).agents[agent_id]
        installation.install([agent], lock, SOURCE)
    except RegistryError as error:
        if ABSENT.search(str(error)) is None:
            raise
        pytest.skip(f"{agent_id} cannot be installed here: {error}")
    assert installation.verify(agent) == []
    assert installation_directory(agent).is_dir()

    approve([agent], lock)
    configuration = resolve(agent_id, lock)
    # A home directory without a login.
    configuration = {**configuration, "env": {**configuration["env"], "HOME": str(tmp_path)}}
    first, again = await probe(configuration, 300.0), await probe(configuration, 300.0)

    assert first.agent_info is not None
    assert first.agent_info["version"] == agent.version
    assert first.protocol_versions == [1]
    assert first.session == SESSIONS.get(agent_id, "login needed")
    assert drift(first, again) == []
    assert installation.verify(agent) == []
