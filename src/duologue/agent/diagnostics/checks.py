"""Check what the author of an agent registers and passes: handlers, and values that the protocol lists."""

from __future__ import annotations

import functools
import inspect
import logging
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from duologue.conversation.work_state import (
    COMPACTION_STATUSES,
    SEVERITIES,
    STOP_REASONS,
    TOOL_KINDS,
    TOOL_STATUSES,
)
from duologue.errors import InternalError
from duologue.runtime.incoming_requests import reference_of, text_for_peer
from duologue.sanitize import shorten

_log = logging.getLogger("duologue.agent")

_PRIORITIES = ("high", "medium", "low")
_STEP_STATUSES = ("pending", "in_progress", "completed", "cancelled")


# --- handlers


def check_handler(
    role: str,
    handler: Callable[..., Any],
    *parameters: str,
    types: Sequence[type] = (),
    optional: Sequence[str] = (),
    may_yield: bool = False,
) -> None:
    """Check that a handler is a coroutine function that can be called with these parameters.

    A function that returns an awaitable is accepted if it says so (an annotation, `functools.wraps`) or is a lambda.

    Args:
        role: What the handler is for: `prompt handler`.
        handler: The function that is registered.
        parameters: Names of what it is called with.
        types: Classes of what it is called with, where annotations are to be checked.
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
    check_annotations(role, handler, types)


def check_annotations(role: str, handler: Callable[..., Any], given_types: Sequence[type]) -> None:
    """Check that no parameter is annotated with a class that the handler is never called with.

    Raises:
        TypeError: One is; the message names the file and line of the handler.
    """
    parameters = inspect.signature(handler).parameters.values() if given_types else ()
    for parameter, given in zip(parameters, given_types, strict=False):
        annotated = _class_of(parameter.annotation, handler)
        if annotated is None or issubclass(given, annotated) or issubclass(annotated, given):
            continue
        where = location_of(inspect.unwrap(_function_of(handler)))
        name = parameter.name if given is str else given.__name__.lower()
        text = ", and read `turn.text`" if annotated is str and given.__name__ == "Turn" else ""
        raise TypeError(
            f"{where}: a {role} is called with a {given.__name__}, but its parameter `{parameter.name}` is annotated "
            f"with {annotated.__name__}; write `{name}: {given.__name__}`{text}"
        )


def _class_of(annotation: Any, handler: Callable[..., Any]) -> type | None:
    """Return the class that an annotation names; none if it is not a class, is a protocol, or cannot be evaluated."""
    if isinstance(annotation, str):
        try:
            # The text is the author's own annotation, as in `typing.get_type_hints`, which fails for all if one fails.
            annotation = eval(annotation, getattr(inspect.unwrap(_function_of(handler)), "__globals__", {}))  # noqa: S307
        except Exception:  # names that only type checkers import
            return None
    annotation = typing.get_origin(annotation) or annotation
    not_classes = (inspect.Parameter.empty, typing.Any, typing.Annotated, types.UnionType)
    is_class = isinstance(annotation, type) and annotation not in not_classes
    return annotation if is_class and not getattr(annotation, "_is_protocol", False) else None


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


def stop_reason_of(returned: object, handler: Callable[..., Any]) -> str:
    """Return the stop reason that a handler of prompts returned: `end_turn` for nothing.

    Raises:
        InternalError: It returned something else; the message names its file and line.
    """
    if returned is None:
        return "end_turn"
    if isinstance(returned, str) and returned in STOP_REASONS:
        return returned
    where = location_of(inspect.unwrap(_function_of(handler)))
    _log.error("%s returned %s, which is not a stop reason", where, shorten(repr(returned), 200))
    hint = "; to answer with text, write `await turn.say(…)`" if isinstance(returned, str) else ""
    raise InternalError(
        f"{where} returned a value of type {type(returned).__name__}, but a handler of prompts must return None or a "
        f"stop reason ({', '.join(STOP_REASONS)}){hint}"
    )


def wrong_answer(function: Callable[..., Any], verb: str, value: object, line: int | None = None) -> InternalError:
    """Return the error for a function that answers prompts and `returned` or `yielded` something else than text.

    Args:
        function: The function, whose file and line the message names.
        verb: What it did.
        value: What it returned or yielded.
        line: The line of the `yield`, if it is known.
    """
    where = location_of(inspect.unwrap(_function_of(function)))
    done = f"{verb}{f' at line {line}' if line else ''}"
    _log.error("%s %s %s, which is neither text nor content", where, done, shorten(repr(value), 200))
    nothing = "" if verb == "yielded" else ", or nothing"
    return InternalError(
        f"{where} {done} a value of type {type(value).__name__}, but a function that answers prompts must give a "
        f"string or content{nothing}: write `str(…)` to answer with its text"
    )


def exit_error(role: str, error: SystemExit) -> InternalError:
    """Log the line on which a handler called `sys.exit()`; return the error for the client."""
    _log.error("the %s raised SystemExit, reference %s", role, reference_of(error), exc_info=error)
    return InternalError(f"the {role} raised {text_for_peer(error, debug=False)}")


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


# --- values: kinds, statuses, severities, stop reasons


def check_tool_call(kind: object = None, status: object = None) -> None:
    """Check kind and status of a tool call, where they are given.

    Raises:
        ValueError: One of them is unknown; the message names the known ones.
    """
    if kind is not None and kind not in TOOL_KINDS:
        raise _unknown("kind of a tool call", kind, TOOL_KINDS)
    if status is not None and status not in TOOL_STATUSES:
        raise _unknown("status of a tool call", status, TOOL_STATUSES)


def check_step(status: object, priority: object) -> None:
    """Check status and priority of a step of a plan; raises `ValueError` with the known ones."""
    if status not in _STEP_STATUSES:
        raise _unknown("status of a plan's step", status, _STEP_STATUSES)
    if priority not in _PRIORITIES:
        raise _unknown("priority of a plan's step", priority, _PRIORITIES)


def check_compaction(status: object) -> None:
    """Check the status of a compaction; raises `ValueError` with the known ones."""
    if status not in COMPACTION_STATUSES:
        raise _unknown("status of a compaction", status, COMPACTION_STATUSES)


def check_stop_reason(reason: object) -> None:
    """Check a stop reason; raises `ValueError` with the known ones."""
    if reason not in STOP_REASONS:
        raise _unknown("stop reason", reason, STOP_REASONS)


def check_severity(severity: object) -> None:
    """Check the severity of a notice; raises `ValueError` with the known ones."""
    if severity not in SEVERITIES:
        raise _unknown("severity", severity, SEVERITIES)


def _unknown(role: str, value: object, known: Sequence[str]) -> ValueError:
    from duologue.suggestion import suggestion

    near = suggestion(value, known) if isinstance(value, str) else ""
    return ValueError(f"{value!r} is not a {role}; use one of {', '.join(known)}{near}")
