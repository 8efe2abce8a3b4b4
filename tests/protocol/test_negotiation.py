"""Clients and agents of all combinations of versions agree on one, or report clearly that there is none."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.client.connect import connect
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.errors import DowngradeRequired, ProtocolViolation, RequestError, UnsupportedProtocolVersion
from duologue.protocol.negotiation import check_versions
from duologue.runtime.tasks import TaskScope
from duologue.transports.memory import memory_pair
from tests.client.scripted_agent import ScriptedAgent, error

pytestmark = pytest.mark.timeout(60)


def agent_of(*versions: int) -> Agent[Any]:
    """Return an agent that answers with its client's capabilities."""
    agent: Agent[Any] = Agent("tested", protocol_versions=versions)

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        await turn.say(f"files {turn.client_capabilities.reads_files} terminals {turn.client_capabilities.terminals}")

    return agent


@pytest.mark.parametrize(
    ("agent", "client", "agreed"),
    [
        ((1,), (1,), 1),
        ((1, 2), (1,), 1),
        ((1,), (1, 2), 1),
        ((1, 2), (1, 2), 2),
        ((2,), (1, 2), 2),
        ((1, 2), (2,), 2),
        ((2,), (2,), 2),
    ],
)
async def test_two_sides_use_the_highest_version_both_support(
    agent: tuple[int, ...], client: tuple[int, ...], agreed: int, tmp_path: Path
) -> None:
    capabilities: dict[str, Any] = {"workspace": Workspace(tmp_path), "terminals": Terminals()}
    async with asyncio.timeout(60), connect(agent_of(*agent), protocol_versions=client, **capabilities) as remote:
        assert remote.version == agreed
        async with remote.new_session(tmp_path) as session:
            has = agreed == 1  # only version 1 has files and terminals of the client
            assert await session.ask("what?") == f"files {has} terminals {has}"


async def test_a_client_of_version_2_rejects_an_agent_that_supports_only_version_1() -> None:
    async with asyncio.timeout(60):
        with pytest.raises(DowngradeRequired, match="answered in protocol version 1"):
            async with connect(agent_of(1), protocol_versions=(2,)):
                pass


async def test_a_client_of_version_1_rejects_an_agent_that_supports_only_version_2() -> None:
    async with asyncio.timeout(60):
        with pytest.raises(UnsupportedProtocolVersion, match="--v2") as rejected:
            async with connect(agent_of(2), protocol_versions=(1,)):
                pass
        assert rejected.value.data == {"requested": 1, "supported": [2]}


async def test_an_unknown_version_is_rejected_with_its_number() -> None:
    agent = ScriptedAgent(protocolVersion=7, info={"name": "n", "version": "1"})
    async with asyncio.timeout(60):
        with pytest.raises(ProtocolViolation, match="7"):
            async with connect(agent, protocol_versions=(1, 2)):
                pass


@pytest.mark.parametrize("versions", [(), (3,), (0, 1), (1, 9)])
def test_unknown_versions_are_rejected(versions: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="unsupported protocol versions"):
        check_versions(versions)
    with pytest.raises(ValueError, match="unsupported protocol versions"):
        Agent("x", protocol_versions=versions)


def test_versions_are_sorted_and_unique() -> None:
    assert check_versions((2, 1, 2)) == (1, 2)


@pytest.mark.parametrize("code", [-32022, -32602, -32600])
async def test_an_agent_that_rejects_version_2_is_initialized_in_version_1(code: int) -> None:
    agent = ScriptedAgent()
    usual = agent.answers["initialize"]

    async def only_version_1(params: Any) -> Any:
        return await usual(params) if params["protocolVersion"] == 1 else error(code, "what?")

    agent.answers["initialize"] = only_version_1
    async with asyncio.timeout(60), connect(agent, protocol_versions=(1, 2)) as remote:
        assert remote.version == 1
    assert [call["protocolVersion"] for call in agent.calls("initialize")] == [2, 1]
    with pytest.raises(RequestError, match="what"):
        async with connect(agent, protocol_versions=(2,)):
            pass


async def test_a_bare_transport_continues_without_capabilities_and_logs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent cannot read the client's capabilities in version 2, and there is no second connection."""
    near, far = memory_pair()
    serving = TaskScope().start(agent_of(1).serve(far))
    capabilities: dict[str, Any] = {"workspace": Workspace(tmp_path), "terminals": Terminals()}
    with caplog.at_level(logging.WARNING, "duologue.protocol"):
        async with asyncio.timeout(60), connect(near, protocol_versions=(1, 2), **capabilities) as remote:
            assert remote.version == 1
            async with remote.new_session(tmp_path) as session:
                assert await session.ask("what?") == "files False terminals False"
    await serving
    assert "supports protocol version 1 only" in caplog.text


async def test_a_process_of_version_1_is_restarted_and_gets_all_capabilities(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "duologue.cli.main", "agent", "--sessions", str(tmp_path / "kept")]
    capabilities: dict[str, Any] = {"workspace": Workspace(tmp_path), "terminals": Terminals()}
    async with asyncio.timeout(60), connect(command, protocol_versions=(1, 2), **capabilities) as remote:
        assert remote.version == 1
        async with remote.new_session(tmp_path) as session:
            assert (await session.prompt("/say hello")).stop_reason == "end_turn"


async def test_each_client_of_one_agent_has_its_own_version(tmp_path: Path) -> None:
    agent = agent_of(1, 2)
    async with (
        asyncio.timeout(60),
        connect(agent, protocol_versions=(1,)) as older,
        connect(agent, protocol_versions=(1, 2)) as newer,
        older.new_session(tmp_path) as one,
        newer.new_session(tmp_path) as two,
    ):
        assert (older.version, newer.version) == (1, 2)
        assert await one.ask("what?") == await two.ask("what?") == "files False terminals False"
        listed = {info.session_id for info in await newer.list_sessions()}
        assert listed == {one.id, two.id}


async def test_a_session_of_one_version_can_be_loaded_in_the_other(tmp_path: Path) -> None:
    agent = agent_of(1, 2)
    for first, then in (((1,), (2,)), ((2,), (1,))):
        async with asyncio.timeout(60), connect(agent, protocol_versions=first) as remote:
            async with remote.new_session(tmp_path) as session:
                text = await session.ask("what?")
        async with asyncio.timeout(60), connect(agent, protocol_versions=then) as remote:
            again = await remote.load_session(session.id, tmp_path)
            assert [message.text for message in again.transcript.messages] == ["what?", text]
            await again.aclose()
