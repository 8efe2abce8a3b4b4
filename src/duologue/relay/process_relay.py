"""A process of its own for each connection, and frames passed between the two as they are."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TypeAlias

from duologue.errors import AgentExited, ConnectionLost, DuologueError, InternalError, RequestError, StartError
from duologue.jsonrpc.codec import serialize_error
from duologue.jsonrpc.envelope import PendingRequests, read_envelope
from duologue.jsonrpc.messages import Id
from duologue.relay.backoff import RestartBackoff
from duologue.transports.base import Transport
from duologue.transports.offload import examine

__all__ = ["OpenProcess", "ProcessRelay", "describe_failure", "reject_first_request", "strip_newlines"]

_log = logging.getLogger("duologue.relay")

OpenProcess: TypeAlias = Callable[[], Transport]
"""Makes the transport to a fresh process, not yet entered."""


class ProcessRelay:
    """Serves any agent that speaks on its stdin and stdout. What a client writes is what its agent reads.

    Args:
        open_process: The way to a fresh agent.
        restraint: How often it may fail.
    """

    def __init__(self, open_process: OpenProcess, restraint: RestartBackoff | None = None) -> None:
        self._open_process = open_process
        self._restraint = restraint or RestartBackoff()

    async def serve(self, transport: Transport) -> None:
        """Start an agent for this client, and pass frames until one of them leaves."""
        async with transport:
            try:
                self._restraint.check()
                process = self._open_process()
                await process.__aenter__()
            except StartError as error:
                _log.error("no agent for a client: %s", error)
                await reject_first_request(transport, InternalError(f"no agent: {error}"))
                return
            await self._join(transport, process)

    async def _join(self, transport: Transport, process: Transport) -> None:
        began = time.monotonic()
        unanswered: PendingRequests[None] = PendingRequests()
        failure: DuologueError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                there = group.create_task(_pass_on(transport, process, unanswered))
                back = group.create_task(_pass_back(process, transport, unanswered))
                await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
                has_failed = back.done() and not there.done()
                failure = back.result() if back.done() else None
                there.cancel()
                back.cancel()
        finally:
            await process.aclose()
        self._restraint.ended(time.monotonic() - began, has_failed=has_failed)
        if has_failed:
            _log.error("an agent ended before its client: %s", describe_failure(failure))
            await _answer_all(transport, unanswered, InternalError(f"the agent is gone: {describe_failure(failure)}"))


async def _pass_on(transport: Transport, process: Transport, unanswered: PendingRequests[None]) -> None:
    """From the client to the agent, until either ends."""
    try:
        while frames := await transport.receive():
            for frame in frames:
                shape = await examine(read_envelope, frame)
                if shape is not None and (id := shape.request_id) is not None:
                    unanswered.add(id, None)
                process.send(strip_newlines(frame))
            if process.is_congested:
                await process.drain()
    except ConnectionLost as error:
        _log.debug("the way to the agent ended: %s", error)


async def _pass_back(
    process: Transport, transport: Transport, unanswered: PendingRequests[None]
) -> DuologueError | None:
    """From the agent to the client, until either ends; why the agent did."""
    while True:
        try:
            frames = await process.receive()
        except DuologueError as error:
            return error
        if not frames:
            return None
        try:
            for frame in frames:
                shape = read_envelope(frame)
                if shape is not None and (id := shape.response_id) is not None:
                    unanswered.answered(id)
                transport.send(frame)
            if transport.is_congested:
                await transport.drain()
        except ConnectionLost:
            # The client is gone, which the other direction hears, too, and ends everything.
            await asyncio.Event().wait()


def strip_newlines(frame: bytes) -> bytes:
    """A frame for a wire on which a line is a message: line ends in JSON are blanks, and blanks are as good."""
    if b"\n" in frame or b"\r" in frame:
        return frame.replace(b"\n", b" ").replace(b"\r", b" ")
    return frame


def describe_failure(failure: DuologueError | None) -> str:
    """Why an agent ended, without what it wrote to stderr: that is for the log of this machine."""
    if failure is None:
        return "it closed its output"
    return str(failure).partition("\n")[0] if isinstance(failure, AgentExited) else str(failure)


async def reject_first_request(transport: Transport, error: RequestError) -> None:
    """Answer the first request with this, and end."""
    while frames := await transport.receive():
        for frame in frames:
            shape = read_envelope(frame)
            if shape is not None and (id := shape.request_id) is not None:
                transport.send(serialize_error(id, error))
                return


async def _answer_all(transport: Transport, unanswered: PendingRequests[None], error: RequestError) -> None:
    ids: list[Id] = [id for id, _ in unanswered.items()]
    try:
        for id in ids:
            transport.send(serialize_error(id, error))
    except ConnectionLost:
        pass
