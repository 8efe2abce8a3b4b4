"""Find blocks of a turn that were made and never entered: nothing was sent, so the turn fails and names the line."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from duologue.agent.diagnostics.mistakes import record_mistake

if TYPE_CHECKING:
    from duologue.agent.turn import Turn

T = TypeVar("T")


class TurnBlock(AbstractAsyncContextManager[T]):
    """A block that the author writes as `async with turn.terminal(…):`; made by the method of that name.

    Args:
        turn: The turn it belongs to.
        call: The call that made it, as the author writes it: `turn.terminal`.
        block: What is entered.
    """

    def __init__(self, turn: Turn[Any], call: str, block: AbstractAsyncContextManager[T]) -> None:
        caller = sys._getframe(2)
        self._turn = turn
        self._call = call
        self._code, self._line = caller.f_code, caller.f_lineno
        self._block = block
        self._is_entered = False

    async def __aenter__(self) -> T:
        self._is_entered = True
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, trace)

    def __del__(self) -> None:
        if not self._is_entered:
            report_unentered(self._turn, self._call, self._code, self._line)


def report_unentered(turn: Turn[Any], call: str, code: CodeType, line: int) -> None:
    """Let the turn fail because a block of it was never entered."""
    record_mistake(
        turn, f"`{call}(…)` was called without `async with`", code.co_filename, line, f"async with {call}(…)"
    )
