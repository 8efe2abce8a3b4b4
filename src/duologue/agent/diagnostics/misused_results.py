"""Find results of a turn's methods that are used without `await`, and blocks that are never entered with `async with`.

Nothing was sent, so the turn fails and names the line. `unawaited` finds calls whose result is not used at all.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from functools import wraps
from pathlib import Path
from types import CodeType, CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from duologue.errors import InternalError

if TYPE_CHECKING:
    from duologue.agent.turn import Turn

_log = logging.getLogger("duologue.agent")

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Coroutine[Any, Any, Any]])


def record_mistake(turn: Turn[Any], mistake: str, file: str, line: int, fix: str) -> None:
    """Log a mistake because of which nothing was sent, and let the turn fail with it if it is not over.

    Args:
        turn: The turn in which it happened.
        mistake: What the author did.
        file: The file of the call.
        line: Its line, or 0 if that is not known.
        fix: What to write instead.
    """
    where = f"at {Path(file).name}:{line}" if line else "(`python -X dev` shows the line)"
    if not turn._is_over:
        turn._mistake = turn._mistake or f"{mistake} {where}; write `{fix}`"
    _log.error("%s, so nothing was sent%s", mistake, f": {file}:{line}" if line else "")


# --- used without `await`


class AwaitableResult(Coroutine[Any, Any, T]):
    """A coroutine that is neither true nor false, and has no attributes of the result."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Run the coroutine to its next wait."""
        return self._coroutine.send(value)

    def throw(self, typ: Any, val: Any = None, tb: TracebackType | None = None) -> Any:
        """Raise an exception in the coroutine."""
        return self._coroutine.throw(typ if val is None else val)

    def close(self) -> None:
        """End the coroutine."""
        self._coroutine.close()

    @property
    def _name(self) -> str:
        return cast("CoroutineType[Any, Any, T]", self._coroutine).__name__

    def __bool__(self) -> NoReturn:
        self._coroutine.close()
        frame, name = sys._getframe(1), self._name
        file, line = frame.f_code.co_filename, frame.f_lineno
        _log.error("the result of `%s` was used without `await`: %s:%d", name, file, line)
        raise InternalError(
            f"the result of `{name}` was used without `await` at {Path(file).name}:{line}, and is neither true nor "
            f"false; write `if await ….{name}(…):`"
        )

    def __getattr__(self, attribute: str) -> NoReturn:
        name = self._name
        raise AttributeError(
            f"`{name}` was called without `await`, so its result has no `{attribute}`; write `await ….{name}(…)`"
        )


def must_be_awaited(method: M) -> M:
    """Decorate a coroutine function whose result is easily used without `await`."""

    @wraps(method)
    def call(*args: Any, **options: Any) -> AwaitableResult[Any]:
        return AwaitableResult(method(*args, **options))

    return cast("M", call)


# --- never entered


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
