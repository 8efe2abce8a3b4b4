"""Share one agent process between all connections of a caller; it starts with the first and ends with the last."""

from __future__ import annotations

import asyncio
import logging
import time

from duologue.errors import ConnectionLost, DuologueError, InternalError, StartError
from duologue.relay.backoff import RestartBackoff
from duologue.relay.multiplexer import AttachedClient, Multiplexer
from duologue.relay.pump import OpenProcess, describe_failure, reject_first_request
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport

_log = logging.getLogger("duologue.relay")


class SharedProcessRelay:
    """Serve one agent process to many clients.

    Args:
        open_process: Creates the transport to a new agent process.
        backoff: Limits how often an agent that crashes is started again.
    """

    def __init__(self, open_process: OpenProcess, backoff: RestartBackoff | None = None) -> None:
        self._open_process = open_process
        self._backoff = backoff or RestartBackoff()
        self._running: _ProcessLifetime | None = None
        self._starting = asyncio.Lock()

    async def serve(self, transport: Transport) -> None:
        """Connect a client to the shared agent until one of them ends."""
        async with transport:
            try:
                async with self._starting:
                    running = await self._join(client := AttachedClient(transport))
            except StartError as error:
                _log.error("no agent for a client: %s", error)
                await reject_first_request(transport, InternalError(f"no agent: {error}"))
                return
            try:
                await running.forward(client)
            finally:
                running.multiplexer.detach(client)
                if not running.multiplexer.clients:
                    if self._running is running:
                        self._running = None
                    await running.aclose()

    async def _join(self, client: AttachedClient) -> _ProcessLifetime:
        running = self._running
        if running is None or running.is_over:
            self._backoff.check()
            process = self._open_process()
            await process.__aenter__()
            self._running = running = _ProcessLifetime(process, self._backoff)
        running.multiplexer.clients.add(client)
        return running


class _ProcessLifetime:
    """One run of the shared process."""

    def __init__(self, process: Transport, backoff: RestartBackoff) -> None:
        self.multiplexer = Multiplexer(process)
        self.is_over = False
        self._process = process
        self._backoff = backoff
        self._began = time.monotonic()
        self._over = asyncio.Event()
        self._tasks = TaskScope()
        self._tasks.start(self._read())

    async def forward(self, client: AttachedClient) -> None:
        """Pass frames of a client to the agent."""
        while frames := await _received(client.transport):
            try:
                for frame in frames:
                    self.multiplexer.from_client(client, frame)
                if self._process.is_congested:
                    await self._process.drain()
            except ConnectionLost:
                await self._over.wait()  # until `_read` has answered the open requests

    async def _read(self) -> None:
        failure: DuologueError | None = None
        try:
            while frames := await self._process.receive():
                for frame in frames:
                    self.multiplexer.from_agent(frame)
        except DuologueError as error:
            failure = error
        self.is_over = True
        self._backoff.ended(time.monotonic() - self._began, has_failed=bool(self.multiplexer.clients))
        if self.multiplexer.clients:
            _log.error("a shared agent ended before its clients: %s", describe_failure(failure))
        self.multiplexer.fail(InternalError(f"the agent is gone: {describe_failure(failure)}"))
        for client in list(self.multiplexer.clients):
            await client.transport.aclose()
        self._over.set()

    async def aclose(self) -> None:
        """End the process."""
        await self._process.aclose()
        await self._tasks.cancel(1.0)


async def _received(transport: Transport) -> list[bytes]:
    try:
        return await transport.receive()
    except ConnectionLost as error:
        _log.debug("a client of a shared agent is gone: %s", error)
        return []
