"""Version 2 over the network: the transports carry whatever the two ends agreed on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue import Permissions, Turn, connect
from duologue.builtin.agent import builtin_agent
from duologue.errors import ResourceNotFound
from duologue.events import TerminalOutput
from tests.agent.test_server import online
from tests.agent.v2.wire_client import both


@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.parametrize("versions", [(1, 2), (1,)])
async def test_an_agent_on_the_network_is_spoken_to_in_the_highest_version(
    scheme: str, versions: tuple[int, ...], tmp_path: Path
) -> None:
    async with asyncio.timeout(60), online(builtin_agent(protocol_versions=versions), token="secret") as server:
        allowed = Permissions(edit="allow", execute="allow")
        async with connect(
            getattr(server, scheme), token="secret", protocol_versions=(1, 2), permissions=allowed
        ) as agent:
            assert agent.version == versions[-1]
            session = await agent.new_session(tmp_path)
            async with session.prompt("/tour") as turn:
                events = [event async for event in turn]
            assert turn.stop_reason == "end_turn"
            assert any(isinstance(event, TerminalOutput) for event in events) == (agent.version == 2)
            await session.aclose()
            again = await agent.load_session(session.id, tmp_path)
            assert "/tour" in [message.text for message in again.transcript.messages]


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_turns_are_cancelled_and_fail_over_the_network_too(scheme: str, tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def handle(turn: Turn[Any]) -> None:
        if turn.text == "fail":
            raise ResourceNotFound("gone")
        begun.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(60), online(both(handle), token="secret") as server:
        async with connect(getattr(server, scheme), token="secret", protocol_versions=(2,)) as agent:
            session = await agent.new_session(tmp_path)
            async with session.prompt("wait") as turn:
                await begun.wait()
                await turn.cancel()
            assert turn.stop_reason == "cancelled"
            with pytest.raises(ResourceNotFound, match="gone"):
                await session.prompt("fail")
