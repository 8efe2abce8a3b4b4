"""Attributes and methods of the asynchronous classes, made blocking without writing each of them a second time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from duologue.client.blocking.loop_thread import LoopThread

T = TypeVar("T")
W = TypeVar("W")
P = ParamSpec("P")


class Blocking(Generic[W]):
    """Wrapper of an asynchronous object, with the thread of its event loop."""

    def __init__(self, thread: LoopThread, wrapped: W) -> None:
        self._thread = thread
        self._wrapped = wrapped

    def __repr__(self) -> str:
        return repr(self._wrapped).replace(type(self._wrapped).__name__, type(self).__name__, 1)

    def _call(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call a plain function in the thread of the event loop."""

        async def call() -> T:
            return function(*args, **options)

        return self._thread.run(call())

    def _iterate(self, events: AsyncIterator[T]) -> Iterator[T]:
        async def read() -> T:
            return await anext(events)

        while True:
            try:
                yield self._thread.run(read())
            except StopAsyncIteration:
                return


class Forwarded(Generic[T]):
    """Attribute that reads the one of the same name of the wrapped object."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        return cast("T", self if instance is None else getattr(instance._wrapped, self._name))


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that calls an asynchronous one of the wrapped object and waits for its result."""

    @wraps(method)
    def run(self: Blocking[Any], /, *args: P.args, **options: P.kwargs) -> T:
        return self._thread.run(method(self._wrapped, *args, **options))

    return run


def with_signature_of(original: Callable[P, object]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function the parameters of another one, for type checkers and `help()`."""

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        function.__wrapped__ = original  # type: ignore[attr-defined]  # read by `inspect.signature`
        return function

    return decorate
