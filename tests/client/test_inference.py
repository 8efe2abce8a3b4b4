"""Type checkers infer the right types in programs that use the client: mypy and pyright check this file."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from duologue import connect, sync
from duologue.builtin.agent import builtin_agent
from duologue.events import Event
from duologue.types import AgentCapabilities, ClientSession, ClientTurn, RemoteAgent, SessionInfo, Transcript


async def test_types_of_the_asynchronous_client(tmp_path: Path) -> None:
    async with connect(builtin_agent()) as agent, agent.new_session(tmp_path) as session:
        assert_type(agent, RemoteAgent)
        assert_type(agent.capabilities, AgentCapabilities)
        assert_type(session, ClientSession)
        assert_type(await session.prompt("hello"), ClientTurn)
        assert_type(await session.ask("hello"), str)
        async with session.prompt("hello") as turn:
            async for event in turn:
                assert_type(event, Event)
        opened = await agent.new_session(tmp_path)
        assert_type(opened, ClientSession)


def test_types_of_the_blocking_client(tmp_path: Path) -> None:
    with sync.connect(builtin_agent(), stall_timeout=60) as agent, agent.new_session(tmp_path) as session:
        assert_type(agent, sync.BlockingAgent)
        assert_type(agent.version, int)
        assert_type(session, sync.BlockingSession)
        assert_type(session.transcript, Transcript)
        assert_type(session.ask("hello"), str)
        turn = session.prompt("hello", files=[])
        assert_type(turn, sync.BlockingTurn)
        for event in turn:
            assert_type(event, Event)
        assert_type(turn.stop_reason, str | None)
        if agent.capabilities.list:
            assert_type(agent.list_sessions(cwd=tmp_path), list[SessionInfo])
