"""A remote agent as a local command: what an editor writes to our stdin the agent reads, and back, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duologue.errors import ConnectionLost, DuologueError, InternalError, StartError
from duologue.jsonrpc.codec import serialize_error
from duologue.jsonrpc.envelope import PendingRequests, read_envelope
from duologue.relay.process_relay import reject_first_request, strip_newlines
from duologue.transports.base import Transport

__all__ = ["StdioProxy"]


class StdioProxy:
    """Lengthens the wire of an editor to an agent somewhere else.

    Args:
        open_remote: Makes the transport to the agent, not yet entered.

    Attributes:
        failure: Why the agent could not be reached, or was lost; None if the editor left first.
    """

    def __init__(self, open_remote: Callable[[], Transport]) -> None:
        self.failure: DuologueError | None = None
        self._open_remote = open_remote
        self._unanswered: PendingRequests[None] = PendingRequests()

    async def serve(self, transport: Transport) -> None:
        """Pass frames between an editor and the agent until one of them leaves; an editor always gets its answers."""
        async with transport:
            try:
                remote = self._open_remote()
                await remote.__aenter__()
            except StartError as error:
                self.failure = error
                await reject_first_request(transport, InternalError(str(error)))
                return
            try:
                await self._join(transport, remote)
            finally:
                await remote.aclose()
            if self.failure is not None:
                self._answer_all(transport, InternalError(f"the agent is lost: {self.failure}"))

    async def _join(self, transport: Transport, remote: Transport) -> None:
        async with asyncio.TaskGroup() as group:
            there = group.create_task(self._pass_on(transport, remote))
            back = group.create_task(self._pass_back(remote, transport))
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            if back.done():
                self.failure = back.result()
            there.cancel()
            back.cancel()

    async def _pass_on(self, transport: Transport, remote: Transport) -> None:
        """From the editor to the agent, until the editor has left."""
        while frames := await transport.receive():
            try:
                await self._forward(frames, remote)
            except ConnectionLost:
                await asyncio.Event().wait()  # the other direction says why, and ends everything

    async def _forward(self, frames: list[bytes], remote: Transport) -> None:
        for frame in frames:
            shape = read_envelope(frame)
            if shape is not None and (id := shape.request_id) is not None:
                self._unanswered.add(id, None)
            remote.send(frame)
        if remote.is_congested:
            await remote.drain()

    async def _pass_back(self, remote: Transport, transport: Transport) -> DuologueError | None:
        """From the agent to the editor, until the agent is gone; why it is. None if the editor reads no more."""
        while True:
            try:
                frames = await remote.receive()
            except DuologueError as error:
                return error
            if not frames:
                return ConnectionLost("the server ended the connection")
            try:
                await self._return(frames, transport)
            except ConnectionLost:
                return None

    async def _return(self, frames: list[bytes], transport: Transport) -> None:
        for frame in frames:
            transport.send(strip_newlines(frame))
            shape = read_envelope(frame)
            if shape is not None and (id := shape.response_id) is not None:
                self._unanswered.answered(id)
        if transport.is_congested:
            await transport.drain()

    def _answer_all(self, transport: Transport, error: InternalError) -> None:
        ids = [id for id, _ in self._unanswered.items()]
        try:
            for id in ids:
                transport.send(serialize_error(id, error))
        except ConnectionLost:
            pass
