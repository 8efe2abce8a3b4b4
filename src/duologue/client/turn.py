"""One prompt on the client side: its events and its result.

async with session.prompt("Fix the test") as turn:     # leaving early cancels the turn and waits for its end
    async for event in turn: ...
turn = await session.prompt("And now the docs")        # awaited instead: the finished turn
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from duologue.client.calling_task import CallingTask, current_calling_task, has_ended
from duologue.client.prompt_runner import warn_never_started
from duologue.client.quirks import failure_in
from duologue.client.steering import Fallback, SteerResult, steer
from duologue.client.turn_result import TurnResult
from duologue.conversation.content import Content, JsonObject
from duologue.errors import ConnectionLost, DuologueError, EventBufferOverflow, ModelFailed, RequestError
from duologue.events import Event, Plan, ToolCall
from duologue.protocol.values import PromptResult
from duologue.runtime.unread_bytes import PLAIN_BYTES, UnreadBytes, size_of
from duologue.sanitize import quote, safe_markdown, shorten
from duologue.usage.amounts import TurnUsage

if TYPE_CHECKING:
    from duologue.client.prompt_runner import PromptRunner
    from duologue.client.session import ClientSession

_log = logging.getLogger("duologue.client")


class ClientTurn:
    """A turn. It begins when it is entered, iterated or awaited.

    Attributes:
        session: The session of the turn.
        prompt: Content blocks of the prompt.
        stop_reason: How it ended: `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`; `None` before.
        usage: Tokens and cost of the turn, with their provenance; `None` before its end.
        meta: What the agent sent in `_meta` of its response.
        error: The error that the turn failed with, if any.
        is_cancelling: The turn was cancelled and has not ended.
    """

    def __init__(
        self,
        session: ClientSession,
        runner: PromptRunner,
        prompt: list[Content],
        meta: JsonObject | None,
        timeout: float | None = None,
    ) -> None:
        self.session = session
        self.prompt = prompt
        self.stop_reason: str | None = None
        self.usage: TurnUsage | None = None
        self.meta: JsonObject | None = None
        self.error: BaseException | None = None
        self.is_cancelling = False
        self._runner = runner
        self._is_sent = False
        self._steer_waiter: asyncio.Future[None] | None = None
        self._first_item = 0
        """Position of the first item of this turn in the transcript."""
        self._forced_error: Callable[[], DuologueError] | None = None
        self._meta = meta
        self._timeout = self._named_timeout = timeout
        limit = session._max_transcript_bytes
        self._result = TurnResult(None if limit is None else limit // 3)
        self._add_text = self._result.add_text
        self._events: deque[Event] = deque()
        self._has_reader = False
        self._is_entered = False
        self._readers: list[CallingTask] = []
        """The caller that made the iterator, and the caller that read with it last, if any has."""
        self._has_missed = False
        self._waiters: list[asyncio.Future[None]] = []
        self._waiting_readers = 0
        self._unread: UnreadBytes | None = None
        self._task: asyncio.Task[None] | None = None
        caller = sys._getframe(2)
        self._caller = (caller.f_code.co_filename, caller.f_lineno)
        """File and line that called `session.prompt`."""
        self._fixes = "`await session.prompt(…)` or `async with session.prompt(…) as turn:`"

    def __del__(self) -> None:
        if self._task is None and self._fixes:
            warn_never_started(*self._caller, self._fixes)

    # --- result

    @property
    def text(self) -> str:
        """Text of the agent's messages in this turn, or its end if `is_truncated`."""
        return self._result.text

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Tool calls of this turn as they are now, or the last of them if `is_truncated`."""
        return self._result.tool_calls

    @property
    def plan(self) -> Plan | None:
        """The last plan of this turn."""
        return self._result.plan

    @property
    def denied(self) -> list[str]:
        """Actions that the client did not permit in this turn."""
        return list(self._result.denied)

    def check(self) -> None:
        """Check that the turn ended with `end_turn` and that nothing was denied.

        Raises:
            TurnIncomplete: It was refused, cut off, cancelled, or denied a permission.
        """
        self._result.check(self.stop_reason)

    def __repr__(self) -> str:
        state = self.stop_reason or ("running" if self._task is not None and not self.is_over else "not ended")
        return f"<ClientTurn {state}: {shorten(self.text, 60)!r}, {len(self.tool_calls)} tool calls>"

    def _repr_markdown_(self) -> str:
        """Return what a notebook shows."""
        is_complete = self.stop_reason == "end_turn" and not self.denied
        return safe_markdown(self.text) if is_complete else f"{safe_markdown(self.text)}\n\n`{self!r}`"

    @property
    def is_truncated(self) -> bool:
        """True if the beginning was dropped: the turn was longer than a third of the transcript's limit."""
        return self._result.is_truncated

    @property
    def is_over(self) -> bool:
        """True after the end of the turn."""
        return self._task is not None and self._task.done()

    # --- reading and awaiting

    def _is_abandoned_by(self, caller: CallingTask) -> bool:
        """Return True if the caller, or a task that has ended, iterated the turn without `async with` and stopped.

        An iterator that is never used again looks like one in a slow loop. But a task that made the iterator, or
        read with it last, and now sends a prompt or closes the session, is not in that loop; nor is one that has ended.
        """
        if not self._has_reader or self._is_entered or self._waiting_readers or self.is_over or not self._readers:
            return False
        return all(reader is caller or has_ended(reader) for reader in self._readers)

    async def __aenter__(self) -> Self:
        self._has_reader = self._is_entered = True
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_reading()
        if (not self.is_over and kind is not None) or not self._has_ended():
            await self.cancel()
        await self._finish(raises=kind is None)

    def __aiter__(self) -> AsyncIterator[Event]:
        self._has_reader = True
        self._start()
        self._readers = [current_calling_task()]
        return self._iterate(self._readers[0])

    async def _iterate(self, maker: CallingTask) -> AsyncIterator[Event]:
        self._readers = [maker, current_calling_task()]
        events = self._events
        while True:
            while events:
                event = events.popleft()
                if (unread := self._unread) is not None:
                    size = len(event.raw)
                    unread.bytes -= size if size <= PLAIN_BYTES else size_of(event.raw)
                    if unread.is_awaited:
                        unread.on_progress()
                yield event
            if self._has_missed:
                raise EventBufferOverflow(
                    "too many events were not read while another prompt waited; the transcript has them"
                )
            if self.is_over:
                break
            self._readers[1] = current_calling_task()
            self._waiters.append(waiter := asyncio.get_running_loop().create_future())
            self._waiting_readers += 1
            try:
                await waiter
            finally:
                self._waiting_readers -= 1
        await self._finish()

    def __await__(self) -> Generator[Any, None, Self]:
        return self._complete().__await__()

    async def _complete(self) -> Self:
        self._stop_reading()
        self._start()
        await self._finish()
        return self

    async def steer(
        self, message: str | Content | Iterable[str | Content], *, otherwise: Fallback | None = None
    ) -> SteerResult[ClientTurn]:
        """Send text into the running turn, and return what became of it: each text has exactly one outcome.

        Before the turn has begun, wait for that. A lost connection is `prompt_required`: the turn is gone.

        Args:
            message: Text, or content blocks.
            otherwise: What to do with a text that the agent did not take. `queue`: send it as the next prompt.
                `cancel_and_send`: the same, and cancel this turn. Default: nothing.

        Raises:
            InvalidParams: The agent does not support such content.
            RequestError: The agent answered with an error; it has not taken the text.
            RuntimeError: The turn was not started.
        """
        return await steer(self, message, otherwise)

    async def cancel(self) -> None:
        """Cancel the turn: it ends with the agent's stop reason, or after `connect(cancel_timeout=…)` without it.

        A turn that is still queued behind another one is withdrawn and never sent.
        """
        await self._cancel(self._runner.cancel)

    def _cancel_unread(self) -> Coroutine[Any, Any, None]:
        """Drop the events of a turn that is no longer read; await the result to cancel it and keep queued prompts."""
        self._stop_reading()
        _log.warning(
            "the events of a turn in session %s were not read to the end, so the turn was cancelled; "
            "use `async with session.prompt(...) as turn:` to leave it where you like",
            quote(self.session.id),
        )
        return self._cancel(self._runner.cancel_running)

    async def _cancel(self, send: Callable[[], Awaitable[None]]) -> None:
        self._fixes = ""  # a turn that was cancelled before its start is no mistake
        if self._task is None or self.is_over:
            return
        self._stop_reading()
        if not self._runner.withdraw(self):
            with suppress(ConnectionLost, TimeoutError):  # if it is lost, the turn fails with that error
                async with asyncio.timeout(self.session.agent._cancel_timeout):
                    await send()
            await self._end_cancelled()
        await asyncio.wait({self._task})

    async def _end_cancelled(self) -> None:
        """Wait for the end of the cancelled turn, and end it without the agent if that takes too long."""
        assert self._task is not None
        if (await asyncio.wait({self._task}, timeout=self.session.agent._cancel_timeout))[1]:
            self._runner.is_cancel_ignored = True
            self.session.agent._target.mark_unresponsive()
            self._abandon()

    async def _fail(self, error: Callable[[], DuologueError]) -> None:
        """Cancel the turn and let it end with the error that this returns then, whatever the agent responds."""
        self._forced_error = error
        await self.cancel()

    async def _end_after(self, seconds: float) -> None:
        """Wait so long, then cancel the turn and let it end with `TurnTimeout`."""
        await asyncio.sleep(seconds)
        if not self.is_cancelling:
            await self._fail(lambda: self._result.timeout_error(self._named_timeout or seconds, self.stop_reason))

    def _abandon(self) -> None:
        """End the turn as cancelled without the agent's response."""
        if self._task is not None and not self.is_over:
            self.stop_reason = "cancelled"
            self._task.cancel()

    # --- events, as the session passes them on

    def _on_event(self, event: Event) -> None:
        """Add an event to the result and queue it for the reader."""
        self._result.record(event)
        if self._has_reader:
            self._enqueue(event)

    def _enqueue(self, event: Event) -> None:
        """Queue an event; unread events count as unhandled input of the connection."""
        self._events.append(event)
        if self._unread is not None:
            size = len(event.raw)
            self._unread.bytes += size if size <= PLAIN_BYTES else size_of(event.raw)
        if self._waiters:
            self._wake_readers()

    def _count_unread(self, unread: UnreadBytes | None) -> None:
        """Count the unread events on this connection from now on; with `None`, on no connection."""
        size = sum(size_of(event.raw) for event in self._events)
        if self._unread is not None:
            self._unread.remove(self.session.id, size)
        if unread is not None:
            unread.add(self.session.id, self._events, size, self._relieve)
        self._unread = unread

    def _relieve(self) -> None:
        """Drop events that are not read outside `async with` while another prompt waits and reading is paused.

        That prompt waits for the end of this turn, which cannot arrive while nothing is read from the agent.
        """
        if self._has_reader and not self._is_entered and not self._waiting_readers and self._runner.is_waiting:
            self._has_missed = True
            self._stop_reading()
            _log.warning("events of a turn in session %s were dropped: they were not read", quote(self.session.id))

    # --- running

    def _start(self, *, is_steering: bool = False) -> None:
        if self._task is None:
            self._task = self._runner.start(self, is_steering=is_steering)
            self._task.add_done_callback(self._wake_readers)

    @property
    def _is_steerable(self) -> bool:
        """True if the prompt was sent, and the id of the turn is known to an agent that wants it back."""
        spelling = self.session.agent._steering
        return self._is_sent and (spelling is None or not spelling.run_id or self.session._run_id is not None)

    def _on_steerable(self) -> None:
        """Wake what waits until the turn can be steered."""
        if self._steer_waiter is not None and not self._steer_waiter.done():
            self._steer_waiter.set_result(None)

    async def _until_steerable(self, task: asyncio.Task[None]) -> None:
        """Wait until the turn can be steered, or has ended."""
        while not self._is_steerable and not self.is_over:
            if self._steer_waiter is None or self._steer_waiter.done():
                self._steer_waiter = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._steer_waiter, task}, return_when=asyncio.FIRST_COMPLETED)

    def _wake_readers(self, _: object = None) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def _has_ended(self) -> bool:
        return self.is_over and not self._events

    def _stop_reading(self) -> None:
        """Drop the queued events and queue no further ones."""
        self._has_reader = False
        size = sum(size_of(event.raw) for event in self._events)
        self._events.clear()
        if size and self._unread is not None:
            self._unread.bytes -= size
            self._unread.on_progress()

    async def _finish(self, raises: bool = True) -> None:
        """Wait for the end of the turn; if this wait is cancelled, cancel the turn."""
        assert self._task is not None
        if not self._task.done():
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError:
                await self.cancel()
                raise
        if not self._task.cancelled():
            self._task.result()
        elif self.stop_reason is None:
            self.error = ConnectionLost("the connection was closed while the turn ran")
        if self._forced_error is not None:
            self.error, self._forced_error = self._forced_error(), None
        if raises and self.error is not None:
            raise self.error

    def _end_with(self, error: DuologueError) -> None:
        """Store the error that ended the turn."""
        # There are agents that answer a cancelled prompt with an error.
        if self.is_cancelling and isinstance(error, RequestError):
            self.stop_reason = "cancelled"
        else:
            self.error = error

    def _end(self, result: PromptResult) -> None:
        """Store how the turn ended."""
        self.stop_reason = result.stop_reason
        self.meta = result.meta
        failure = failure_in(result.meta, self._result.failure)
        if failure is not None and result.stop_reason == "end_turn":
            last = self._result.last_text.strip()
            self.error = ModelFailed(f"the agent reports that its model failed: {failure or last or 'no reason given'}")
