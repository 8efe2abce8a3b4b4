"""An agent in the version that is wished for: as it is if it speaks that, across a bridge if it does not.

Nobody knows beforehand what an agent speaks. It is asked with the editor's own first message: if the answer is in the
version that is wished for, frames pass untouched from there on, that answer included; if not, the agent is started
again, and a bridge stands between the two.
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
from duologue.transports.base import Transport

__all__ = ["AutoBridge"]

_log = logging.getLogger("duologue.relay")


class _InitializeResult(Struct, rename="camel"):
    protocol_version: int


class _InitializeResponse(Struct):
    result: _InitializeResult


_decode_answer = msgspec.json.Decoder(_InitializeResponse).decode


class AutoBridge:
    """Serves an agent to editors of one version, whatever it speaks itself.

    Args:
        open_agent: Makes the transport to a fresh agent, not yet entered.
        version: What the editors speak.

    Attributes:
        failure: Why the agent could not be reached, or was lost; None if the editor left first.

    Raises:
        ValueError: There is no such version.
    """

    def __init__(self, open_agent: OpenProcess, version: int) -> None:
        self.failure: DuologueError | None = None
        (self._version,) = check_versions((version,))
        self._open_agent = open_agent

    async def serve(self, transport: Transport) -> None:
        """Talk to one editor until it leaves, or its agent does."""
        async with transport:
            frames = await transport.receive()
            if not frames:
                return
            editor = _Begun(transport, frames)
            agent = await self._agent_for(editor, frames[0])
            if editor.has_left:
                return
            other = next(known for known in SUPPORTED_VERSIONS if known != self._version)
            relay: StdioProxy | Bridge = Bridge(self._open_agent, version=self._version, agent_version=other)
            if agent is not None:
                relay = StdioProxy(lambda: agent)
                editor.drop_first()
            await relay.serve(editor)
            self.failure = relay.failure

    async def _agent_for(self, editor: _Begun, first: bytes) -> _Begun | None:
        """An agent that has answered the editor in its version, if it does."""
        shape = read_envelope(first)
        if shape is None or shape.method != "initialize" or (id := shape.request_id) is None:
            return None
        try:
            agent = _Begun(self._open_agent(), [])
            await agent.open()
        except StartError:
            return None  # the bridge says what is wrong, in an answer
        try:
            agent.send(strip_newlines(first))
            is_right = await self._is_right(agent, editor, id)
        except ConnectionLost:
            is_right = False
        except BaseException:
            await agent.aclose()
            raise
        if is_right:
            return agent
        await agent.aclose()
        return None

    async def _is_right(self, agent: _Begun, editor: _Begun, id: Id) -> bool:
        asking = TaskScope()
        try:
            answer = asking.start(_answer(agent, id))
            await editor.listen_until(answer)
            return answer.done() and _version_of(answer.result()) == self._version
        finally:
            await asking.cancel(1.0)


async def _answer(agent: _Begun, id: Id) -> bytes | None:
    """What the agent answers; nothing if it ends before it does."""
    with suppress(DuologueError):
        while frames := await agent.receive_more():
            for frame in frames:
                shape = read_envelope(frame)
                if shape is not None and shape.response_id == id:
                    return frame
    return None


def _version_of(answer: bytes | None) -> int | None:
    try:
        return None if answer is None else _decode_answer(answer).result.protocol_version
    except msgspec.MsgspecError:
        return None


class _Begun(Transport):
    """A transport that is open already, and from which something was received that is received once more.

    Attributes:
        has_left: Nothing more will come.
    """

    def __init__(self, transport: Transport, received: list[bytes]) -> None:
        self.has_left = False
        self._transport = transport
        self._received = received

    async def open(self) -> None:
        await self._transport.__aenter__()

    async def __aenter__(self) -> Self:
        return self

    def drop_first(self) -> None:
        """The first frame has had its answer."""
        del self._received[0]

    async def receive_more(self) -> list[bytes]:
        """What arrives next; it is received once more later."""
        frames = await self._transport.receive()
        self._received += frames
        return frames

    async def listen_until(self, event: asyncio.Task[bytes | None]) -> None:
        """Keep what arrives until this is done, or nothing arrives any more."""
        tasks = TaskScope()
        try:
            while not event.done() and not self.has_left:
                arriving = tasks.start(self.receive_more())
                await asyncio.wait((arriving, event), return_when=asyncio.FIRST_COMPLETED)
                self.has_left = arriving.done() and not arriving.result()
        finally:
            await tasks.cancel(1.0)

    @property
    def pending_bytes(self) -> int:
        return self._transport.pending_bytes

    async def receive(self) -> list[bytes]:
        if self._received:
            frames, self._received = self._received, []
            return frames
        return await self._transport.receive()

    def send(self, frame: bytes) -> None:
        self._transport.send(frame)
        self.is_congested = self._transport.is_congested

    async def drain(self) -> None:
        await self._transport.drain()
        self.is_congested = self._transport.is_congested

    async def aclose(self) -> None:
        await self._transport.aclose()
