"""All that the command line writes. Text of an agent is data on its way through here: it never acts on a terminal.

`protect_streams` puts a `SafeOutput` in the place of `sys.stdout` and of `sys.stderr`. Whatever is written to them (by
a command, a log handler, a traceback) passes through `sanitize`; styles are given next to the text, never inside it.
Only what composes escape sequences of its own (`words`, `fancy`) takes the stream beneath, `SafeOutput.trusted`.
"""

from __future__ import annotations

import io
import os
import sys
from codecs import getincrementaldecoder
from enum import IntEnum
from typing import Any, TextIO

from duologue.jsonrpc.framing import to_ascii
from duologue.sanitize import sanitize

__all__ = ["SafeOutput", "Style", "protect_streams", "safe", "say"]


class Style(IntEnum):
    """How text of ours looks, by its number in ECMA-48."""

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
        stream: Where it goes.
        is_exact: Write unchanged text while the stream is no terminal: for data that another program reads.

    Attributes:
        trusted: The stream beneath, for text that was sanitized and carries escape sequences of our own.
        has_colour: Whether styles are shown: https://no-color.org, and terminals without them.
    """

    def __init__(self, stream: TextIO, *, is_exact: bool = False) -> None:
        self.trusted = stream
        self._is_terminal = stream.isatty()
        self._is_exact = is_exact and not self._is_terminal
        self._decoder = getincrementaldecoder("utf-8")("replace")
        has_styles = os.environ.get("TERM") not in (None, "", "dumb")
        self.has_colour = self._is_terminal and has_styles and not os.environ.get("NO_COLOR")

    def write(self, text: str, style: Style = Style.PLAIN) -> int:
        """Write text, sanitized, in this style."""
        shown = text if self._is_exact else sanitize(text)
        is_styled = self.has_colour and style is not Style.PLAIN
        self.trusted.write(f"\x1b[{style:d}m{shown}\x1b[{Style.PLAIN:d}m" if is_styled else shown)
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Pass on what another program printed: byte for byte, on a terminal as sanitized text."""
        if self._is_terminal:
            self.write(self._decoder.decode(data))
        else:
            self.trusted.flush()
            self.trusted.buffer.write(data)
        self.flush()

    def write_json(self, value: Any) -> None:
        """Write a value as one line of JSON; on a terminal in ASCII, with all else escaped."""
        import msgspec  # `--help` does without

        line = msgspec.json.encode(value).replace(b"\n", b" ").replace(b"\r", b" ")  # a frame may have come in lines
        self.trusted.write((to_ascii(line) if self._is_terminal else line).decode() + "\n")
        self.flush()

    def flush(self) -> None:
        """Let all of it leave."""
        self.trusted.flush()

    def close(self) -> None:
        """Leave the stream beneath open: it belongs to the interpreter."""

    def writable(self) -> bool:
        """Say yes."""
        return True

    def isatty(self) -> bool:
        """Say whether this is a terminal."""
        return self._is_terminal

    def fileno(self) -> int:
        """Return the descriptor beneath."""
        return self.trusted.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override] # an attribute there, asked of the stream here
        """The encoding of the stream beneath."""
        return self.trusted.encoding


def safe(stream: TextIO, *, is_exact: bool = False) -> SafeOutput:
    """Return the stream itself if it is safe already; else a safe one above it."""
    return stream if isinstance(stream, SafeOutput) else SafeOutput(stream, is_exact=is_exact)


def protect_streams() -> None:
    """Make `sys.stdout` and `sys.stderr` safe, for everything in this process that writes to them.

    Off a terminal stdout stays exact, since programs read it. What their encoding lacks is replaced.
    """
    for name, is_exact in (("stdout", True), ("stderr", False)):
        stream: TextIO | None = getattr(sys, name)
        if stream is None or isinstance(stream, SafeOutput):
            continue
        setattr(sys, name, SafeOutput(stream, is_exact=is_exact))
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(text: str, style: Style = Style.PLAIN) -> None:
    """Write to stderr, at once."""
    out = safe(sys.stderr)
    out.write(text, style)
    out.flush()
