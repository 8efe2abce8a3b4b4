"""Check handlers when they are registered, so that a mistake is found before the first prompt."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def check_handler(
    role: str, handler: Callable[..., Any], *parameters: str, optional: Sequence[str] = (), may_yield: bool = False
) -> None:
    """Check that a handler is a coroutine function that can be called with these parameters.

    A function that returns an awaitable is accepted if it says so (an annotation, `functools.wraps`) or is a lambda.

    Args:
        role: What the handler is for: `prompt handler`.
        handler: The function that is registered.
        parameters: Names of what it is called with.
        optional: Names of what it is called with if it takes more parameters.
        may_yield: It may be an async generator.

    Raises:
        TypeError: The handler is not such a function; the message names its file and line.
    """
    wanted = f"`async def {name_of(handler)}({', '.join(parameters)}): …`"
    if not callable(handler):
        raise TypeError(f"a {role} must be a function, {wanted}, not {handler!r}")
    called = inspect.unwrap(_function_of(handler))
    where = location_of(called)
    if inspect.isasyncgenfunction(called) and not may_yield:
        raise TypeError(
            f"{where} is an async generator, but a {role} must be a coroutine function, {wanted}: call "
            "`await turn.say(…)` instead of `yield`, or run the generator itself with `duologue.run()`"
        )
    if inspect.isgeneratorfunction(called):
        raise TypeError(f"{where} is a generator, but a {role} must be a coroutine function: {wanted}")
    if _is_synchronous(called):
        raise TypeError(f"{where} is not a coroutine function, but a {role} must be one: {wanted}")
    if not _accepts(handler, len(parameters)) and not (optional and _accepts(handler, len(parameters) + len(optional))):
        expected = ("no parameter", "one parameter", "two parameters")[len(parameters)]
        raise TypeError(f"{where}: a {role} must take {expected}; write {wanted}")


def check_hook(role: str, hook: Callable[..., Any], parameter: str) -> None:
    """Check that a hook is a plain function of one parameter.

    Raises:
        TypeError: The hook is not such a function; the message names its file and line.
    """
    called = inspect.unwrap(_function_of(hook))
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        raise TypeError(f"{location_of(called)} is not awaited; a {role} must be a plain function: use `def`")
    if not _accepts(hook, 1):
        raise TypeError(f"{location_of(called)} must take one parameter, the {parameter}, as a {role}")


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of another callable."""
    name = str(getattr(function, "__name__", type(function).__name__))
    return name if name.isidentifier() else "handler"


def location_of(function: Callable[..., Any]) -> str:
    """Return name, file and line of a function: `answer (agent.py:12)`."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", repr(function)).replace("<locals>.", "")
    return name if code is None else f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def _function_of(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a call runs: that of a partial, or the `__call__` of an object."""
    while isinstance(handler, functools.partial):
        handler = handler.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if inspect.isroutine(handler) or inspect.isclass(handler):
        return handler
    call = getattr(type(handler), "__call__", handler)  # noqa: B004  # its function, not whether it can be called
    return call if inspect.isfunction(call) else handler


def _is_synchronous(function: Callable[..., Any]) -> bool:
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
        or not (inspect.isfunction(function) or inspect.ismethod(function))
    ):
        return False
    returned = str(function.__annotations__.get("return", ""))
    return function.__name__ != "<lambda>" and not any(name in returned for name in ("Awaitable", "Coroutine", "Any"))


def _accepts(handler: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(handler).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # some functions that are not written in Python have no signature
        return True
    return True
