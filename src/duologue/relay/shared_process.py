"""One process for all connections of a caller, started with the first and ended with the last."""

from __future__ import annotations

import asyncio
import logging
import time

from duologue.errors import ConnectionLost, DuologueError, InternalError, StartError
from duologue.relay.backoff import RestartBackoff
from duologue.relay.multiplexer import AttachedClient, Multiplexer
from duologue.relay.process_relay import OpenProcess, describe_failure, reject_first_request
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport

__all__ = ["SharedProcessRelay"]

_log = logging.getLogger("duologue.relay")


class SharedProcessRelay:
    """Serves one agent process to many clients.

    Args:
        open_process: The way to a fresh agent.
        restraint: How often it may fail.
    """

    def __init__(self, open_process: OpenProcess, restraint: RestartBackoff | None = None) -> None:
        self._open_process = open_process
        self._restraint = restraint or RestartBackoff()
        self._running: _ProcessLifetime | None = None
        self._starting = asyncio.Lock()

    async def serve(self, transport: Transport) -> None:
        """Let this client take part until it leaves, or the agent does."""
        async with transport:
            try:
                async with self._starting:
                    running = await self._joined(member := AttachedClient(transport))
            except StartError as error:
                _log.error("no agent for a client: %s", error)
                await reject_first_request(transport, InternalError(f"no agent: {error}"))
                return
            try:
                await running.listen(member)
            finally:
                running.switch.leave(member)
                if not running.switch.members:
                    if self._running is running:
                        self._running = None
                    await running.aclose()

    async def _joined(self, member: AttachedClient) -> _ProcessLifetime:
        running = self._running
        if running is None or running.is_over:
            self._restraint.check()
            process = self._open_process()
            await process.__aenter__()
            self._running = running = _ProcessLifetime(process, self._restraint)
        running.switch.members.add(member)
        return running


class _ProcessLifetime:
    """One life of the shared process."""

    def __init__(self, process: Transport, restraint: RestartBackoff) -> None:
        self.switch = Multiplexer(process)
        self.is_over = False
        self._process = process
        self._restraint = restraint
        self._began = time.monotonic()
        self._over = asyncio.Event()
        self._tasks = TaskScope()
        self._tasks.start(self._read())

    async def listen(self, member: AttachedClient) -> None:
        """Pass on what a client says."""
        while frames := await _received(member.transport):
            try:
                for frame in frames:
                    self.switch.from_member(member, frame)
                if self._process.is_congested:
                    await self._process.drain()
            except ConnectionLost:
                await self._over.wait()  # until those who read from the agent have told why it is gone

    async def _read(self) -> None:
        failure: DuologueError | None = None
        try:
            while frames := await self._process.receive():
                for frame in frames:
                    self.switch.from_agent(frame)
        except DuologueError as error:
            failure = error
        self.is_over = True
        self._restraint.ended(time.monotonic() - self._began, has_failed=bool(self.switch.members))
        if self.switch.members:
            _log.error("a shared agent ended before its clients: %s", describe_failure(failure))
        self.switch.fail(InternalError(f"the agent is gone: {describe_failure(failure)}"))
        for member in list(self.switch.members):
            await member.transport.aclose()
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
