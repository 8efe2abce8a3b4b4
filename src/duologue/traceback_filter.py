"""Leave out the frames of libraries from tracebacks that an agent writes: of duologue, asyncio and what adapters serve.

The agent may use any logging, any version and any installation of the library, so the frames are found in the text.
"""

from __future__ import annotations

import re
from pathlib import Path

_FRAME = re.compile(r'(?P<margin>[ |]*)File "(?P<file>.*)", line \d+(?P<function>, in .*)?$')
_BLOCK = re.compile(r"[ |+-]*((Exception Group )?Traceback|Coroutine created at) \(most recent call last\):?$")
_PACKAGE = str(Path(__file__).parent)
_SERVED = r"pydantic_(ai|graph|core)|lang(graph|chain|chain_core|smith)"
_LIBRARY = re.compile(
    rf"{re.escape(_PACKAGE)}/|<frozen |.*/site-packages/(duologue|{_SERVED})/"
    r"|.*/python3\.\d+t?/(asyncio/|importlib/|contextlib\.py|runpy\.py)"
)


def is_library(file: str) -> bool:
    """Return True for a source file that the author of an agent cannot change."""
    return _LIBRARY.match(file) is not None


class TracebackFilter:
    """Passes on the lines of a stream, without the frames in tracebacks that the author of an agent cannot change."""

    def __init__(self) -> None:
        self._margin: str | None = None  # before `File` of the frame that is being left out
        self._left_out = 0
        self._has_shown = False

    def pass_on(self, line: str) -> list[str]:
        """Return what to show for the next line: the line, nothing, or the line after a note about missing frames."""
        frame = _FRAME.match(line)
        if frame is not None:
            # A syntax error names no function, and is always shown.
            is_left_out = frame["function"] is not None and is_library(frame["file"])
            self._margin = frame["margin"] if is_left_out else None
            self._left_out += is_left_out
            self._has_shown |= not is_left_out
            return [] if is_left_out else [line]
        if self._margin is not None and line.startswith((f"{self._margin}  ", f"{self._margin}[Previous line ")):
            return []
        count, self._margin, self._left_out = self._left_out, None, 0
        has_shown, self._has_shown = self._has_shown, self._has_shown and not _BLOCK.match(line)
        return [line] if has_shown or not count else [f"  ({count} frames of libraries left out)", line]


def trim_tracebacks(text: str) -> str:
    """Return a text without the frames of libraries in its tracebacks."""
    trim = TracebackFilter()
    return "\n".join(shown for line in text.split("\n") for shown in trim.pass_on(line))
