"""Find methods of a turn that were called without `await`: nothing was sent, so the turn fails and names the line."""

from __future__ import annotations

import linecache
import logging
import sys
import warnings
from pathlib import Path
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duologue.agent.turn import Turn

_log = logging.getLogger("duologue.agent")

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
        turn = _turn_of(coroutine)
        if turn is None or turn._is_over:
            _warn(coroutine, sys._getframe(1))
            return
        name = coroutine.__name__
        file, line = _location_of_call(coroutine, sys._getframe(1))
        where = f"at {Path(file).name}:{line}" if line else "(`python -X dev` shows the line)"
        turn._unawaited = turn._unawaited or f"`{name}` was called without `await` {where}; write `await ….{name}(…)`"
        _log.error("`%s` was called without `await`, so nothing was sent%s", name, f": {file}:{line}" if line else "")

    record.is_watching_turns = True  # type: ignore[attr-defined]  # marks the hook, so that it is set once
    setattr(warnings, _HOOK, record)


def _warn(coroutine: Any, frame: FrameType) -> None:
    """Warn as the interpreter does, which would name the line of its caller: this module."""
    file, line = coroutine.cr_origin[0][:2] if coroutine.cr_origin else (frame.f_code.co_filename, frame.f_lineno)
    message = f"coroutine {coroutine.__qualname__!r} was never awaited"
    registry = frame.f_globals.setdefault("__warningregistry__", {})
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

    owner = None if coroutine.cr_frame is None else coroutine.cr_frame.f_locals.get("self")
    match owner:
        case Turn():
            return owner  # pyright: ignore[reportUnknownVariableType]
        case ToolCallHandle():
            return owner._turn
        case Session():
            return owner._prompts.running_turn
        case Files() | TerminalHandle():
            return owner._session._prompts.running_turn
        case _:
            return None


def _location_of_call(coroutine: Any, frame: FrameType) -> tuple[str, int]:
    """Return file and line of the call; no line if the coroutine was stored in a variable and dropped elsewhere."""
    if coroutine.cr_origin:  # tracked in development: `sys.set_coroutine_origin_tracking_depth`
        file, line, _ = coroutine.cr_origin[0]
        return file, line
    file, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(file, line)
    is_call = not file.startswith(_PACKAGE) and (not source or coroutine.__name__ in source)
    return (file, line) if is_call else ("", 0)
