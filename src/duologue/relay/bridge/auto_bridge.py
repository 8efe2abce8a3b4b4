"""Serve an agent in a given version of the protocol: directly if it speaks that version, else through a bridge.

The version of an agent is not known beforehand. It gets the client's own `initialize`: if it answers in the right
version, frames pass unchanged from then on, that response included; if not, the agent is started again behind a bridge.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Self

import msgspec
from msgspec import Struct

from duologue.errors import ConnectionLost, DuologueError, StartError
from duologue.jsonrpc.envelope import read_envelope
from duologue.jsonrpc.messages import Id
from duologue.protocol.negotiation import SUPPORTED_VERSIONS, check_versions
from duologue.relay.bridge.bridge import Bridge
from duologue.relay.pump import OpenProcess, strip_newlines
from duologue.relay.stdio_proxy import StdioProxy
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport, WrappedTransport
from duologue.transports.methods import INITIALIZE

_log = logging.getLogger("duologue.relay")


class _InitializeResult(Struct, rename="camel"):
    protocol_version: int


class _InitializeResponse(Struct):
    result: _InitializeResult


_decode_answer = msgspec.json.Decoder(_InitializeResponse).decode


class AutoBridge:
    """Serve an agent to clients of one version, whichever version it speaks itself.

    Args:
        open_agent: Creates the transport to a new agent.
        version: The version that the clients speak.

    Attributes:
        failure: Why the agent could not be reached, or was lost; `None` if the client left first.

    Raises:
        ValueError: There is no such version.
    """

    def __init__(self, open_agent: OpenProcess, version: int) -> None:
        self.failure: DuologueError | None = None
        (self._version,) = check_versions((version,))
        self._open_agent = open_agent

    async def serve(self, transport: Transport) -> None:
        """Serve one client until it leaves or its agent ends."""
        async with transport:
            frames = await transport.receive()
            if not frames:
                return
            client = _ReplayingTransport(transport, frames)
            agent = await self._agent_for(client, frames[0])
            if client.has_left:
                return
            other = next(known for known in SUPPORTED_VERSIONS if known != self._version)
            relay: StdioProxy | Bridge = Bridge(self._open_agent, version=self._version, agent_version=other)
            if agent is not None:
                relay = StdioProxy(lambda: agent)
                client.drop_first()
            await relay.serve(client)
            self.failure = relay.failure

    async def _agent_for(self, client: _ReplayingTransport, first: bytes) -> _ReplayingTransport | None:
        """Start an agent and pass `initialize` to it; return it if it answers in the right version."""
        envelope = read_envelope(first)
        if envelope is None or envelope.method != INITIALIZE or (id := envelope.request_id) is None:
            return None
        try:
            agent = _ReplayingTransport(self._open_agent(), [])
            await agent.open()
        except StartError:
            return None  # the bridge reports it in a response
        try:
            agent.send(strip_newlines(first))
            is_right_version = await self._speaks_version(agent, client, id)
        except ConnectionLost:
            is_right_version = False
        except BaseException:
            await agent.aclose()
            raise
        if is_right_version:
            return agent
        await agent.aclose()
        return None

    async def _speaks_version(self, agent: _ReplayingTransport, client: _ReplayingTransport, id: Id) -> bool:
        tasks = TaskScope()
        try:
            answer = tasks.start(_answer(agent, id))
            await client.listen_until(answer)
            return answer.done() and _version_of(answer.result()) == self._version
        finally:
            await tasks.cancel(1.0)


async def _answer(agent: _ReplayingTransport, id: Id) -> bytes | None:
    """Wait for the response to `initialize`; return `None` if the agent ends before."""
    with suppress(DuologueError):
        while frames := await agent.receive_more():
            for frame in frames:
                envelope = read_envelope(frame)
                if envelope is not None and envelope.response_id == id:
                    return frame
    return None


def _version_of(answer: bytes | None) -> int | None:
    try:
        return None if answer is None else _decode_answer(answer).result.protocol_version
    except msgspec.MsgspecError:
        return None


class _ReplayingTransport(WrappedTransport):
    """A transport that is open already; `receive` returns again what `receive_more` has returned.

    Attributes:
        has_left: No further frame will arrive.
    """

    def __init__(self, inner: Transport, received: list[bytes]) -> None:
        super().__init__(inner)
        self.has_left = False
        self._received = received

    async def open(self) -> None:
        await self._inner.__aenter__()

    async def __aenter__(self) -> Self:
        return self

    def drop_first(self) -> None:
        """Drop the first frame, which was answered."""
        del self._received[0]

    async def receive_more(self) -> list[bytes]:
        """Return the next frames; `receive` returns them again."""
        frames = await self._inner.receive()
        self._received += frames
        return frames

    async def listen_until(self, event: asyncio.Task[bytes | None]) -> None:
        """Buffer what arrives until `event` is done or the transport ends."""
        tasks = TaskScope()
        try:
            while not event.done() and not self.has_left:
                arriving = tasks.start(self.receive_more())
                await asyncio.wait((arriving, event), return_when=asyncio.FIRST_COMPLETED)
                self.has_left = arriving.done() and not arriving.result()
        finally:
            await tasks.cancel(1.0)

    async def receive(self) -> list[bytes]:
        if self._received:
            frames, self._received = self._received, []
            return frames
        return await self._inner.receive()
