"""The result of a method that must be awaited: used without `await`, it raises an error that names the fix."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from pathlib import Path
from types import CoroutineType, TracebackType
from typing import Any, NoReturn, TypeVar, cast

from duologue.errors import InternalError

_log = logging.getLogger("duologue.agent")

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Coroutine[Any, Any, Any]])


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
