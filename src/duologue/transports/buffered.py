"""The base of transports that buffer received frames and limit the output that waits."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from duologue.errors import ConnectionLost, DuologueError, OutputLimitExceeded
from duologue.transports.base import Transport

MAX_QUEUED_BYTES = 16 * 1024 * 1024
"""Output that may wait for a slow peer: enough for a large file and a few messages around it."""

HARD_LIMIT_FACTOR = 4
"""Producers that cannot wait may exceed `MAX_QUEUED_BYTES` by this factor; then the connection ends."""

WRITE_AHEAD = 256 * 1024
"""Output waiting beyond the kernel's own buffers that counts as congestion: enough to keep a reader busy."""

READ_AHEAD = 1024 * 1024
"""Bytes of received frames that may wait for `receive` before reading pauses."""

LINGER_SECONDS = 2.0
"""How long `aclose` waits for the peer to read what is already queued."""


class Wakeup:
    """Wake the tasks that wait at this moment.

    A call of `set` is not remembered: check the condition before waiting. Thousands of idle connections need less
    memory than with `asyncio.Event`, which allocates a queue for each.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] | None = None

    def set(self) -> None:
        """Wake all waiting tasks."""
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next call of `set`."""
        waiter = asyncio.get_running_loop().create_future()
        waiters = self._waiters = self._waiters or []
        waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiters is self._waiters:
                waiters.remove(waiter)
            raise


class BufferedTransport(Transport):
    """Buffer received frames until `receive`, and let producers wait while the transport is congested.

    Args:
        max_queued_bytes: Output that may wait; `HARD_LIMIT_FACTOR` times as much ends the connection.
    """

    def __init__(self, max_queued_bytes: int = MAX_QUEUED_BYTES) -> None:
        self._max_queued = max_queued_bytes
        self._frames: list[bytes] = []
        self._unread_bytes = 0
        self._is_ended = False
        """No further frame will arrive."""
        self._failure: DuologueError | None = None
        """Why receiving ended, unless it ended properly."""
        self._send_error: ConnectionLost | None = ConnectionLost("this transport was not entered yet")
        """Why nothing can be sent."""
        self._frames_arrived = Wakeup()
        self._capacity_freed = Wakeup()

    @property
    def unread_bytes(self) -> int:
        """Bytes that have arrived and wait for `receive`."""
        return self._unread_bytes

    async def receive(self) -> list[bytes]:
        while not self._frames:
            if self._is_ended:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                return []
            await self._frames_arrived.wait()
        frames, self._frames = self._frames, []
        unread, self._unread_bytes = self._unread_bytes, 0
        self._on_read(unread)
        return frames

    def _on_read(self, unread: int) -> None:
        """Let the peer send more, now that the `unread` bytes that waited were received."""

    def _deliver(self, frames: list[bytes]) -> None:
        """Hand frames to `on_frames`, or buffer them for `receive`."""
        if self.on_frames is None or self._frames or not self.on_frames(frames):
            self._frames += frames
            self._unread_bytes += sum(map(len, frames))
            self._frames_arrived.set()

    async def drain(self) -> None:
        while self.is_congested and self._send_error is None:
            await self._capacity_freed.wait()
        if self._send_error is not None:
            raise self._send_error.with_traceback(None)

    def _end_congestion(self) -> None:
        """Let producers continue."""
        self.is_congested = False
        self._capacity_freed.set()

    def _exceed_output(self, waiting: int) -> NoReturn:
        """End the connection because more output waits than the hard limit allows.

        Raises:
            OutputLimitExceeded: Always.
        """
        failure = OutputLimitExceeded(
            f"{waiting} bytes wait to be read by the peer; the limit is {self._max_queued * HARD_LIMIT_FACTOR}"
        )
        self._abandon(failure)
        raise failure

    def _abandon(self, failure: ConnectionLost) -> None:
        """End both directions at once."""
        self._send_error = failure
        self._end(failure)

    def _end(self, failure: DuologueError | None) -> None:
        """End receiving, after the frames that have arrived."""
        if not self._is_ended:
            self._is_ended = True
            self._failure = failure
            self._frames_arrived.set()
