"""The prompts of one session on their way to its agent, from their coming to their end.

| the editor's version | a prompt is answered | so here |
|---|---|---|
| 1 | when its turn has ended | it is sent at once; giving it up asks the agent to stop, and its end is still told |
| 2 | when it is inserted | it waits for those before it, is inserted, and then sent |
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from duologue.errors import RequestCancelled, RequestError
from duologue.protocol.values import PromptResult
from duologue.runtime.tasks import TaskScope

__all__ = ["Turns"]

_log = logging.getLogger("duologue.relay")

CANCELLED = PromptResult(stop_reason="cancelled")


class _Turn:
    def __init__(self) -> None:
        self.has_room = asyncio.Event()
        self.sending: asyncio.Task[PromptResult] | None = None
        self._is_cancelled = False

    def was_cancelled(self) -> bool:
        return self._is_cancelled

    def cancel(self) -> None:
        self._is_cancelled = True
        self.has_room.set()


class Turns:
    """Those that wait and those that run.

    Args:
        tasks: Where they run.
        stop: Asks the agent to end what runs.
    """

    def __init__(self, tasks: TaskScope, stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks = tasks
        self._stop = stop
        self._turns: list[_Turn] = []

    @property
    def are_running(self) -> bool:
        """A prompt was sent, and its turn has not ended."""
        return any(turn.sending is not None for turn in self._turns)

    @property
    def is_cancelling(self) -> bool:
        """The agent was asked to end what runs, and has not yet."""
        return any(turn.was_cancelled() for turn in self._turns)

    def cancel(self) -> None:
        """End what runs, and all that waits. An agent may also work between turns."""
        has_sent = self.are_running or not self._turns
        for turn in self._turns:
            turn.cancel()
        if has_sent:
            self._tasks.start(self._stop())

    def abandon(self) -> None:
        """The session is closed: whatever the agent still says of its turns, they have ended."""
        for turn in self._turns:
            turn.cancel()
            if turn.sending is not None:
                turn.sending.cancel()

    async def run(
        self,
        send: Callable[[], Coroutine[Any, Any, PromptResult]],
        inserted: Callable[[str], Awaitable[None]] | None,
    ) -> PromptResult:
        """How the turn ended.

        Raises:
            RequestCancelled: It was cancelled before it was inserted.
            RequestError: The agent failed; never because it was asked to stop.
        """
        turn = _Turn()
        self._turns.append(turn)
        try:
            if inserted is None:
                return await self._until_it_ends(turn, send)
            return await self._insert(turn, send, inserted)
        finally:
            self._turns.remove(turn)
            if self._turns:
                self._turns[0].has_room.set()

    async def _insert(
        self,
        turn: _Turn,
        send: Callable[[], Coroutine[Any, Any, PromptResult]],
        inserted: Callable[[str], Awaitable[None]],
    ) -> PromptResult:
        if self._turns[0] is not turn:
            await turn.has_room.wait()
        if turn.was_cancelled():
            raise RequestCancelled("cancelled before it was inserted")
        await inserted(f"prompt-{secrets.token_hex(8)}")
        if turn.was_cancelled():
            return CANCELLED
        turn.sending = self._tasks.start(send())
        try:
            return await self._ended(turn, turn.sending)
        except asyncio.CancelledError:
            turn.sending.cancel()
            self._tasks.start(self._stop())  # an agent may not know what it means that a prompt is given up
            raise

    async def _until_it_ends(self, turn: _Turn, send: Callable[[], Coroutine[Any, Any, PromptResult]]) -> PromptResult:
        turn.sending = sending = self._tasks.start(send())
        while not sending.done():
            try:
                await asyncio.wait({sending})
            except asyncio.CancelledError:
                self._give_up(turn, sending)
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
        return await self._ended(turn, sending)

    def _give_up(self, turn: _Turn, sending: asyncio.Task[PromptResult]) -> None:
        """The editor does not want it any more; one behind others has not begun, and those shall go on."""
        if turn.was_cancelled():
            return
        if self._turns[0] is turn:
            self.cancel()
        else:
            turn.cancel()
            sending.cancel()

    async def _ended(self, turn: _Turn, sending: asyncio.Task[PromptResult]) -> PromptResult:
        try:
            return await sending
        except RequestError as error:
            if not turn.was_cancelled():
                raise
            _log.debug("an agent failed when it was asked to stop: %s", error)
            return CANCELLED
        except asyncio.CancelledError:
            if not turn.was_cancelled() or not sending.cancelled():
                raise
            return CANCELLED
