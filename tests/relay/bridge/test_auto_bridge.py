"""An agent is served in the requested version: directly if it speaks that, through a bridge if not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from duologue.errors import CommandNotFound, ConnectionLost
from duologue.relay.bridge.auto_bridge import AutoBridge
from duologue.transports.base import Servable, Transport
from duologue.transports.memory import memory_pair
from tests.client.scripted_agent import Json, ScriptedAgent, result
from tests.relay.bridge.spans import (
    BOTH_DIRECTIONS,
    SECONDS,
    EndingClient,
    LocalTarget,
    NewerAgent,
    agent_of_version,
    initialize,
    opened,
)


@asynccontextmanager
async def interpreted(agent: Servable, version: int) -> AsyncGenerator[tuple[EndingClient, LocalTarget, AutoBridge]]:
    """Connect a client through an `AutoBridge`; check at the end that no task is left."""
    target = LocalTarget(agent)
    near, far = memory_pair()
    client, interpreter = EndingClient(near, version), AutoBridge(target.open, version)
    async with asyncio.timeout(SECONDS):
        serving = [target.tasks.start(interpreter.serve(far)), target.tasks.start(client.read())]
        yield client, target, interpreter
        await client.hang_up()
        await asyncio.gather(*serving)
        await target.tasks.settle()
    assert client.validator.complaints == []


class FrameStore:
    """Keeps the bytes it is sent, and answers with strange ones."""

    def __init__(self, version: int) -> None:
        self.frames: list[bytes] = []
        self._version = version

    async def serve(self, transport: Transport) -> None:
        async with transport:
            while frames := await transport.receive():
                self.frames += frames
                for frame in frames:
                    id = json.dumps(json.loads(frame)["id"]).encode()
                    version = str(self._version).encode()
                    answer = b'{"result" : {"protocolVersion":%s, "\\u0061":1e400}, "id": %s,"jsonrpc":"2.0"}'
                    transport.send(answer % (version, id))


@pytest.mark.parametrize("version", [1, 2])
async def test_an_agent_that_speaks_the_version_gets_and_gives_every_byte(version: int) -> None:
    store = FrameStore(version)
    first = b'{ "jsonrpc":"2.0", "id":"one","method":"initialize","params":{"protocolVersion":%d,"x":1e400}}' % version
    second = b'{"jsonrpc":"2.0","id":2,"method":"session/unheard_of","params":{"a":1,"a":2}}'
    near, far = memory_pair()
    target = LocalTarget(store)
    async with asyncio.timeout(SECONDS):
        serving = target.tasks.start(AutoBridge(target.open, version).serve(far))
        near.send(first)
        near.send(second)
        received: list[bytes] = []
        while len(received) < 2:
            received += await near.receive()
        await near.aclose()
        await serving
        await target.tasks.settle()

    assert store.frames == [first, second]
    assert [json.loads(frame)["id"] for frame in received] == ["one", 2]
    assert all(b'"\\u0061":1e400' in frame for frame in received)
    assert len(target.connections) == 1


@pytest.mark.parametrize(("version", "agent_version"), BOTH_DIRECTIONS)
async def test_an_agent_of_the_other_version_is_bridged(version: int, agent_version: int) -> None:
    async with interpreted(agent_of_version(agent_version), version) as (client, target, _):
        welcome = await initialize(client, version)
        more: Json = {"mcpServers": []} if version == 1 else {}
        session = (await client.ask("session/new", cwd="/tmp", **more))["sessionId"]
        client.prompt(session, "hi")
        await client.until(lambda: client.text == "You said hi.")

        assert welcome["protocolVersion"] == version
        assert len(target.connections) == 2  # asked in the one version, then spoken to in the other


async def test_an_agent_that_speaks_both_is_left_alone() -> None:
    agent = agent_of_version(2)
    agent._protocol_versions = (1, 2)
    for version in (1, 2):
        async with interpreted(agent, version) as (client, target, _):
            assert (await initialize(client, version))["protocolVersion"] == version
            assert len(target.connections) == 1


async def test_messages_sent_while_the_agent_is_probed_are_not_lost() -> None:
    async with interpreted(agent_of_version(2), 1) as (client, _, _):
        welcome = client.start("initialize", protocolVersion=1)
        new = client.start("session/new", cwd="/tmp", mcpServers=[])
        unknown = client.start("_unheard/of")

        assert (await welcome)["result"]["protocolVersion"] == 1
        assert "sessionId" in (await new)["result"]
        assert (await unknown)["error"]["code"] == -32601


async def test_an_editor_that_leaves_while_the_agent_is_asked_ends_it() -> None:
    agent, is_over = ScriptedAgent(), asyncio.Event()

    async def never(params: Json) -> Json:
        await is_over.wait()
        return result()

    agent.answers["initialize"] = never
    async with interpreted(agent, 1) as (client, _, _):
        client.start("initialize", protocolVersion=1)
        await agent.until("initialize")
        await client.hang_up()
        is_over.set()

    assert len(agent.calls("initialize")) == 1


async def test_an_editor_that_says_nothing_starts_nothing() -> None:
    async with interpreted(ScriptedAgent(), 1) as (client, target, _):
        await client.hang_up()
    assert target.connections == []


async def test_a_first_message_other_than_initialize_is_rejected() -> None:
    async with interpreted(NewerAgent(), 1) as (client, target, _):
        refused = await client.refused("session/new", cwd="/tmp", mcpServers=[])
        client.write_nonsense("{")
        await client.until(lambda: any(each.get("id", 1) is None for each in client.validator.received))
        client.validator.complaints.clear()

    assert refused["code"] == -32600
    assert target.connections == []


@pytest.mark.parametrize("version", [1, 2])
async def test_an_agent_that_cannot_be_started_is_an_error_in_the_initialize_response(version: int) -> None:
    def open_nothing() -> Transport:
        raise CommandNotFound("no such command: far")

    near, far = memory_pair()
    target = LocalTarget(ScriptedAgent())
    client, interpreter = EndingClient(near, version), AutoBridge(open_nothing, version)
    async with asyncio.timeout(SECONDS):
        serving = target.tasks.start(interpreter.serve(far))
        target.tasks.start(client.read())
        refused = await client.refused("initialize", protocolVersion=version, info={"name": "n", "version": "1"})
        await serving

    assert "no such command: far" in refused["message"]
    assert isinstance(interpreter.failure, CommandNotFound)


async def test_the_loss_of_an_agent_without_a_bridge_is_reported() -> None:
    agent = ScriptedAgent()
    async with interpreted(agent, 1) as (client, _, interpreter):
        await opened(client, 1)
        await agent.transport.aclose()
        await client.ended.wait()

    assert isinstance(interpreter.failure, ConnectionLost)


def test_there_are_two_versions() -> None:
    with pytest.raises(ValueError, match="versions"):
        AutoBridge(lambda: memory_pair()[0], 3)
