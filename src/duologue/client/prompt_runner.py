"""The prompts of a session: sent one after the other, each when the turn of the one before it has ended."""

from __future__ import annotations

import asyncio
import os
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from duologue.client.calling_task import CallingTask, current_calling_task
from duologue.conversation.updates import MessageChunk, ToolCallUpdate
from duologue.errors import ConnectionLost, DuologueError
from duologue.events import UsageChanged, event_of
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.values import PromptResult
from duologue.usage.spellings import counts_reported, meaning_in

if TYPE_CHECKING:
    from duologue.client.session import ClientSession
    from duologue.client.turn import ClientTurn


class PromptRunner:
    """Runs the turns of one session.

    Attributes:
        running: The turn that runs.
        has_run: A turn has begun.
        is_prompted: A prompt was sent; before, everything received is the history of a loaded session.
        is_interrupted: The agent was lost during the last turn.
        is_cancel_ignored: The agent did not end the last turn in time after it was cancelled.
    """

    def __init__(self, session: ClientSession) -> None:
        self.running: ClientTurn | None = None
        self.has_run = False
        self.is_prompted = False
        self.is_interrupted = False
        self.is_cancel_ignored = False
        self._session = session
        self._agent = session.agent
        self._queued: list[ClientTurn] = []
        self._waiting = 0
        self._lock = asyncio.Lock()

    @property
    def is_waiting(self) -> bool:
        """True while a prompt waits for the end of the running turn."""
        return self._waiting > 0

    def start(self, turn: ClientTurn, *, is_steering: bool = False) -> asyncio.Task[None]:
        """Start a turn in a task of its own; cancel an earlier one that the same caller stopped reading.

        The caller has not stopped reading the turn that it steers.
        """
        before = [] if is_steering else self._unfinished()
        self._queued.append(turn)
        tasks = self._agent._tasks
        task = tasks.start(self._run(turn, before, current_calling_task()))
        if turn._timeout is not None:
            timer = tasks.start(turn._end_after(turn._timeout))
            task.add_done_callback(lambda _: timer.cancel())
        return task

    def withdraw(self, turn: ClientTurn) -> bool:
        """Remove a turn from the queue; return False if it was sent already."""
        if turn not in self._queued:
            return False
        self._queued.remove(turn)
        turn._abandon()
        return True

    async def cancel(self) -> None:
        """Cancel the running turn and withdraw the queued ones."""
        for turn in list(self._queued):
            self.withdraw(turn)
        await self.cancel_running()

    async def cancel_running(self) -> None:
        """Cancel the running turn; the queued prompts are sent after its end."""
        turn = self.running
        if turn is not None:
            turn.is_cancelling = True
        # protocol/v1/prompt-turn, Cancellation: the client MUST answer the permission requests still pending.
        for session_id in (self._session.id, *self._session.children):
            self._agent._request_handler.cancel_pending(session_id)
        if turn is not None and not turn._is_sent:
            turn._abandon()  # the agent is being started again or logged in to, and has not received the prompt
            return
        if turn is not None:
            # The same chapter: the client SHOULD mark the open tool calls now; the agent may still end them otherwise.
            self._close_tool_calls(turn, "cancelled")
        await self._agent._proxy.cancel(self._session.id)

    def abandoned_turns(self) -> list[ClientTurn]:
        """Return the turns that the current task has stopped reading, although they have not ended."""
        caller = current_calling_task()
        return [turn for turn in self._unfinished() if turn._is_abandoned_by(caller)]

    def _unfinished(self) -> list[ClientTurn]:
        return self._queued[:] if self.running is None else [self.running, *self._queued]

    async def _run(self, turn: ClientTurn, before: list[ClientTurn], caller: CallingTask) -> None:
        # Only now: a task that was given an iterator of one of them, and was started first, has begun to read it.
        for other in before:
            if other._is_abandoned_by(caller):
                self._agent._tasks.start(other._cancel_unread())
        self._waiting += 1
        try:
            if before and self._agent.connection.is_paused:
                for other in before:
                    other._relieve()
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        try:
            self._queued.remove(turn)
            self._add_prompt(turn)
            self.running, self.has_run, self.is_cancel_ignored = turn, True, False
            try:
                result = await self._agent._supervisor.request(partial(self._send, turn), self._session)
                turn._end(result)
                self._count_usage(turn, result)
            except DuologueError as error:
                turn._end_with(error)
                self._count_usage(turn, None)
            finally:
                self.running = None
                self._after_turn(turn)
                turn._count_unread(None)
        finally:
            self._lock.release()

    def _add_prompt(self, turn: ClientTurn) -> None:
        """Add the prompt to the transcript; two prompts in a row are two messages."""
        transcript = self._session.transcript
        turn._first_item = transcript.position
        message_id = f"prompt-{os.urandom(8).hex()}"
        for block in turn.prompt:
            transcript.apply(MessageChunk(role="user", content=block, message_id=message_id))

    async def _send(self, turn: ClientTurn, proxy: AgentProxy) -> PromptResult:
        session, agent = self._session, self._agent
        session._is_replaying, self.is_prompted, turn._is_sent = False, True, True
        session._run_id = None
        if turn._steer_waiter is not None:
            turn._on_steerable()
        turn._count_unread(agent.connection.internals.unread)
        watch = None if agent._watchdog is None else agent._tasks.start(agent._watchdog.watch(turn))
        try:
            return await proxy.prompt(session.id, turn.prompt, turn._meta)
        finally:
            turn._is_sent = False
            if watch is not None:
                watch.cancel()

    def _count_usage(self, turn: ClientTurn, result: PromptResult | None) -> None:
        """Count the tokens of a turn, and publish them if the agent reports any."""
        counter = self._session._usage_counter
        counts = meaning = None
        if result is not None and (result.usage is not None or result.meta):
            counts = counts_reported(result.usage, result.meta)
            meaning = None if result.usage is None else meaning_in(result.usage.meta)
        turn.usage = usage = counter.end_turn(counts, meaning)
        if usage.provenance != "not_reported" or usage.cost is not None:
            self._session._publish(UsageChanged(turn=usage, session=counter.usage))

    def _after_turn(self, turn: ClientTurn) -> None:
        """Close the tool calls that a failed or cancelled turn left open, and mark what the agent refused.

        A call that is open after a turn that ended well may have worked: its status stays.
        """
        self.is_interrupted = isinstance(turn.error, ConnectionLost)
        self._agent._request_handler.cancel_pending(self._session.id)
        ended = "cancelled" if turn.stop_reason == "cancelled" else "failed" if turn.stop_reason is None else None
        self._close_tool_calls(turn, ended)
        if turn.stop_reason == "refusal":
            self._session.transcript.mark_refused(turn._first_item)

    def _close_tool_calls(self, turn: ClientTurn, ended: str | None) -> None:
        session = self._session
        going_on = [work.work_id for work in session.background if work.kind == "tool_call"]
        # Some agents use the ids of an earlier turn again.
        own = [call.tool_call_id for call in turn.tool_calls]
        for call in session.transcript.close_tool_calls(turn._first_item, ended, but=going_on, also=own):
            event = event_of(ToolCallUpdate(tool_call_id=call.tool_call_id), call)
            session._subscribers.publish(event)
            turn._on_event(event)


_registries: dict[str, dict[Any, Any]] = {}
"""Warnings that were shown, by file, so that a line in a loop is named once."""


def warn_never_started(file: str, line: int, fixes: str) -> None:
    """Warn that a turn was made and never started, as the interpreter warns of a coroutine that was never awaited."""
    message = f"the prompt was never sent; write {fixes}"
    warnings.warn_explicit(message, RuntimeWarning, file, line, registry=_registries.setdefault(file, {}))
