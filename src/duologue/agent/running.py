"""The prompts of one session: one runs, the others wait in order, and each gets exactly one answer.

A prompt that is cancelled ends as `cancelled`, whatever its handler raises meanwhile; one whose handler ignores that is
abandoned after a while and reported, so that the user always gets an answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from duologue.agent.turn import STOP_REASONS, StopTurn, Turn
from duologue.runtime.tasks import TaskScope

__all__ = ["CANCEL_PATIENCE", "Prompts"]

_log = logging.getLogger("duologue.agent")

CANCEL_PATIENCE = 4.0
"""Seconds a handler gets to clean up after a cancellation before its turn is answered without it."""


class _Prompt:
    """One prompt from its arrival to its answer."""

    def __init__(self, turn: Turn[Any]) -> None:
        loop = asyncio.get_running_loop()
        self.turn = turn
        self.may_start: asyncio.Future[None] = loop.create_future()
        self.gave_up: asyncio.Future[None] = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()
        self.task: asyncio.Task[Any] | None = None
        self.is_cancelled = False
        self._timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if self.is_cancelled:
            return
        self.is_cancelled = True
        if not self.may_start.done():
            self.may_start.set_result(None)
        if self.task is not None:
            self.task.cancel()
            self._timer = asyncio.get_running_loop().call_later(CANCEL_PATIENCE, self.gave_up.set_result, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)


class Prompts:
    """Runs the prompts of a session one after the other."""

    def __init__(self, tasks: TaskScope) -> None:
        self._waiting: deque[_Prompt] = deque()
        self._tasks = tasks

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    def cancel(self) -> None:
        """End the running prompt and those that wait behind it."""
        for prompt in list(self._waiting):
            prompt.cancel()

    async def run(
        self,
        turn: Turn[Any],
        handle: Callable[[Turn[Any]], Coroutine[Any, Any, Any]],
        ended: Callable[[str], Awaitable[None]],
    ) -> str:
        """Wait for the turn's turn, handle it, and say how it ended; `ended` is awaited before the next may start.

        Raises:
            Exception: What the handler raised, unless the prompt was cancelled.
        """
        prompt = _Prompt(turn)
        self._waiting.append(prompt)
        reason = "error"
        try:
            if self._waiting[0] is not prompt:
                await self._until(prompt, {prompt.may_start})
            if prompt.is_cancelled:
                reason = "cancelled"
            else:
                prompt.task = self._tasks.start(handle(turn))
                await self._until(prompt, {prompt.task, prompt.gave_up})
                reason = self._reason(prompt, prompt.task)
            return reason
        finally:
            turn.is_over = True
            prompt.close()
            try:
                await ended(reason)
            finally:
                self._waiting.remove(prompt)
                prompt.finish()
                if self._waiting and not self._waiting[0].may_start.done():
                    self._waiting[0].may_start.set_result(None)

    async def end(self) -> None:
        """Cancel everything and wait until it has ended, or was abandoned."""
        self.cancel()
        while self._waiting:
            last = self._waiting[-1]
            await asyncio.wait({last.finished})

    async def _until(self, prompt: _Prompt, ends: set[asyncio.Future[Any]]) -> None:
        """Wait for one of these; a cancellation of the request is a cancellation of the prompt, not of its answer."""
        while not any(end.done() for end in ends):
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                prompt.cancel()
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()

    def _reason(self, prompt: _Prompt, task: asyncio.Task[Any]) -> str:
        if not task.done():
            _log.error("a turn was answered without its handler, which ignores cancellation: %s", task.get_coro())
            return "cancelled"
        raised = None if task.cancelled() else task.exception()
        if prompt.is_cancelled:
            if raised is not None:
                _log.debug("raised while being cancelled: %r", raised)
            return "cancelled"
        if task.cancelled():
            return "cancelled"
        if isinstance(raised, StopTurn):
            return raised.reason
        if raised is not None:
            raise raised
        return _as_reason(task.result())


def _as_reason(returned: Any) -> str:
    if returned is None:
        return "end_turn"
    if returned in STOP_REASONS:
        return str(returned)
    raise TypeError(f"a prompt handler returns nothing or a stop reason ({', '.join(STOP_REASONS)}), not {returned!r}")
