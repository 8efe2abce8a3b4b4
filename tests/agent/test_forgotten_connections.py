"""A connection that has ended is garbage, with its sessions: a server may have thousands of them in a day."""

from __future__ import annotations

import gc
import logging
from pathlib import Path

import pytest

from duologue import Agent, Turn, connect
from duologue.errors import DuologueError
from duologue.runtime.connection import Connection

CONNECTIONS = 3


def existing_connections() -> int:
    gc.collect()
    return sum(isinstance(each, Connection) for each in gc.get_objects())


async def converse(agent: Agent, version: int, prompt: str, cwd: Path) -> bool:
    """Connect, send a prompt and disconnect; return True if the turn did not fail."""
    async with connect(agent, protocol_versions=(version,)) as remote, remote.new_session(cwd) as session:
        try:
            await session.prompt(prompt)
        except DuologueError:
            return False
    return True


@pytest.mark.fault("LIF-15")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("prompt", ["answer", "fail"])
async def test_a_connection_that_has_ended_is_not_kept(
    tmp_path: Path, version: int, prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # pytest keeps records with their tracebacks
    agent = Agent("brief", protocol_versions=(1, 2))

    @agent.on_prompt
    async def answer(turn: Turn) -> None:
        await turn.say("hello")
        if turn.text == "fail":
            raise ValueError("a mistake in the agent")

    before = existing_connections()
    ended = [await converse(agent, version, prompt, tmp_path) for _ in range(CONNECTIONS)]

    assert ended == [prompt == "answer"] * CONNECTIONS
    assert existing_connections() == before
