"""A recording is enough to play the other side again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from duologue.builtin.agent import builtin_agent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.workspace import Workspace
from duologue.client.target import Target
from duologue.conversation.session_setup import StdioMcpServer
from duologue.recording.format import Entry
from duologue.recording.reader import read_recording
from duologue.recording.redaction import MASK, redact
from duologue.transports.base import Transport

SECRET = StdioMcpServer(name="keyed", command="/no/such/server", env={"KEY": "a-secret"})


class Replay:
    """An agent that sends the agent's frames of a recording, each at its place.

    Attributes:
        received: Frames of the client.
    """

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self.received: list[bytes] = []

    async def serve(self, transport: Transport) -> None:
        waiting: list[bytes] = []
        async with transport:
            for entry in self._entries:
                assert isinstance(entry.frame, Raw)
                if entry.dir == "to_client":
                    transport.send(bytes(entry.frame))
                    continue
                while not waiting:
                    waiting += await transport.receive()
                self.received.append(waiting.pop(0))


async def _converse(target: Target, cwd: Path, record: Path) -> None:
    (cwd / "notes.md").write_text("Remember the milk — ünïcode.\n", "utf-8")
    rules = Permissions(read="allow", edit="allow")
    async with (
        asyncio.timeout(60),
        connect(target, permissions=rules, workspace=Workspace(cwd), record=record) as agent,
        agent.new_session(cwd, mcp_servers=[SECRET]) as session,
    ):
        for prompt in ("hello", "/read notes.md", "/write notes.md the bread", "/plan", "/permission 3"):
            await session.prompt(prompt)
        await session.set_mode("code")


@pytest.mark.fault("LOG-05")
async def test_a_replay_brings_the_client_to_say_the_same_byte_for_byte(tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    await _converse(builtin_agent(), cwd, tmp_path / "first.acp")
    first = list(read_recording(tmp_path / "first.acp"))
    replay = Replay(first)
    await _converse(replay, cwd, tmp_path / "second.acp")
    second = list(read_recording(tmp_path / "second.acp"))

    recorded = [bytes(entry.frame) for entry in first if entry.dir == "to_agent" and isinstance(entry.frame, Raw)]
    assert len(recorded) >= 10
    assert len(recorded) == len(replay.received)
    for sent, expected in zip(replay.received, recorded, strict=True):
        if MASK.encode() in expected:
            assert msgspec.json.encode(redact(msgspec.json.decode(sent))) == expected
        else:
            assert sent == expected
    assert sum(MASK.encode() in expected for expected in recorded) == 1
    for direction in ("to_agent", "to_client"):
        assert _frames(second, direction) == _frames(first, direction)


def _frames(entries: list[Entry], direction: str) -> list[object]:
    return [entry.frame for entry in entries if entry.dir == direction]
