"""Leave out the frames of this library and of asyncio from tracebacks that an agent writes to stderr.

The agent may use any logging, any version and any installation of the library, so the frames are found in the text.
"""

from __future__ import annotations

import re
from pathlib import Path

_FRAME = re.compile(r'(?P<margin>[ |]*)File "(?P<file>.*)", line \d+(?P<function>, in .*)?$')
_BLOCK = re.compile(r"[ |+-]*((Exception Group )?Traceback|Coroutine created at) \(most recent call last\):?$")
_PACKAGE = str(Path(__file__).parents[1])
_LIBRARY = re.compile(
    rf"{re.escape(_PACKAGE)}/|<frozen |.*/site-packages/duologue/|.*/python3\.\d+t?/(asyncio|importlib|runpy\.py)"
)


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
            is_library = frame["function"] is not None and _LIBRARY.match(frame["file"]) is not None
            self._margin = frame["margin"] if is_library else None
            self._left_out += is_library
            self._has_shown |= not is_library
            return [] if is_library else [line]
        if self._margin is not None and line.startswith((f"{self._margin}  ", f"{self._margin}[Previous line ")):
            return []
        count, self._margin, self._left_out = self._left_out, None, 0
        has_shown, self._has_shown = self._has_shown, self._has_shown and not _BLOCK.match(line)
        return [line] if has_shown or not count else [f"  ({count} frames of duologue and asyncio left out)", line]


def trim_tracebacks(text: str) -> str:
    """Return a text without the frames of the library in its tracebacks."""
    trim = TracebackFilter()
    return "\n".join(shown for line in text.split("\n") for shown in trim.pass_on(line))
