"""Frames over this process's own stdin and stdout: how an agent talks to the client that started it.

While the transport is open nothing else reaches the wire. Descriptor 1 and `sys.stdout` lead to stderr, so a stray
`print` or a child's output is never mistaken for a message; descriptor 0 is empty, so that neither `input()` nor a
child consumes a message.
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

HINT = (
    "This program speaks the Agent Client Protocol on its standard input and output: "
    "one JSON message per line. It is meant to be started by an editor or another client. Ctrl-D ends it.\n"
)


class StdioTransport(LineStreamTransport):
    """Frames over stdin and stdout, whether they are pipes, sockets, files, a terminal or closed."""

    def __init__(self, *, max_message_bytes: int = MAX_MESSAGE_BYTES, max_queued_bytes: int = MAX_QUEUED_BYTES) -> None:
        # Output may stall without limit: a person may debug the other process for an hour.
        super().__init__(max_message_bytes=max_message_bytes, max_queued_bytes=max_queued_bytes)
        self._redirect: StdioRedirect | None = None
        self._is_terminal = False
        """Frames go to a terminal, which could interpret their text."""

    async def __aenter__(self) -> Self:
        self._redirect = redirect = StdioRedirect()
        self._is_terminal = os.isatty(redirect.wire_out)
        if os.isatty(redirect.wire_in) or self._is_terminal:
            with suppress(AttributeError, OSError):
                sys.stderr.write(HINT)
        try:
            if is_same_socket(redirect.wire_in, redirect.wire_out):
                os.close(redirect.wire_in)
                both = await open_duplex(redirect.wire_out, InputAndOutput(self))
                self._attach(both, both)
            else:
                reader = await open_reader(redirect.wire_in, self._input)
                self._attach(reader, await open_writer(redirect.wire_out, self._output))
        except BaseException:
            redirect.end()
            raise
        return self

    def send(self, frame: bytes) -> None:
        super().send(to_ascii(frame) if self._is_terminal else frame)

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            if self._redirect is not None:
                self._redirect.end()
                self._redirect = None


class StdioRedirect:
    """Reserve stdin and stdout for the wire, and redirect all other users of them, until `end()`.

    Attributes:
        wire_in: The real stdin; the caller closes it.
        wire_out: The real stdout; the caller closes it.
    """

    def __init__(self) -> None:
        # A standard stream that was closed earlier is None, and its descriptor may have been reused.
        streams = enumerate((sys.__stdin__, sys.__stdout__))
        self._saved = {fd: os.dup(fd) for fd, stream in streams if stream is not None}
        # On Windows threads read and write, so the blocking mode stays.
        self._was_blocking = {} if sys.platform == "win32" else {fd: os.get_blocking(fd) for fd in self._saved}
        self.wire_in, self.wire_out = self._wire(0), self._wire(1)
        if 0 in self._saved:
            _point(0, os.open(os.devnull, os.O_RDONLY))
        if 1 in self._saved:
            _point(1, os.open(os.devnull, os.O_WRONLY) if sys.__stderr__ is None else os.dup(2))
        self._stdout: TextIO | None = sys.stdout
        # Text printed earlier and not flushed must not reach the wire either: it goes to the new target.
        _flush(self._stdout)
        sys.stdout = sys.stderr

    def _wire(self, fd: int) -> int:
        return os.dup(fd) if fd in self._saved else os.open(os.devnull, os.O_RDWR)

    def end(self) -> None:
        """Restore stdin and stdout."""
        if sys.stdout is sys.stderr and self._stdout is not None:
            sys.stdout = self._stdout
        _flush(self._stdout)
        for fd, saved in self._saved.items():
            if fd in self._was_blocking:
                os.set_blocking(saved, self._was_blocking[fd])
            _point(fd, saved)
        self._saved.clear()


def _point(fd: int, target: int) -> None:
    """Make `fd` a copy of `target`, for child processes too, and close `target`."""
    os.dup2(target, fd)
    os.close(target)


def _flush(stream: TextIO | None) -> None:
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.flush()
