"""The agents that are started and have no client yet: one for each way to start it, and few altogether."""

from __future__ import annotations

import asyncio
import logging

from msgspec import Struct

from duologue.daemon.messages import CallerCommand
from duologue.daemon.warm_agent import Opening, WarmAgent
from duologue.errors import DuologueError
from duologue.runtime.tasks import TaskScope
from duologue.transports.process.transport import ProcessTransport

_log = logging.getLogger("duologue.daemon")

MAX_WARM = 4
"""Agents that wait for a client: each may need hundreds of megabytes."""

WARM_SECONDS = 600.0
"""Time after which an agent that no client needed is ended."""


class CallerProcess(ProcessTransport):
    """An agent that is started as its client would start it: with the client's directory and environment."""

    def __init__(self, caller: CallerCommand) -> None:
        command, cwd, env = caller.unpacked()
        super().__init__(command, cwd=cwd)
        self._env = env


class _Entry(Struct, eq=False):
    agent: WarmAgent
    started: asyncio.Task[bool]
    expiry: asyncio.TimerHandle


class AgentPool:
    """Agents that wait for a client.

    Args:
        max_warm: Number of agents; the one that waits longest is ended for another.
        warm_seconds: How long each of them waits.
    """

    def __init__(self, max_warm: int = MAX_WARM, warm_seconds: float = WARM_SECONDS) -> None:
        self._max_warm = max_warm
        self._warm_seconds = warm_seconds
        self._entries: dict[str, _Entry] = {}
        self._tasks = TaskScope()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._entries)

    def prepare(self, caller: CallerCommand, opening: Opening) -> None:
        """Start an agent for the next client with the same key, unless there is one."""
        key = caller.key(opening.initialize)
        if key in self._entries or self._is_closed or self._max_warm < 1:
            return
        while len(self._entries) >= self._max_warm:
            self._drop(next(iter(self._entries)))
        agent = WarmAgent(CallerProcess(caller), opening)
        expiry = asyncio.get_running_loop().call_later(self._warm_seconds, self._drop, key)
        self._entries[key] = entry = _Entry(agent, self._tasks.start(self._start(agent)), expiry)
        self._tasks.start(self._watch(key, entry))

    async def take(self, caller: CallerCommand, initialize: bytes) -> WarmAgent | None:
        """Return the agent with this key once it has started; None if there is none."""
        entry = self._entries.pop(caller.key(initialize), None)
        if entry is None:
            return None
        entry.expiry.cancel()
        try:
            is_started = await asyncio.shield(entry.started)
        except asyncio.CancelledError:
            self._tasks.start(self._discard(entry))
            raise
        if is_started and entry.agent.is_usable:
            return entry.agent
        self._tasks.start(self._discard(entry))
        return None

    async def aclose(self) -> None:
        """End all agents."""
        self._is_closed = True
        for key in list(self._entries):
            self._drop(key)
        await self._tasks.settle()

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.expiry.cancel()
            self._tasks.start(self._discard(entry))

    async def _start(self, agent: WarmAgent) -> bool:
        try:
            await agent.prepare()
        except DuologueError as error:
            _log.warning("an agent could not be started in advance: %s", error)
            return False
        return True

    async def _watch(self, key: str, entry: _Entry) -> None:
        """Remove an agent that fails, or ends while it waits."""
        if await entry.started:
            await entry.agent.wait_ended()
        if self._entries.get(key) is entry:
            self._drop(key)

    async def _discard(self, entry: _Entry) -> None:
        if not entry.started.done():
            entry.started.cancel()
            await asyncio.wait({entry.started})
        await entry.agent.discard()
