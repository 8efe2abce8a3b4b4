"""Find methods of a turn that were called without `await`: nothing was sent, so the turn fails and names the line."""

from __future__ import annotations

import linecache
import sys
import warnings
from pathlib import Path
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any

from duologue.agent.diagnostics.misused_results import record_mistake

if TYPE_CHECKING:
    from duologue.agent.turn import Turn

_HOOK = "_warn_unawaited_coroutine"
"""The function of `warnings` that the interpreter calls with a coroutine that was never awaited."""

_PACKAGE = str(Path(__file__).parents[2])


def watch_unawaited() -> None:
    """Record calls without `await` in their turns, from now on and in the whole process.

    The interpreter reports them itself, so that calls with `await` cost nothing more. Without its hook it still prints
    its own warning.
    """
    warn = getattr(warnings, _HOOK, None)
    if warn is None or hasattr(warn, "is_watching_turns"):
        return

    def record(coroutine: Any) -> None:
        turn, frame = _turn_of(coroutine), _caller()
        if turn is None:
            _warn(coroutine, frame)
            return
        name = coroutine.__name__
        file, line = _location_of_call(coroutine, frame)
        record_mistake(turn, f"`{name}` was called without `await`", file, line, f"await ….{name}(…)")

    record.is_watching_turns = True  # type: ignore[attr-defined]  # marks the hook, so that it is set once
    setattr(warnings, _HOOK, record)


def _caller() -> FrameType | None:
    """Return the frame in which a coroutine was dropped; none if its last frame is just being left."""
    try:
        return sys._getframe(2)
    except ValueError:
        return None


def _warn(coroutine: Any, frame: FrameType | None) -> None:
    """Warn as the interpreter does, which would name the line of its caller: this module."""
    file, line = ("sys", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    if coroutine.cr_origin:
        file, line = coroutine.cr_origin[0][:2]
    message = f"coroutine {coroutine.__qualname__!r} was never awaited"
    registry: dict[Any, Any] = {} if frame is None else frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, RuntimeWarning, file, line, registry=registry)


def _turn_of(coroutine: Any) -> Turn[Any] | None:
    """Return the turn whose method made the coroutine; None for every other coroutine."""
    if not isinstance(coroutine, CoroutineType) or not coroutine.cr_code.co_filename.startswith(_PACKAGE):
        return None
    from duologue.agent.files import Files
    from duologue.agent.session import Session
    from duologue.agent.terminal import TerminalHandle
    from duologue.agent.tool_call import ToolCallHandle
    from duologue.agent.turn import Turn
    from duologue.agent.turns.plan_progress import PlanProgress

    owner = None if coroutine.cr_frame is None else coroutine.cr_frame.f_locals.get("self")
    match owner:
        case Turn():
            return owner  # pyright: ignore[reportUnknownVariableType]
        case ToolCallHandle() | PlanProgress():
            return owner._turn
        case Session():
            return owner._prompts.running_turn
        case Files() | TerminalHandle():
            return owner._session._prompts.running_turn
        case _:
            return None


def _location_of_call(coroutine: Any, frame: FrameType | None) -> tuple[str, int]:
    """Return file and line of the call; no line if the coroutine was stored in a variable and dropped elsewhere."""
    for file, line, _ in coroutine.cr_origin or ():  # in development: `sys.set_coroutine_origin_tracking_depth`
        if not file.startswith(_PACKAGE):
            return file, line
    if frame is None:
        return "", 0
    file, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(file, line)
    is_call = not file.startswith(_PACKAGE) and (not source or coroutine.__name__ in source)
    return (file, line) if is_call else ("", 0)
