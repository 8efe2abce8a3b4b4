"""This process's own stdin and stdout as a connection: how an agent meets the client that started it.

While it is open nothing else can reach the wire. Descriptor 1 and `sys.stdout` lead to stderr, so a stray `print` or a
child's output is seen but never mistaken for a message; descriptor 0 is empty, so `input()` or a child eats no message.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Self, TextIO

from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES, to_ascii
from duologue.transports.buffered import MAX_QUEUED_BYTES
from duologue.transports.stdio.fd_streams import is_same_socket, open_duplex, open_reader, open_writer
from duologue.transports.stdio.line_stream import InputAndOutput, LineStreamTransport

__all__ = ["StdioTransport"]

HINT = (
    "This program speaks the Agent Client Protocol on its standard input and output: "
    "one JSON message per line. It is meant to be started by an editor or another client. Ctrl-D ends it.\n"
)


class StdioTransport(LineStreamTransport):
    """Frames on stdin and stdout, whatever they are: pipes, sockets, files, a terminal or nothing."""

    def __init__(self, *, max_message_bytes: int = MAX_MESSAGE_BYTES, max_queued_bytes: int = MAX_QUEUED_BYTES) -> None:
        # No limit on how long output may stall: a person may think for an hour.
        super().__init__(max_message_bytes=max_message_bytes, max_queued_bytes=max_queued_bytes)
        self._detour: StdioRedirect | None = None
        self._is_shown = False
        """Frames go to a terminal: their text could act on it."""

    async def __aenter__(self) -> Self:
        self._detour = detour = StdioRedirect()
        self._is_shown = os.isatty(detour.wire_out)
        if os.isatty(detour.wire_in) or self._is_shown:
            with suppress(AttributeError, OSError):
                sys.stderr.write(HINT)
        try:
            if is_same_socket(detour.wire_in, detour.wire_out):
                os.close(detour.wire_in)
                both = await open_duplex(detour.wire_out, InputAndOutput(self))
                self._attach(both, both)
            else:
                reader = await open_reader(detour.wire_in, self._input)
                self._attach(reader, await open_writer(detour.wire_out, self._output))
        except BaseException:
            detour.end()
            raise
        return self

    def send(self, frame: bytes) -> None:
        super().send(to_ascii(frame) if self._is_shown else frame)

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            if self._detour is not None:
                self._detour.end()
                self._detour = None


class StdioRedirect:
    """Keeps descriptors 0 and 1 for the wire alone, and everybody else away from them, until `end()`.

    Attributes:
        wire_in: The real stdin; it belongs to whoever reads it.
        wire_out: The real stdout; it belongs to whoever writes it.
    """

    def __init__(self) -> None:
        # A standard stream that was closed before we came is None, and its descriptor may mean anything by now.
        streams = enumerate((sys.__stdin__, sys.__stdout__))
        self._saved = {fd: os.dup(fd) for fd, stream in streams if stream is not None}
        # On Windows threads read and write, and nobody changes this.
        self._was_blocking = {} if sys.platform == "win32" else {fd: os.get_blocking(fd) for fd in self._saved}
        self.wire_in, self.wire_out = self._wire(0), self._wire(1)
        if 0 in self._saved:
            _point(0, os.open(os.devnull, os.O_RDONLY))
        if 1 in self._saved:
            _point(1, os.open(os.devnull, os.O_WRONLY) if sys.__stderr__ is None else os.dup(2))
        self._stdout: TextIO | None = sys.stdout
        # What was printed before but not flushed must not reach the wire either: it leaves now that the way is changed.
        _flush(self._stdout)
        sys.stdout = sys.stderr

    def _wire(self, fd: int) -> int:
        return os.dup(fd) if fd in self._saved else os.open(os.devnull, os.O_RDWR)

    def end(self) -> None:
        """Give stdin and stdout back as they were."""
        if sys.stdout is sys.stderr and self._stdout is not None:
            sys.stdout = self._stdout
        _flush(self._stdout)
        for fd, saved in self._saved.items():
            if fd in self._was_blocking:
                os.set_blocking(saved, self._was_blocking[fd])
            _point(fd, saved)
        self._saved.clear()


def _point(fd: int, target: int) -> None:
    """Make `fd` mean what `target` means, for our children too, and give up `target`."""
    os.dup2(target, fd)
    os.close(target)


def _flush(stream: TextIO | None) -> None:
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.flush()
