"""All connections of one server: who may use which, the agents behind them, and how they end."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from duologue.transports.base import Servable
from duologue.transports.server.connection import ServerConnection
from duologue.transports.server.limits import Limits
from duologue.transports.server.metrics import Metrics

__all__ = ["ConnectionRegistry", "ServableFor", "new_id"]

_log = logging.getLogger("duologue.server")

ServableFor: TypeAlias = Callable[[str], Servable]
"""The agent for a caller."""

H = TypeVar("H", bound=ServerConnection)

GOING_AWAY = 1001
AGENT_FAILED = 1011
END_SECONDS = 5.0
"""For agents to end that were told to."""


class ConnectionRegistry:
    """Keeps connections by their ids, and owns the tasks in which their agents run."""

    def __init__(self, servable_for: ServableFor, limits: Limits) -> None:
        self.limits = limits
        self.numbers = Metrics()
        self.is_draining = False
        self._servable_for = servable_for
        self._held: dict[str, ServerConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()

    @property
    def can_open(self) -> bool:
        """There is room for one more."""
        return not self.is_draining and len(self._held) < self.limits.connections

    @property
    def gauges(self) -> dict[str, int]:
        """What there is at this moment."""
        return {
            "connections": len(self._held),
            "requests_running": sum(len(held.running) for held in self._held.values()),
        }

    def open(self, held: H) -> H:
        """Let an agent talk on a new connection."""
        self._held[held.id] = held
        self.numbers.opened[held.kind] += 1
        task = asyncio.get_running_loop().create_task(self._serve(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._sweeper is None:
            self._sweep_later()
        return held

    def all(self) -> list[ServerConnection]:
        """Those that are open."""
        return list(self._held.values())

    def find(self, id: str, caller: str) -> ServerConnection | None:
        """A connection of this caller; that of another looks like none."""
        held = self._held.get(id)
        return held if held is not None and held.caller == caller and not held.is_over else None

    async def _serve(self, held: ServerConnection) -> None:
        try:
            await self._servable_for(held.caller).serve(held)
        except Exception:
            self.numbers.failed += 1
            _log.exception("the agent of a connection failed")
            held.close_code = AGENT_FAILED
        finally:
            await held.aclose()
            self._held.pop(held.id, None)
            self._quiet.set()

    # --- looking after them

    def _sweep_later(self) -> None:
        seconds = min(1.0, self.limits.stall_seconds / 4, (self.limits.idle_seconds or 4.0) / 4)
        self._sweeper = asyncio.get_running_loop().call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        for held in self.all():
            if held.is_idle(now):
                held.end(GOING_AWAY, is_gone=False)
            else:
                held.check(now)
        self._sweeper = None
        if self._held:
            self._sweep_later()

    # --- the end

    async def drain(self, seconds: float) -> None:
        """Take nothing new, let what runs finish in this time, then end."""
        self.is_draining = True
        for held in self._held.values():
            held.takes_requests = False
        try:
            async with asyncio.timeout(seconds):
                await self._until_quiet()
        except TimeoutError:
            _log.warning(
                "interrupting %d requests that did not end in %.0f s", self.gauges["requests_running"], seconds
            )
        await self.aclose()

    async def _until_quiet(self) -> None:
        while any(held.running and not held.is_over for held in self._held.values()):
            self._quiet.clear()
            for held in self._held.values():
                held.on_answered = self._quiet.set
            await self._quiet.wait()

    async def aclose(self) -> None:
        """End every connection and its agent."""
        self.is_draining = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for held in self.all():
            held.end(GOING_AWAY, is_gone=False)
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks, timeout=END_SECONDS)
            for task in stuck:
                task.cancel()


def new_id() -> str:
    """256 random bits: nobody finds another's connection by guessing."""
    return secrets.token_urlsafe(32)
