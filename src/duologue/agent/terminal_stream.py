"""The output of a command of ours, shown to a client that shows such things, as fast as the client takes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from duologue.conversation.updates import TerminalOutputChunk, TerminalUpdate
from duologue.protocol.values import TerminalExit

if TYPE_CHECKING:
    from duologue.agent.session import Session

__all__ = ["TerminalStream"]


class TerminalStream:
    """One terminal of a session.

    Args:
        session: Where it is shown.
        terminal_id: Its name there.
        limit: Bytes that may wait for a slow client; beyond that it sees the end of the output, and no more of it.
    """

    def __init__(self, session: Session[Any], terminal_id: str, limit: int) -> None:
        self.terminal_id = terminal_id
        self._session = session
        self._limit = limit
        self._waiting = bytearray()
        self._has_lost_some = False
        self._is_closed = False
        self._something = asyncio.Event()
        self._order = asyncio.Lock()

    def write(self, data: bytes) -> None:
        """The command has printed this."""
        self._waiting += data
        if len(self._waiting) > self._limit:
            del self._waiting[: len(self._waiting) - self._limit]
            self._has_lost_some = True
        self._something.set()

    async def show(self) -> None:
        """Tell what is printed, until cancelled."""
        while True:
            await self._something.wait()
            await self._flush()

    async def close(self, ended: TerminalExit | None) -> None:
        """Tell what is left, and how the command ended. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # nobody may be kept waiting by a slow client now
            await self._session.send_final_update(TerminalUpdate(terminal_id=self.terminal_id, exit=ended))
            return
        await self._flush()
        await self._session.update(TerminalUpdate(terminal_id=self.terminal_id, exit=ended))

    async def _flush(self) -> None:
        async with self._order:
            self._something.clear()
            while self._waiting:
                data, self._waiting = bytes(self._waiting), bytearray()
                if self._has_lost_some:
                    self._has_lost_some = False
                    await self._session.update(TerminalUpdate(terminal_id=self.terminal_id, output=data))
                else:
                    await self._session.update(TerminalOutputChunk(terminal_id=self.terminal_id, data=data))
