"""Show more while an agent is developed: `duologue dev` sets the variable `DUOLOGUE_DEV` of the agent's process.

`print` names the line it stands on, a coroutine that was never awaited the line that made it.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from pathlib import Path
from typing import Any

VARIABLE = "DUOLOGUE_DEV"

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
