"""The prompts of one session: one runs, the others wait in order, and each gets exactly one response.

A cancelled prompt ends as `cancelled`, whatever its handler raises. A handler that ignores the cancellation is
abandoned after a timeout and logged, so that the user always gets a response.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

from duologue.agent.turn import Turn
from duologue.agent.turn_exceptions import StopTurn
from duologue.conversation.work_state import STOP_REASONS
from duologue.errors import CommandNotFound, InternalError, StoreError
from duologue.runtime.tasks import TaskScope

_log = logging.getLogger("duologue.agent")

CANCEL_SECONDS = 4.0
"""Seconds a handler gets to clean up after a cancellation before its turn is answered without it."""


class _QueuedPrompt:
    """One prompt from its arrival to its response."""

    def __init__(self, turn: Turn[Any]) -> None:
        loop = asyncio.get_running_loop()
        self.turn = turn
        self.may_start: asyncio.Future[None] = loop.create_future()
        self.abandoned: asyncio.Future[None] = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()
        self.task: asyncio.Task[Any] | None = None
        self.is_cancelled = False
        self._timer: asyncio.TimerHandle | None = None

    def cancel(self, seconds: float) -> None:
        """Cancel the prompt; a second call may only shorten the time its handler gets."""
        if not self.is_cancelled:
            self.is_cancelled = True
            _resolve(self.may_start)
            if self.task is not None:
                self.task.cancel()
        if self.task is not None:
            self._abandon_after(seconds)

    def _abandon_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self.abandon)

    def abandon(self) -> None:
        _resolve(self.abandoned)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def finish(self) -> None:
        _resolve(self.finished)


class PromptQueue:
    """Runs the prompts of a session one after the other.

    Args:
        tasks: Runs the handlers.
        on_end: Awaited with the stop reason of a turn, before its response is sent and before the next turn starts.
        cancel_timeout: Returns the seconds that a handler gets if it is cancelled now.
    """

    def __init__(
        self, tasks: TaskScope, on_end: Callable[[str], Coroutine[Any, Any, None]], cancel_timeout: Callable[[], float]
    ) -> None:
        self._waiting: deque[_QueuedPrompt] = deque()
        self._tasks = tasks
        self._on_end = on_end
        self._cancel_timeout = cancel_timeout

    def cancel(self) -> None:
        """Cancel the running prompt and those that wait behind it."""
        for prompt in list(self._waiting):
            prompt.cancel(self._cancel_timeout())

    async def run(self, turn: Turn[Any], handle: Callable[[Turn[Any]], Awaitable[Any]]) -> str:
        """Wait until the prompt is first in the queue, run its handler, and return the stop reason.

        Raises:
            Exception: The handler raised it, and the prompt was not cancelled.
        """
        prompt = _QueuedPrompt(turn)
        self._waiting.append(prompt)
        try:
            return await self._answer(prompt, handle)
        finally:
            self._waiting.remove(prompt)
            prompt.finish()
            if self._waiting:
                _resolve(self._waiting[0].may_start)

    async def end(self) -> None:
        """Cancel all prompts and wait until each has ended or was abandoned."""
        self.cancel()
        while self._waiting:
            await asyncio.wait({self._waiting[-1].finished})

    async def _answer(self, prompt: _QueuedPrompt, handle: Callable[[Turn[Any]], Awaitable[Any]]) -> str:
        try:
            reason = await self._run(prompt, handle)
        except StoreError as error:
            await self._close(prompt, "error")
            raise InternalError(f"the session could not be stored: {error}") from error
        except Exception:
            await self._close(prompt, "error")
            raise
        failure = await self._close(prompt, reason)
        if failure is None:
            return reason
        _log.error("a turn ended (%s), but it could not be stored: %s", reason, failure)
        if reason == "cancelled":  # protocol/v1/prompt-turn: cancelling never fails
            return reason
        raise InternalError(f"the turn ended ({reason}), but it could not be stored: {failure}") from failure

    async def _run(self, prompt: _QueuedPrompt, handle: Callable[[Turn[Any]], Awaitable[Any]]) -> str:
        if self._waiting[0] is not prompt:
            await self._until(prompt, {prompt.may_start})
        if prompt.is_cancelled:
            return "cancelled"
        prompt.task = self._tasks.start(_guarded(handle, prompt.turn))
        await self._until(prompt, {prompt.task, prompt.abandoned})
        return self._reason(prompt, prompt.task)

    async def _close(self, prompt: _QueuedPrompt, reason: str) -> BaseException | None:
        """End the turn, which then sends nothing. Return the error if its end could not be stored."""
        prompt.turn._is_over = True
        prompt.close()
        ending = self._tasks.start(self._on_end(reason))
        await self._until(prompt, {ending})
        return None if ending.cancelled() else ending.exception()

    async def _until(self, prompt: _QueuedPrompt, ends: set[asyncio.Future[Any]]) -> None:
        """Wait for one of these; a cancellation of the request cancels the prompt, but not its response."""
        while not any(end.done() for end in ends):
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                prompt.cancel(self._cancel_timeout())
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()

    def _reason(self, prompt: _QueuedPrompt, task: asyncio.Task[Any]) -> str:
        if not task.done():
            _log.error(
                "prompt handler %s did not stop after cancellation; the turn was answered as cancelled", task.get_coro()
            )
            return "cancelled"
        raised = None if task.cancelled() else task.exception()
        if prompt.is_cancelled:
            if raised is not None:
                _log.debug("a cancelled prompt handler raised %r", raised)
            return "cancelled"
        if task.cancelled():
            return "cancelled"
        if raised is not None:
            stop = _stop_in(raised)
            if stop is None:
                raise raised
            return stop.reason
        return _as_reason(task.result())


async def _guarded(handle: Callable[[Turn[Any]], Awaitable[Any]], turn: Turn[Any]) -> Any:
    """Run a handler; `sys.exit()` in it ends the turn with an error, not the whole agent."""
    try:
        return await handle(turn)
    except CommandNotFound as error:  # the user, not the author, can install the command
        raise InternalError(str(error)) from error
    except SystemExit as error:
        raise InternalError("the prompt handler raised SystemExit") from error


def _stop_in(raised: BaseException) -> StopTurn | None:
    """Return the `StopTurn` that was raised, also from inside a task group."""
    if isinstance(raised, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", raised)
        found = [_stop_in(error) for error in group.exceptions]
        return found[0] if len(found) == 1 else None
    return raised if isinstance(raised, StopTurn) else None


def _as_reason(returned: Any) -> str:
    if returned is None:
        return "end_turn"
    if returned in STOP_REASONS:
        return str(returned)
    raise TypeError(f"a prompt handler must return None or a stop reason ({', '.join(STOP_REASONS)}), not {returned!r}")


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
