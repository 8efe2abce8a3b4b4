"""Write all output of the command line, sanitized: text from an agent can never control the terminal.

`protect_streams` replaces `sys.stdout` and `sys.stderr` with a `SafeOutput`. Everything written to them (by a command,
a log handler, a traceback) passes through `sanitize`; styles are passed next to the text, never inside it. Only modules
that write their own escape sequences (such as `markdown`) use the wrapped stream `SafeOutput.trusted`.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from codecs import getincrementaldecoder
from enum import IntEnum

from duologue.sanitize import sanitize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

WIDTH = 80
"""Columns of a terminal that does not tell."""


class Style(IntEnum):
    """Text style, by its ECMA-48 number."""

    PLAIN = 0
    BOLD = 1
    DIM = 2
    RED = 31
    GREEN = 32
    YELLOW = 33
    CYAN = 36


class SafeOutput(io.TextIOBase):
    """A text stream that sanitizes what is written to it.

    Args:
        stream: The stream to write to.
        is_exact: Write text unchanged if the stream is not a terminal: for data that another program reads.

    Attributes:
        trusted: The wrapped stream, for text that is already sanitized and contains our own escape sequences.
        has_symbols: The locale names UTF-8, so that symbols are shown as they are.
        has_colour: Styles are shown; not with NO_COLOR (https://no-color.org) or on terminals without them.
        is_line_open: The last line that was written has not ended.
    """

    def __init__(self, stream: TextIO, *, is_exact: bool = False) -> None:
        self.trusted = stream
        self.is_line_open = False
        self._is_terminal = stream.isatty()
        self._is_exact = is_exact and not self._is_terminal
        self._decoder = getincrementaldecoder("utf-8")("replace")
        locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
        self.has_symbols = "utf" in locale.lower()
        has_styles = os.environ.get("TERM") not in (None, "", "dumb")
        self.has_colour = self._is_terminal and has_styles and not os.environ.get("NO_COLOR")

    def write(self, text: str, style: Style = Style.PLAIN) -> int:
        """Write text, sanitized, in this style."""
        shown = text if self._is_exact else sanitize(text)
        is_styled = self.has_colour and style is not Style.PLAIN
        self.is_line_open = not shown.endswith("\n") if shown else self.is_line_open
        self.trusted.write(f"\x1b[{style:d}m{shown}\x1b[{Style.PLAIN:d}m" if is_styled else shown)
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Copy output of another program: byte for byte, on a terminal as sanitized text."""
        if self._is_terminal:
            self.write(self._decoder.decode(data))
        else:
            self.trusted.flush()
            self.trusted.buffer.write(data)
        self.flush()

    def write_json(self, value: Any) -> None:
        """Write a value as one line of JSON; on a terminal in ASCII, with everything else escaped."""
        # Not needed for `--help`:
        import msgspec

        from duologue.jsonrpc.framing import to_ascii

        line = msgspec.json.encode(value).replace(b"\n", b" ").replace(b"\r", b" ")  # a raw frame may contain line ends
        self.trusted.write((to_ascii(line) if self._is_terminal else line).decode() + "\n")
        self.flush()

    def draw_line(self, text: str = "") -> None:
        """Show progress on a terminal: replace the line, sanitized, or erase it; the cursor stays in it."""
        self.trusted.write(f"\r\x1b[K{sanitize(text)}")
        self.flush()

    def flush(self) -> None:
        """Flush the wrapped stream."""
        self.trusted.flush()

    def close(self) -> None:
        """Leave the wrapped stream open: it belongs to the interpreter."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return True if this is a terminal."""
        return self._is_terminal

    def fileno(self) -> int:
        """Return the descriptor of the wrapped stream."""
        return self.trusted.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override] # an attribute of the base class
        """The encoding of the wrapped stream."""
        return self.trusted.encoding


def safe(stream: TextIO, *, is_exact: bool = False) -> SafeOutput:
    """Return the stream itself if it is a `SafeOutput`, else one that wraps it."""
    return stream if isinstance(stream, SafeOutput) else SafeOutput(stream, is_exact=is_exact)


def protect_streams() -> None:
    """Sanitize everything that this process writes to `sys.stdout` and `sys.stderr`.

    If stdout is not a terminal it stays exact, since programs read it. Characters its encoding lacks are replaced.
    """
    for name, is_exact in (("stdout", True), ("stderr", False)):
        stream: TextIO | None = getattr(sys, name)
        if stream is None or isinstance(stream, SafeOutput):
            continue
        setattr(sys, name, SafeOutput(stream, is_exact=is_exact))
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def log_to_stderr(logger: str, form: str) -> None:
    """Print the messages of a logger on stderr, in this form and nowhere else."""
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(form))
    log = logging.getLogger(logger)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def say(text: str, style: Style = Style.PLAIN) -> None:
    """Write to stderr and flush it."""
    out = safe(sys.stderr)
    out.write(text, style)
    out.flush()


def end_line() -> None:
    """End the line of stderr that has not ended, as that of a question."""
    if safe(sys.stderr).is_line_open:
        say("\n")


def rewrite_line(text: str, width: int) -> None:
    """Replace the last line on the terminal of stderr by this one, cut to fit into it."""
    out = safe(sys.stderr)
    out.trusted.write("\r\x1b[K")
    out.write(first_columns(sanitize(text).replace("\n", " ").replace("\t", " "), width - 1))
    out.flush()


def first_columns(text: str, columns: int) -> str:
    """Return the beginning of a line that fits into this many columns; a non-ASCII character may take two."""
    for at, character in enumerate(text):
        columns -= 1 if character.isascii() else 2
        if columns < 0:
            return text[:at]
    return text


def terminal_width() -> int:
    """Return the columns of the terminal that questions are shown on."""
    return columns_of(sys.stderr)


def columns_of(stream: TextIO | SafeOutput) -> int:
    """Return the columns of the terminal that a stream is shown on."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def are_same(out: TextIO, err: TextIO) -> bool:
    """Return True if both streams go to the same file or pipe, as after `2>&1`."""
    try:
        first, second = os.fstat(out.fileno()), os.fstat(err.fileno())
    except (OSError, ValueError):
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def is_pipe(stream: TextIO) -> bool:
    """Return True if the stream goes to another program, as after `| cat`."""
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False
