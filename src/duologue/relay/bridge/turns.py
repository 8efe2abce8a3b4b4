"""The prompts of one session, from the client's request to the end of the turn.

| the client's version | a prompt is answered | so here |
|---|---|---|
| 1 | when its turn has ended | it is sent at once; cancelling it cancels the turn, whose end is still reported |
| 2 | when it is inserted | it waits for the earlier ones, is inserted, and then sent |
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

_log = logging.getLogger("duologue.relay")

CANCELLED = PromptResult(stop_reason="cancelled")


class _Turn:
    def __init__(self) -> None:
        self.can_start = asyncio.Event()
        self.sending: asyncio.Task[PromptResult] | None = None
        self._is_cancelled = False

    def was_cancelled(self) -> bool:
        return self._is_cancelled

    def cancel(self) -> None:
        self._is_cancelled = True
        self.can_start.set()


class Turns:
    """The queued and running turns of one session.

    Args:
        tasks: Runs the turns.
        stop: Asks the agent to cancel the running turn.
    """

    def __init__(self, tasks: TaskScope, stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks = tasks
        self._stop = stop
        self._turns: list[_Turn] = []

    @property
    def are_running(self) -> bool:
        """Whether a prompt was sent and its turn has not ended."""
        return any(turn.sending is not None for turn in self._turns)

    @property
    def is_cancelling(self) -> bool:
        """Whether the agent was asked to cancel a turn that has not ended."""
        return any(turn.was_cancelled() for turn in self._turns)

    def cancel(self) -> None:
        """Cancel the running turn and all queued ones; without turns, the agent's background work."""
        has_sent = self.are_running or not self._turns
        for turn in self._turns:
            turn.cancel()
        if has_sent:
            self._tasks.start(self._stop())

    def abandon(self) -> None:
        """End all turns at once, because the session was closed."""
        for turn in self._turns:
            turn.cancel()
            if turn.sending is not None:
                turn.sending.cancel()

    async def run(
        self,
        send: Callable[[], Coroutine[Any, Any, PromptResult]],
        inserted: Callable[[str], Awaitable[None]] | None,
    ) -> PromptResult:
        """Run a turn and return how it ended.

        Raises:
            RequestCancelled: It was cancelled before it was inserted.
            RequestError: The agent failed; not after a cancel.
        """
        turn = _Turn()
        self._turns.append(turn)
        try:
            if inserted is None:
                return await self._run_to_end(turn, send)
            return await self._insert(turn, send, inserted)
        finally:
            self._turns.remove(turn)
            if self._turns:
                self._turns[0].can_start.set()

    async def _insert(
        self,
        turn: _Turn,
        send: Callable[[], Coroutine[Any, Any, PromptResult]],
        inserted: Callable[[str], Awaitable[None]],
    ) -> PromptResult:
        if self._turns[0] is not turn:
            await turn.can_start.wait()
        if turn.was_cancelled():
            raise RequestCancelled("the prompt was cancelled before it was inserted")
        await inserted(f"prompt-{secrets.token_hex(8)}")
        if turn.was_cancelled():
            return CANCELLED
        turn.sending = self._tasks.start(send())
        try:
            return await self._result(turn, turn.sending)
        except asyncio.CancelledError:
            turn.sending.cancel()
            self._tasks.start(self._stop())  # an agent may not understand a cancelled request
            raise

    async def _run_to_end(self, turn: _Turn, send: Callable[[], Coroutine[Any, Any, PromptResult]]) -> PromptResult:
        turn.sending = sending = self._tasks.start(send())
        while not sending.done():
            try:
                await asyncio.wait({sending})
            except asyncio.CancelledError:
                self._cancel_turn(turn, sending)
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
        return await self._result(turn, sending)

    def _cancel_turn(self, turn: _Turn, sending: asyncio.Task[PromptResult]) -> None:
        """Cancel a turn whose request was cancelled; one that is still queued must not stop the running one."""
        if turn.was_cancelled():
            return
        if self._turns[0] is turn:
            self.cancel()
        else:
            turn.cancel()
            sending.cancel()

    async def _result(self, turn: _Turn, sending: asyncio.Task[PromptResult]) -> PromptResult:
        try:
            return await sending
        except RequestError as error:
            if not turn.was_cancelled():
                raise
            _log.debug("an agent failed after a cancel: %s", error)
            return CANCELLED
        except asyncio.CancelledError:
            if not turn.was_cancelled() or not sending.cancelled():
                raise
            return CANCELLED
