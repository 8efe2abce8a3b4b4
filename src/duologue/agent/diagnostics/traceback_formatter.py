"""Log tracebacks as an agent's author wants to read them: without the frames of this library."""

from __future__ import annotations

import logging
from pathlib import Path
from traceback import StackSummary, TracebackException
from types import TracebackType
from typing import TypeAlias

_PACKAGE = str(Path(__file__).parents[2])

_ExceptionInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


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
