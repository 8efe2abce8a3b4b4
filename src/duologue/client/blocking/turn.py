"""A turn of the client's side without an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from duologue.client.blocking.loop_thread import LoopThread
from duologue.client.turn import ClientTurn
from duologue.conversation.content import JsonObject
from duologue.events import Event, Plan, ToolCall
from duologue.protocol.values import TokenUsage

__all__ = ["BlockingTurn", "call", "next_of"]

T = TypeVar("T")


class BlockingTurn:
    """A turn: iterate it for its events, or call `wait()` for its end. See `ClientTurn`."""

    def __init__(self, thread: LoopThread, turn: ClientTurn) -> None:
        self._thread = thread
        self._turn = turn

    def __iter__(self) -> Iterator[Event]:
        events = self._thread.run(call(self._turn.__aiter__))
        try:
            while True:
                try:
                    yield self._thread.run(next_of(events))
                except StopAsyncIteration:
                    return
        finally:
            if not self._turn.is_over:
                self._thread.run(self._turn.cancel())

    def wait(self) -> BlockingTurn:
        """Until the agent has answered."""
        self._thread.run(_finished(self._turn))
        return self

    def cancel(self) -> None:
        """Ask the agent to end this turn."""
        self._thread.run(self._turn.cancel())

    @property
    def is_over(self) -> bool:
        return self._turn.is_over

    @property
    def text(self) -> str:
        return self._turn.text

    @property
    def stop_reason(self) -> str | None:
        return self._turn.stop_reason

    @property
    def usage(self) -> TokenUsage | None:
        return self._turn.usage

    @property
    def tool_calls(self) -> list[ToolCall]:
        return self._turn.tool_calls

    @property
    def plan(self) -> Plan | None:
        return self._turn.plan

    @property
    def is_truncated(self) -> bool:
        return self._turn.is_truncated

    @property
    def error(self) -> BaseException | None:
        return self._turn.error

    @property
    def meta(self) -> JsonObject | None:
        return self._turn.meta


async def next_of(events: AsyncIterator[Event]) -> Event:
    """Wait for the next event of a stream."""
    return await anext(events)


async def call(function: Callable[[], T]) -> T:
    """Call a plain function where the event loop runs."""
    return function()


async def _finished(turn: ClientTurn) -> None:
    await turn
