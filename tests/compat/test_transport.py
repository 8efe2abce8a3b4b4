"""The normaliser under a connection: an agent in today's form, and a client of seed 004."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

import pytest

from duologue.compat.normaliser import Normaliser
from duologue.compat.transport import DialectAdapter, NormalisedTransport, open_with_dialect
from duologue.errors import ConnectionLost
from duologue.transports.base import Transport
from duologue.transports.memory import memory_pair


def frame(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


async def receive(transport: Transport) -> list[Any]:
    async with asyncio.timeout(60):
        return [json.loads(one) for one in await transport.receive()]


class Scripted(Transport):
    """A transport that delivers given frames and records how it is used."""

    def __init__(self, *arriving: list[bytes]) -> None:
        self._arriving = list(arriving)
        self.log: list[str] = []

    @property
    def pending_bytes(self) -> int:
        return 0

    async def receive(self) -> list[bytes]:
        return self._arriving.pop(0) if self._arriving else []

    def send(self, frame: bytes) -> None:
        self.log.append("send")

    async def drain(self) -> None:
        self.log.append("drain")

    async def aclose(self) -> None:
        self.log.append("close")

    async def __aenter__(self) -> Self:
        self.log.append("enter")
        return self


async def test_frames_are_rewritten_on_their_way_in_and_out() -> None:
    near, far = memory_pair()
    async with NormalisedTransport(near, Normaliser("seed-004", "agent")) as agent, far:
        far.send(frame(id=1, method="session/set_config_option", params={"option": "fast", "value": True}))
        [request] = await receive(agent)
        agent.send(frame(id=1, result={"configOptions": []}))
        [response] = await receive(far)

    assert request["params"] == {"configId": "fast", "value": True, "type": "boolean"}
    assert response == {"jsonrpc": "2.0", "id": 1, "result": None}


async def test_a_dropped_message_does_not_end_the_transport() -> None:
    silent: dict[str, Any] = {"type": "message", "role": "agent", "content": []}
    plan: dict[str, Any] = {"type": "plan", "entries": []}
    batches = [[frame(method="session/update", params={"sessionId": "s", "update": one})] for one in (silent, plan)]
    client = NormalisedTransport(Scripted(*batches), Normaliser(None, "client"))
    [message] = await receive(client)

    assert message["params"]["update"] == {"sessionUpdate": "plan", "entries": []}
    assert await receive(client) == []


async def test_several_frames_may_arrive_at_once_and_the_end_is_an_empty_list() -> None:
    near, far = memory_pair()
    async with NormalisedTransport(near, Normaliser(None, "client")) as client:
        blocks = [{"type": "text", "text": text} for text in "ab"]
        update = {"type": "message", "role": "agent", "content": blocks}
        async with far:
            far.send(frame(method="session/update", params={"sessionId": "s", "update": update}))
            messages = await receive(client)
        ended = await receive(client)

    assert [message["params"]["update"]["content"]["text"] for message in messages] == ["a", "b"]
    assert ended == []


async def test_congestion_and_closing_are_those_of_the_inner_transport() -> None:
    near, far = memory_pair(bound=10)
    transport = NormalisedTransport(near, Normaliser(None, "client"))
    async with transport, far:
        assert (transport.is_congested, transport.pending_bytes) == (False, 0)
        transport.send(b'{"jsonrpc":"2.0"}')
        assert (transport.is_congested, transport.pending_bytes) == (True, 17)
        await receive(far)
        async with asyncio.timeout(60):
            await transport.drain()
        assert not transport.is_congested
        await transport.aclose()
        with pytest.raises(ConnectionLost):
            near.send(b"{}")


async def test_the_inner_transport_is_entered_and_left_with_the_outer_one() -> None:
    inner = Scripted()
    async with NormalisedTransport(inner, Normaliser(None, "client")) as transport:
        assert inner.log == ["enter"]
        transport.send(b"{}")
        await transport.drain()

    assert inner.log == ["enter", "send", "drain", "close"]


LOAD = frame(id=1, method="session/load", params={"sessionId": "s"})


@pytest.mark.parametrize(("known", "loaded"), [("/project", "/project"), (None, "/default")])
async def test_a_session_loaded_without_a_directory_gets_the_one_it_has_or_else_the_default(
    known: str | None, loaded: str
) -> None:
    async def directory_of(session_id: str) -> str | None:
        assert session_id == "s"
        return known

    normaliser = Normaliser("seed-004", "agent", default_cwd="/default")
    async with NormalisedTransport(Scripted([LOAD]), normaliser, directory_of) as transport:
        (message,) = await receive(transport)

    assert message["params"]["cwd"] == loaded


async def test_an_agent_served_to_old_clients_receives_todays_form() -> None:
    received: list[Any] = []

    class Served:
        async def serve(self, transport: Transport) -> None:
            async with transport:
                received.extend(await receive(transport))

    await DialectAdapter(Served(), "seed-004", default_cwd="/default").serve(Scripted([LOAD]))

    assert received[0]["params"]["cwd"] == "/default"


def test_a_transport_is_wrapped_only_if_a_dialect_is_named() -> None:
    def open_agent() -> Transport:
        return Scripted()

    assert open_with_dialect(open_agent, None) is open_agent
    assert isinstance(open_with_dialect(open_agent, "seed-003")(), NormalisedTransport)
