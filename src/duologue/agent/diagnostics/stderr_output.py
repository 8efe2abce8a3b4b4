"""Output for the author of an agent on stderr: tracebacks without the frames of this library, and more in development.

`duologue dev` sets the variable `DUOLOGUE_DEV` of the agent's process: `print` names the line it stands on, a coroutine
that was never awaited the line that made it.
"""

from __future__ import annotations

import builtins
import io
import logging
import os
import sys
from pathlib import Path
from traceback import StackSummary, TracebackException
from types import TracebackType
from typing import Any, TypeAlias

VARIABLE = "DUOLOGUE_DEV"

_PACKAGE = str(Path(__file__).parents[2])

_ExceptionInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

MOST_FRAMES = 5
"""Frames that are kept of the call that made a coroutine: enough to leave out those of a library."""


def is_development() -> bool:
    """Return True if the agent runs under `duologue dev`."""
    return bool(os.environ.get(VARIABLE))


def show_mistakes() -> None:
    """Name the line of every `print`, and of every coroutine that was never awaited, in the whole process."""
    if not isinstance(builtins.print, _LocatedPrint):
        builtins.print = _LocatedPrint()
        sys.set_coroutine_origin_tracking_depth(MOST_FRAMES)


class _LocatedPrint:
    """A `print` that writes to stderr, as stdout belongs to the protocol, and names its line."""

    def __init__(self) -> None:
        self._print = builtins.print
        self._is_line_begun = False

    def __call__(self, *values: object, file: Any = None, **options: Any) -> None:
        target = sys.stdout if file is None else file
        if target not in (sys.__stdout__, sys.stderr) or (file is not None and file is sys.stderr):
            self._print(*values, file=target, **options)
            return
        text = io.StringIO()
        self._print(*values, file=text, **options)
        frame = sys._getframe(1)
        where = "" if self._is_line_begun else f"print at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}: "
        sys.stderr.write(where + text.getvalue())
        sys.stderr.flush()
        self._is_line_begun = not text.getvalue().endswith("\n")


class TracebackFormatter(logging.Formatter):
    """A formatter of log records that leaves out the library's frames, unless there are no others."""

    def formatException(self, ei: _ExceptionInfo) -> str:  # noqa: N802  # the name of the base class
        """Format an exception and its causes without the library's frames."""
        if ei[0] is None:
            return super().formatException(ei)
        described = TracebackException(ei[0], ei[1], ei[2])
        _shorten(described)
        return "".join(described.format()).rstrip("\n")


def _shorten(described: TracebackException) -> None:
    own = [frame for frame in described.stack if not frame.filename.startswith(_PACKAGE)]
    if own:
        described.stack = StackSummary.from_list(own)
    for other in (described.__cause__, described.__context__, *(described.exceptions or ())):
        if other is not None:
            _shorten(other)
