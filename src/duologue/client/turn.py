"""One prompt as its sender sees it: a stream of events, and what came of it.

async with session.prompt("Fix the test") as turn:     # leaving early cancels, and waits for the agent's end
    async for event in turn: ...
turn = await session.prompt("And now the docs")        # awaited instead: the finished turn
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from duologue.client.calling_task import CallingTask, current_calling_task, has_ended
from duologue.client.quirks import failure_in
from duologue.client.turn_result import TurnResult
from duologue.conversation.content import Content, JsonObject
from duologue.errors import ConnectionLost, DuologueError, EventBufferOverflow, ModelFailed, RequestError
from duologue.events import Event, Plan, ToolCall
from duologue.protocol.interfaces import AgentProxy
from duologue.protocol.values import PromptResult, TokenUsage
from duologue.runtime.unread_bytes import UnreadBytes, size_of
from duologue.sanitize import quote

if TYPE_CHECKING:
    from duologue.client.session import ClientSession

__all__ = ["ClientTurn"]

_log = logging.getLogger("duologue.client")


class ClientTurn:
    """A turn. It begins when it is entered, iterated or awaited.

    Attributes:
        stop_reason: How it ended: `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`; `None` before.
        usage: The tokens it used up, if the agent counts them.
        error: Why it failed, if it did.
        is_cancelling: The agent was asked to end it.
        is_sent: The agent has it, and has not answered yet.
        since: The number of its first item in the transcript.
        note: Takes one event of this turn into account, for what will have come of it.
    """

    def __init__(self, session: ClientSession, prompt: list[Content], meta: JsonObject | None) -> None:
        self.session = session
        self.prompt = prompt
        self.stop_reason: str | None = None
        self.usage: TokenUsage | None = None
        self.meta: JsonObject | None = None
        self.error: BaseException | None = None
        self.is_cancelling = False
        self._is_sent = False
        self.since = 0
        self._verdict: DuologueError | None = None
        self._meta = meta
        limit = session.max_transcript_bytes
        self._gathered = TurnResult(None if limit is None else limit // 4)
        self._record = self._gathered.record
        self._events: deque[Event] = deque()
        self._has_reader = False
        self._is_entered = False
        self._is_awaited = False
        self._readers: list[CallingTask] = []
        """Who made the iterator that reads it, and who has read with it last, if it was read at all."""
        self._has_missed = False
        self._something: asyncio.Event = asyncio.Event()
        self._unread: UnreadBytes | None = None
        self._task: asyncio.Task[None] | None = None

    # --- what came of it

    @property
    def text(self) -> str:
        """All the agent said in this turn, or the end of it if `is_truncated`."""
        return self._gathered.text

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of this turn as they stand, or the last of them if `is_truncated`."""
        return self._gathered.tool_calls

    @property
    def plan(self) -> Plan | None:
        """The last plan told in this turn."""
        return self._gathered.plan

    @property
    def is_truncated(self) -> bool:
        """The turn was longer than a quarter of what a transcript may hold: the beginning of its text is gone."""
        return self._gathered.is_truncated

    @property
    def is_over(self) -> bool:
        return self._task is not None and self._task.done()

    # --- using it

    def _is_abandoned_by(self, caller: CallingTask) -> bool:
        """Return True if its reader stopped, without `async with`, and the caller goes on with something else.

        An iterator that is kept and never used again looks like one whose loop takes its time. But a task that made
        the iterator, or read with it last, and now prompts or leaves, is not in that loop; nor is one that has ended.
        """
        if not self._has_reader or self._is_entered or self._is_awaited or self.is_over or not self._readers:
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
        while True:
            while self._events:
                yield self._take()
            if self._has_missed:
                raise EventBufferOverflow(
                    "too many events were not read while another prompt waited; the transcript has them"
                )
            if self.is_over:
                break
            self._readers[1] = current_calling_task()
            self._is_awaited = True
            try:
                self._something.clear()
                await self._something.wait()
            finally:
                self._is_awaited = False
        await self._finish()

    def __await__(self) -> Generator[Any, None, Self]:
        return self._complete().__await__()

    async def _complete(self) -> Self:
        self._stop_reading()
        self._start()
        await self._finish()
        return self

    async def cancel(self) -> None:
        """Ask the agent to end this turn; it ends with its stop reason, or is given up after ten seconds.

        A turn that still waits for another one is withdrawn, and the agent never hears of it.
        """
        await self._cancel(self.session.cancel)

    def _leave(self) -> Coroutine[Any, Any, None]:
        """Read it no more, because its reader has left it; await the result to cancel it, and no prompt that waits."""
        self._stop_reading()
        _log.warning(
            "the events of a turn in session %s were not read to the end, so the turn was cancelled; "
            "use `async with session.prompt(...) as turn:` to leave it where you like",
            quote(self.session.id),
        )
        return self._cancel(self.session._cancel_running)

    async def _cancel(self, ask: Callable[[], Awaitable[None]]) -> None:
        if self._task is None or self.is_over:
            return
        self._stop_reading()
        if not self.session._withdraw(self):
            with suppress(ConnectionLost):  # then the turn has failed, and says so itself
                await ask()
            await asyncio.wait({self._task}, timeout=self.session.agent._cancel_timeout)
            self._abandon()
        await asyncio.wait({self._task})

    async def _fail(self, error: DuologueError) -> None:
        """Cancel it, and let it end with this error whatever the agent says."""
        self._verdict = error
        await self.cancel()

    def _abandon(self) -> None:
        """Stop waiting for an end that the agent does not bring."""
        if self._task is not None and not self.is_over:
            self.stop_reason = "cancelled"
            self._task.cancel()

    # --- what the session does with it

    def _enqueue_nowait(self, event: Event) -> None:
        """The same for its reader. What is not read yet counts as input of the connection that waits."""
        if self._has_reader:
            self._events.append(event)
            if self._unread is not None:
                self._unread.bytes += size_of(event.raw)
            self._something.set()

    def _count_unread(self, unread: UnreadBytes | None) -> None:
        """Count what is not read yet here from now on: with the connection that is used, or with none at the end."""
        size = sum(size_of(event.raw) for event in self._events)
        if self._unread is not None:
            self._unread.remove(self.session.id, size)
        if unread is not None:
            unread.add(self.session.id, self._events, size, self._relieve)
        self._unread = unread

    def _relieve(self) -> None:
        """Drop what a reader outside `async with` does not read, if another prompt waits and the peer is not read.

        That prompt waits for the end of this turn, which cannot come as long as nothing is read from the peer.
        """
        if self._has_reader and not self._is_entered and not self._is_awaited and self.session._has_queued_prompt:
            self._has_missed = True
            self._stop_reading()
            _log.warning("events of a turn in session %s were dropped: they were not read", quote(self.session.id))

    # --- within

    def _start(self) -> None:
        if self._task is None:
            self._task = self.session._start_turn(self)
            self._task.add_done_callback(lambda _: self._something.set())

    def _has_ended(self) -> bool:
        return self.is_over and not self._events

    def _take(self) -> Event:
        event = self._events.popleft()
        unread = self._unread
        if unread is not None:
            unread.bytes -= size_of(event.raw)
            if unread.is_awaited:
                unread.on_progress()
        return event

    def _stop_reading(self) -> None:
        """Keep no events for a reader that has gone."""
        self._has_reader = False
        while self._events:
            self._take()

    async def _finish(self, raises: bool = True) -> None:
        """Wait for the end. If the wait itself is cancelled, the agent is told, and gets a moment to end."""
        assert self._task is not None
        try:
            await asyncio.wait({self._task})
        except asyncio.CancelledError:
            await self.cancel()
            raise
        if not self._task.cancelled():
            self._task.result()
        elif self.stop_reason is None:
            self.error = ConnectionLost("the connection was closed while the turn ran")
        self.error = self._verdict or self.error
        if raises and self.error is not None:
            raise self.error

    async def _run(self) -> None:
        """What the session's task does: ask, and note how it ended."""
        try:
            result = await self.session._request(self._send)
        except DuologueError as error:
            # There are agents that answer a cancelled prompt with an error; it has ended as asked all the same.
            if self.is_cancelling and isinstance(error, RequestError):
                self.stop_reason = "cancelled"
            else:
                self.error = error
            return
        self.stop_reason = result.stop_reason
        self.usage = result.usage
        self.meta = result.meta
        failure = failure_in(result.meta, self._gathered.failure)
        if failure is not None and result.stop_reason == "end_turn":
            last = self._gathered.last_text.strip()
            self.error = ModelFailed(
                f"the agent says that its model failed: {failure or last or 'it does not say why'}"
            )

    async def _send(self, proxy: AgentProxy) -> PromptResult:
        agent = self.session.agent
        self.session._is_replaying, self.session._is_prompted, self._is_sent = False, True, True
        self._count_unread(agent.connection.internals.unread)
        watch = None if agent._watchdog is None else agent._tasks.start(agent._watchdog.watch(self))
        try:
            return await proxy.prompt(self.session.id, self.prompt, self._meta)
        finally:
            self._is_sent = False
            if watch is not None:
                watch.cancel()
