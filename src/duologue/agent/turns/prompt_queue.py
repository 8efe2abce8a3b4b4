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

from duologue.agent.diagnostics.checks import exit_error
from duologue.agent.turn import Turn
from duologue.agent.turn_exceptions import StopTurn
from duologue.errors import CommandNotFound, DuologueError, InternalError, StoreError
from duologue.runtime.incoming_requests import text_for_peer
from duologue.runtime.tasks import TaskScope

_log = logging.getLogger("duologue.agent")

CANCEL_SECONDS = 4.0
"""Seconds a handler gets to clean up after a cancellation before its turn is answered without it."""


class _QueuedPrompt:
    """One prompt from its arrival to its response.

    Args:
        turn: The prompt.
        cancel_timeout: Returns the seconds that its handler gets if it is cancelled now.
    """

    def __init__(self, turn: Turn[Any], cancel_timeout: Callable[[], float]) -> None:
        self.turn = turn
        self.is_first = False
        self.is_cancelled = False
        self.is_abandoned = False
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[str] | None = None
        self._cancel_timeout = cancel_timeout
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None

    def cancel(self) -> None:
        """Cancel the prompt; a second call may only shorten the time its handler gets."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self.wake()
            if self.task is not None:
                self.task.cancel()
        if self.task is not None:
            self._abandon_after(self._cancel_timeout())

    def _abandon_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._abandon)

    def _abandon(self) -> None:
        self.is_abandoned = True
        self.wake()

    def start_next(self) -> None:
        """Let the prompt run, because those before it have ended."""
        self.is_first = True
        self.wake()

    def wake(self, _: object = None) -> None:
        """Let `wait_until` check its condition."""
        if self._waiter is not None:
            _resolve(self._waiter)

    async def wait_until(self, is_reached: Callable[[], bool]) -> None:
        """Wait for a condition; a cancellation of the request cancels the prompt, but not its response."""
        while not is_reached():
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except asyncio.CancelledError:
                self.cancel()
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()

    def close(self) -> None:
        """End the turn, which then sends nothing."""
        self.turn._is_over = True
        for end in self.turn._at_end:
            end()
        if self.turn._steering is not None:
            self.turn._steering.close()
        if self._timer is not None:
            self._timer.cancel()


class PromptQueue:
    """Runs the prompts of a session one after the other.

    Args:
        tasks: Runs the handlers.
        on_end: Awaited with the stop reason of a turn, before its response is sent and before the next turn starts.
        cancel_timeout: Returns the seconds that a handler gets if it is cancelled now.
    """

    def __init__(
        self,
        tasks: TaskScope,
        on_end: Callable[[str], Coroutine[Any, Any, None]] | None,
        cancel_timeout: Callable[[], float],
    ) -> None:
        self._waiting: deque[_QueuedPrompt] = deque()
        self._tasks = tasks
        self._on_end = on_end
        self._cancel_timeout = cancel_timeout

    def cancel(self) -> None:
        """Cancel the running prompt and those that wait behind it."""
        for prompt in list(self._waiting):
            prompt.cancel()

    @property
    def running_turn(self) -> Turn[Any] | None:
        """The turn whose handler runs, if there is one."""
        return self._waiting[0].turn if self._waiting else None

    @property
    def steerable_turn(self) -> Turn[Any] | None:
        """The turn that can take text now: the running one, unless it is cancelled or has ended."""
        first = self._waiting[0] if self._waiting else None
        return None if first is None or first.is_cancelled or first.turn._is_over else first.turn

    async def end(self) -> None:
        """Cancel all prompts and wait until each has ended or was abandoned."""
        self.cancel()
        while self._waiting:
            await asyncio.wait({self._waiting[-1].finished})

    async def run(self, turn: Turn[Any], handle: Callable[[Turn[Any]], Awaitable[str]]) -> str:
        """Wait until the prompt is first in the queue, run its handler, and return the stop reason.

        Raises:
            Exception: The handler raised it, and the prompt was not cancelled.
        """
        prompt = _QueuedPrompt(turn, self._cancel_timeout)
        self._waiting.append(prompt)
        try:
            if self._waiting[0] is not prompt:
                await prompt.wait_until(lambda: prompt.is_first or prompt.is_cancelled)
            if prompt.is_cancelled:
                return await self._end(prompt, "cancelled")
            task = prompt.task = self._tasks.start(_guarded(handle, turn))
            task.add_done_callback(prompt.wake)
            await prompt.wait_until(lambda: task.done() or prompt.is_abandoned)
            try:
                reason = self._reason(prompt, task)
            except StoreError as error:
                await self._persist_end(prompt, "error")
                raise InternalError(f"the session could not be stored: {error}") from error
            except Exception:
                await self._persist_end(prompt, "error")
                raise
            return await self._end(prompt, reason)
        finally:
            self._waiting.remove(prompt)
            _resolve(prompt.finished)
            if self._waiting:
                self._waiting[0].start_next()

    async def _end(self, prompt: _QueuedPrompt, reason: str) -> str:
        """End the turn, and return the stop reason once it is stored.

        Raises:
            InternalError: It could not be stored.
        """
        failure = await self._persist_end(prompt, reason)
        if failure is None:
            return reason
        is_ours = isinstance(failure, DuologueError)
        shown = failure if is_ours else text_for_peer(failure, debug=prompt.turn.session._debug)
        _log.error(
            "a turn ended (%s), but it could not be stored: %s", reason, shown, exc_info=None if is_ours else failure
        )
        if reason == "cancelled":  # protocol/v1/prompt-turn: cancelling never fails
            return reason
        raise InternalError(f"the turn ended ({reason}), but it could not be stored: {shown}") from failure

    async def _persist_end(self, prompt: _QueuedPrompt, reason: str) -> BaseException | None:
        """End the turn. Return the error if its end could not be stored."""
        prompt.close()
        if self._on_end is None:
            return None
        ending = self._tasks.start(self._on_end(reason))
        ending.add_done_callback(prompt.wake)
        await prompt.wait_until(ending.done)
        return None if ending.cancelled() else ending.exception()

    def _reason(self, prompt: _QueuedPrompt, task: asyncio.Task[str]) -> str:
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
        stop: StopTurn | None = None
        if raised is not None:
            stop = _stop_in(raised)
            if stop is None:
                raise raised
        if prompt.turn._mistake is not None:
            raise InternalError(prompt.turn._mistake)
        return task.result() if stop is None else stop.reason


async def _guarded(handle: Callable[[Turn[Any]], Awaitable[str]], turn: Turn[Any]) -> str:
    """Run a handler; `sys.exit()` in it ends the turn with an error, not the whole agent."""
    try:
        return await handle(turn)
    except CommandNotFound as error:  # the user, not the author, can install the command
        raise InternalError(str(error)) from error
    except SystemExit as error:
        raise exit_error("prompt handler", error) from error


def _stop_in(raised: BaseException) -> StopTurn | None:
    """Return the `StopTurn` that was raised, also from inside a task group."""
    if isinstance(raised, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", raised)
        found = [_stop_in(error) for error in group.exceptions]
        return found[0] if len(found) == 1 else None
    return raised if isinstance(raised, StopTurn) else None


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
