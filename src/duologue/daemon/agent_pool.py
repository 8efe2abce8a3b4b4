"""The agents that are started and have no client yet: one for each command and directory, and few altogether."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from msgspec import Struct

from duologue.daemon.file_versions import Version, file_versions
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

CHECK_SECONDS = 2.0
"""Time between two looks at the files of an agent that waits."""


class CallerProcess(ProcessTransport):
    """An agent that is started as its client would start it: with the client's directory and environment."""

    def __init__(self, caller: CallerCommand) -> None:
        command, cwd, env = caller.unpacked()
        super().__init__(command, cwd=cwd)
        self._env = env


class _Entry(Struct, eq=False):
    caller: CallerCommand
    key: str
    files: list[Version]
    agent: WarmAgent
    started: asyncio.Task[bool]
    expiry: asyncio.TimerHandle

    @property
    def is_current(self) -> bool:
        """False after a file that the command names has changed."""
        return self.files == file_versions(*self.caller.unpacked())


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

    def without_session(self, caller: CallerCommand | None = None) -> int:
        """Return how many agents, or of this command, wait without a session because they require a login."""
        command_key = None if caller is None else caller.command_key()
        entries = [entry for key, entry in self._entries.items() if command_key in (None, key)]
        return sum(entry.agent.needs_login for entry in entries)

    def prepare(self, caller: CallerCommand, opening: Opening) -> None:
        """Start an agent for the next client with the same key, unless there is one; end one with another key."""
        command_key, key = caller.command_key(), caller.key(opening.initialize)
        if self._is_closed or self._max_warm < 1:
            return
        waiting = self._entries.get(command_key)
        if waiting is not None and waiting.key == key and waiting.is_current:
            return
        self._drop(command_key)
        while len(self._entries) >= self._max_warm:
            self._drop(next(iter(self._entries)))
        agent = WarmAgent(CallerProcess(caller), opening)
        expiry = asyncio.get_running_loop().call_later(self._warm_seconds, self._drop, command_key)
        files = file_versions(*caller.unpacked())  # before it starts: a change from now on is seen
        started = self._tasks.start(self._start(agent))
        self._entries[command_key] = entry = _Entry(caller, key, files, agent, started, expiry)
        self._tasks.start(self._watch(command_key, entry))

    async def take(self, caller: CallerCommand, initialize: bytes) -> WarmAgent | None:
        """Return the agent with this key once it has started; None if there is none."""
        command_key = caller.command_key()
        entry = self._entries.get(command_key)
        if entry is None or entry.key != caller.key(initialize):
            return None
        if not entry.is_current:
            self._drop(command_key)
            return None
        del self._entries[command_key]
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
        for command_key in list(self._entries):
            self._drop(command_key)
        await self._tasks.settle()

    def _drop(self, command_key: str) -> None:
        entry = self._entries.pop(command_key, None)
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

    async def _watch(self, command_key: str, entry: _Entry) -> None:
        """Remove an agent that fails, that ends while it waits, or whose files change."""
        if await entry.started:
            while self._entries.get(command_key) is entry and entry.is_current and entry.agent.is_usable:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_SECONDS):
                        await entry.agent.wait_ended()
        if self._entries.get(command_key) is entry:
            self._drop(command_key)

    async def _discard(self, entry: _Entry) -> None:
        if not entry.started.done():
            entry.started.cancel()
            await asyncio.wait({entry.started})
        await entry.agent.discard()
