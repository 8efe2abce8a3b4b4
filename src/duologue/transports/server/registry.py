"""All connections of one server, and the tasks in which their agents run."""

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

_log = logging.getLogger("duologue.server")

ServableFor: TypeAlias = Callable[[str], Servable]
"""Returns the agent for a caller."""

H = TypeVar("H", bound=ServerConnection)

GOING_AWAY = 1001
AGENT_FAILED = 1011
END_SECONDS = 5.0
"""For agents to end after their connection was closed."""


class ConnectionRegistry:
    """Keep connections by their ids, and own the tasks in which their agents run."""

    def __init__(self, servable_for: ServableFor, limits: Limits) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.is_draining = False
        self._servable_for = servable_for
        self._connections: dict[str, ServerConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()

    @property
    def can_open(self) -> bool:
        """Whether the limits allow one more connection."""
        return not self.is_draining and len(self._connections) < self.limits.connections

    @property
    def gauges(self) -> dict[str, int]:
        """Return the current values for the metrics page."""
        return {
            "connections": len(self._connections),
            "requests_running": sum(len(connection.running) for connection in self._connections.values()),
        }

    def open(self, connection: H) -> H:
        """Serve an agent on a new connection."""
        self._connections[connection.id] = connection
        self.metrics.opened[connection.kind] += 1
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._sweeper is None:
            self._sweep_later()
        return connection

    def all(self) -> list[ServerConnection]:
        """Return the open connections."""
        return list(self._connections.values())

    def find(self, id: str, caller: str) -> ServerConnection | None:
        """Return a connection of this caller; `None` if there is none, or if it belongs to another caller."""
        connection = self._connections.get(id)
        return connection if connection is not None and connection.caller == caller and not connection.is_over else None

    async def _serve(self, connection: ServerConnection) -> None:
        try:
            await self._servable_for(connection.caller).serve(connection)
        except Exception:
            self.metrics.failed += 1
            _log.exception("the agent of a connection failed")
            connection.close_code = AGENT_FAILED
        finally:
            await connection.aclose()
            self._connections.pop(connection.id, None)
            self._quiet.set()

    # --- regular checks

    def _sweep_later(self) -> None:
        seconds = min(1.0, self.limits.stall_seconds / 4, (self.limits.idle_seconds or 4.0) / 4)
        self._sweeper = asyncio.get_running_loop().call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in self.all():
            if connection.is_idle(now):
                connection.end(GOING_AWAY, is_gone=False)
            else:
                connection.check(now)
        self._sweeper = None
        if self._connections:
            self._sweep_later()

    # --- the end

    async def drain(self, seconds: float) -> None:
        """Accept nothing new, wait up to `seconds` for running requests, then end."""
        self.is_draining = True
        for connection in self._connections.values():
            connection.takes_requests = False
        try:
            async with asyncio.timeout(seconds):
                await self._until_quiet()
        except TimeoutError:
            _log.warning(
                "interrupting %d requests that are still running after %.0f s", self.gauges["requests_running"], seconds
            )
        await self.aclose()

    async def _until_quiet(self) -> None:
        while any(connection.running and not connection.is_over for connection in self._connections.values()):
            self._quiet.clear()
            for connection in self._connections.values():
                connection.on_answered = self._quiet.set
            await self._quiet.wait()

    async def aclose(self) -> None:
        """End every connection and its agent."""
        self.is_draining = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in self.all():
            connection.end(GOING_AWAY, is_gone=False)
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks, timeout=END_SECONDS)
            for task in stuck:
                task.cancel()


def new_id() -> str:
    """Return 256 random bits as text, so that connections of other callers cannot be guessed."""
    return secrets.token_urlsafe(32)
