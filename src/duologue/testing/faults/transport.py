"""A transport with faults."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self

from duologue.errors import ConnectionLost, OutputLimitExceeded
from duologue.runtime.tasks import TaskScope
from duologue.testing.faults.injector import Delivery, FaultInjector
from duologue.testing.faults.plan import FaultPlan
from duologue.transports.base import Transport
from duologue.transports.buffered import HARD_LIMIT_FACTOR, MAX_QUEUED_BYTES, Wakeup

CLOSE_SECONDS = 5.0


class FaultyTransport(Transport):
    """A connection with faults: `connect(FaultyTransport(transport, FaultPlan(delay=0.5), seed=7))`.

    Messages are late, doubled, dropped, preceded by others or torn; their order stays. The seed is in the message of
    each error that this transport raises, and in the report of a failed test.

    Args:
        transport: The connection itself; it is entered and closed with this one.
        plan: The faults. Default: `FaultPlan.random(seed)`.
        seed: Decides which messages have which faults.
        max_queued_bytes: Output that may wait for a slow reader before `is_congested`; four times as much ends the
            connection.
    """

    def __init__(
        self,
        transport: Transport,
        plan: FaultPlan | None = None,
        *,
        seed: int,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
    ) -> None:
        plan = FaultPlan.random(seed) if plan is None else plan
        none = FaultPlan()
        self._inner = transport
        self._max_queued = max_queued_bytes
        self._sent = FaultInjector(none if plan.direction == "receive" else plan, seed, "send")
        self._received = FaultInjector(none if plan.direction == "send" else plan, seed, "receive")
        self._outgoing = _Schedule()
        self._incoming = _Schedule()
        self._timer: asyncio.TimerHandle | None = None
        self._capacity_freed = Wakeup()
        self._failure: ConnectionLost | None = None
        self._has_input_ended = False
        self._is_closed = False

    def __str__(self) -> str:
        return f"{self._sent}\n{self._received}"

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._scope = TaskScope()
        await self._inner.__aenter__()
        return self

    @property
    def is_congested(self) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride] # a property here: it is derived
        return self._failure is None and (self._inner.is_congested or self._outgoing.size > self._max_queued)

    @property
    def pending_bytes(self) -> int:
        return self._outgoing.size + self._inner.pending_bytes

    # --- sending

    def send(self, frame: bytes) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        for delivery in self._sent.apply(frame):
            self._outgoing.add(delivery, self._loop.time())
        if self._outgoing.size > self._max_queued * HARD_LIMIT_FACTOR:
            size, limit = self._outgoing.size, self._max_queued * HARD_LIMIT_FACTOR
            failure = OutputLimitExceeded(f"{size} bytes wait to be read; the limit is {limit} ({self._sent})")
            self._end(failure)
            raise failure
        if self._timer is None:
            self._pump()

    def _pump(self) -> None:
        """Send what is due, and come again for the rest."""
        self._timer = None
        if self._failure is not None:
            return
        try:
            for delivery in self._outgoing.due(self._loop.time()):
                self._inner.send(delivery.data)
        except ConnectionLost as error:
            self._end(error)
            return
        self._capacity_freed.set()
        if self._outgoing:
            self._timer = self._loop.call_at(self._outgoing.next_time, self._pump)
        elif self._sent.is_ended:
            self._end(ConnectionLost(self._sent.end))

    async def drain(self) -> None:
        while self._failure is None and self._outgoing.size > self._max_queued:
            await self._capacity_freed.wait()
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        await self._inner.drain()

    # --- receiving

    async def receive(self) -> list[bytes]:
        while True:
            if frames := [each.data for each in self._incoming.due(self._loop.time())]:
                return frames
            if self._incoming:
                await asyncio.sleep(max(0.0, self._incoming.next_time - self._loop.time()))
            elif self._is_closed:
                return []
            elif self._received.is_ended or self._failure is not None:
                self._end(ConnectionLost(self._received.end))
                assert self._failure is not None
                raise self._failure.with_traceback(None)
            elif self._has_input_ended:
                return []
            else:
                await self._read()

    async def _read(self) -> None:
        frames = await self._inner.receive()
        self._has_input_ended = not frames
        now = self._loop.time()
        for frame in frames:
            for delivery in self._received.apply(frame):
                self._incoming.add(delivery, now)

    # --- the end

    def _end(self, failure: ConnectionLost) -> None:
        """End both directions at once; the peer sees the end of the connection."""
        if self._failure is None:
            self._failure = failure
            self._outgoing.clear()
            self._capacity_freed.set()
            self._scope.start(self._inner.aclose())

    async def aclose(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._failure is None:
            try:
                for delivery in self._outgoing.due(float("inf")):
                    self._inner.send(delivery.data)
            except ConnectionLost:
                pass
            self._failure = ConnectionLost("this transport is closed")
        self._outgoing.clear()
        self._incoming.clear()
        self._capacity_freed.set()
        await self._inner.aclose()
        await self._scope.cancel(CLOSE_SECONDS)


class _Schedule:
    """Deliveries in order, each with its time."""

    def __init__(self) -> None:
        self.size = 0
        self._items: deque[tuple[float, Delivery]] = deque()
        self._last = 0.0

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def next_time(self) -> float:
        return self._items[0][0]

    def add(self, delivery: Delivery, now: float) -> None:
        self._last = max(now, self._last) + delivery.wait
        self._items.append((self._last, delivery))
        self.size += len(delivery.data)

    def due(self, now: float) -> list[Delivery]:
        """Return and remove what is due; one that arrives apart is returned alone."""
        found: list[Delivery] = []
        while self._items and self._items[0][0] <= now:
            if found and (found[-1].is_apart or self._items[0][1].is_apart) and now != float("inf"):
                break
            found.append(self._items.popleft()[1])
            self.size -= len(found[-1].data)
        return found

    def clear(self) -> None:
        self._items.clear()
        self.size = 0
