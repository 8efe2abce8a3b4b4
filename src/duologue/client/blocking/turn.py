"""A turn without an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from duologue.client.blocking.forwarders import Blocking, Forwarded, blocking
from duologue.client.steering import Fallback, SteerResult
from duologue.client.turn import ClientTurn
from duologue.conversation.content import Content, JsonObject
from duologue.events import Event, Plan, ToolCall
from duologue.usage.amounts import TurnUsage


class BlockingTurn(Blocking[ClientTurn]):
    """A turn: iterate it for its events, or call `wait()` for its end. See `ClientTurn`.

    Leaving a loop over the events, or the block of `with turn:` around it, cancels the turn and waits for its end.
    """

    prompt = Forwarded[list[Content]]()
    is_over = Forwarded[bool]()
    is_cancelling = Forwarded[bool]()
    is_truncated = Forwarded[bool]()
    text = Forwarded[str]()
    stop_reason = Forwarded[str | None]()
    usage = Forwarded[TurnUsage | None]()
    tool_calls = Forwarded[list[ToolCall]]()
    plan = Forwarded[Plan | None]()
    error = Forwarded[BaseException | None]()
    meta = Forwarded[JsonObject | None]()
    denied = Forwarded[list[str]]()

    cancel = blocking(ClientTurn.cancel)

    def steer(
        self, message: str | Content | Iterable[str | Content], *, otherwise: Fallback | None = None
    ) -> SteerResult[BlockingTurn]:
        """Send text into the running turn, and return its outcome; see `ClientTurn.steer`."""
        result = self._thread.run(self._wrapped.steer(message, otherwise=otherwise))
        following = None if result.turn is None else BlockingTurn(self._thread, result.turn)
        return SteerResult(result.outcome, result.reason, following)

    def __enter__(self) -> Self:
        self._thread.run(self._wrapped.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.run(self._wrapped.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[Event]:
        try:
            yield from self._iterate(self._call(self._wrapped.__aiter__))
        finally:
            if not self.is_over and not self._wrapped._is_entered:
                self.cancel()

    def check(self) -> None:
        """Check that the turn ended with `end_turn` and that nothing was denied.

        Raises:
            TurnIncomplete: It was refused, cut off, cancelled, or denied a permission.
        """
        self._wrapped.check()

    def _repr_markdown_(self) -> str:
        return self._wrapped._repr_markdown_()

    def wait(self) -> Self:
        """Wait for the end of the turn.

        Raises:
            DuologueError: The turn failed.
        """

        async def finish() -> None:
            await self._wrapped

        self._thread.run(finish())
        return self
