"""Connect one side of a replayed recording to a transport."""

from __future__ import annotations

import asyncio
from typing import Protocol

from duologue.errors import ConnectionLost, MessageTooLarge
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport

FRAMES_AT_ONCE = 100
"""Frames that are sent before messages of the peer are processed."""
END_SECONDS = 5.0


class Player(Protocol):
    """One side of a recording: takes the messages of the peer and returns what to send."""

    timeout: float

    @property
    def is_finished(self) -> bool: ...
    @property
    def is_full(self) -> bool: ...
    def receive(self, frame: bytes, now: float) -> None: ...
    def next(self, now: float) -> bytes | float | None: ...
    def disconnected(self, reason: str) -> None: ...


class Playback:
    """Plays one side of a recording on a transport.

    Args:
        player: What to play.
        transport: The connection, entered.
    """

    def __init__(self, player: Player, transport: Transport) -> None:
        self._player = player
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._received = asyncio.Event()
        self._sent = asyncio.Event()
        self._is_open = True
        self._reason = ""
        """Why the connection broke; empty if the peer ended it."""

    async def run(self) -> None:
        """Play until the player has finished, or the peer disconnects or stops reading."""
        scope = TaskScope()
        scope.start(self._receive())
        try:
            await self._send()
        except ConnectionLost as error:
            self._player.disconnected(self._reason or str(error))
        except TimeoutError:
            self._player.disconnected("it does not read")
        finally:
            await scope.cancel(END_SECONDS)

    async def _receive(self) -> None:
        try:
            while frames := await self._transport.receive():
                for frame in frames:
                    while self._player.is_full:
                        self._received.set()
                        self._sent.clear()
                        await self._sent.wait()
                    self._player.receive(frame, self._loop.time())
                self._received.set()
        except (ConnectionLost, MessageTooLarge) as error:
            self._reason = str(error)
        self._is_open = False
        self._received.set()

    async def _send(self) -> None:
        count = 0
        while not self._player.is_finished:
            found = self._player.next(self._loop.time())
            if isinstance(found, bytes):
                self._transport.send(found)
                self._sent.set()
                count += 1
                if self._transport.is_congested:
                    async with asyncio.timeout(self._player.timeout):
                        await self._transport.drain()
                elif count % FRAMES_AT_ONCE == 0:
                    await asyncio.sleep(0)
            elif not self._is_open:
                self._player.disconnected(self._reason)
                return
            elif not self._player.is_finished:
                await self._wait(found)

    async def _wait(self, seconds: float | None) -> None:
        """Wait until a message was received, but not longer than this."""
        try:
            async with asyncio.timeout(seconds):
                await self._received.wait()
        except TimeoutError:
            return
        self._received.clear()
