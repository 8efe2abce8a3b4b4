"""Open a file descriptor as its kind requires: in the event loop for pipes and sockets, in a thread otherwise."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import FileIO

if sys.platform != "win32":
    import fcntl
    import termios

from duologue.transports.stdio.thread_io import ThreadReader, ThreadWriter

READ_SIZE = 64 * 1024
"""The size of a pipe on Linux. asyncio reads four times as much, and glibc maps and unmaps a buffer of that size for
every single read, which takes longer than everything else in a small response."""

PIPE_SIZE = 256 * 1024
"""Capacity of a busy pipe: four times fewer switches between the two processes than with Linux's default. A user may
have 64 MiB in all pipes together, so not more."""


def enlarge_pipe(fd: int) -> None:
    """Enlarge the pipe behind `fd`, if the system allows it."""
    if sys.platform == "linux":
        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)


async def open_reader(fd: int, protocol: asyncio.Protocol) -> asyncio.ReadTransport:
    """Read `fd`, which now belongs to the returned transport, and pass the data to `protocol`."""
    if _is_pipe(fd):
        with _closed_on_error(os.fdopen(fd, "rb", 0)) as pipe:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        with suppress(AttributeError):  # only in asyncio's own event loops
            transport.max_size = READ_SIZE  # type: ignore[attr-defined]
        return transport
    if _is_stream_socket(fd):
        return await open_duplex(fd, protocol)
    return ThreadReader(fd, protocol)


async def open_writer(fd: int, protocol: asyncio.Protocol) -> asyncio.WriteTransport:
    """Write to `fd`, which now belongs to the returned transport, and report its state to `protocol`."""
    if _is_pipe(fd):
        with _closed_on_error(os.fdopen(fd, "wb", 0)) as pipe:
            transport, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: protocol, pipe)
        return transport
    if _is_stream_socket(fd):
        return await open_duplex(fd, protocol)
    return ThreadWriter(fd, protocol)


@contextmanager
def _closed_on_error(pipe: FileIO) -> Generator[FileIO]:
    """Close a pipe that the event loop could not open, or did not because of a cancellation."""
    try:
        yield pipe
    except BaseException:
        with suppress(OSError):  # uvloop has closed the descriptor, and leaves the file open
            pipe.close()
        raise


async def open_duplex(fd: int, protocol: asyncio.Protocol) -> asyncio.Transport:
    """Read and write a stream socket."""
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: protocol, sock=socket.socket(fileno=fd))
    return transport


def read_rest(reader: asyncio.ReadTransport) -> bytes:
    """Return what a pipe contains at this moment, even if another process still writes to it."""
    pipe = reader.get_extra_info("pipe")
    if pipe is None or reader.is_closing():
        return b""
    size = bytearray(4)
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, size)
    return os.read(pipe.fileno(), int.from_bytes(size, sys.byteorder))


def is_same_socket(one: int, other: int) -> bool:
    """Return whether two descriptors are one stream socket, as under inetd, socat or systemd."""
    return _is_stream_socket(one) and os.path.samestat(os.fstat(one), os.fstat(other))


def _is_pipe(fd: int) -> bool:
    return sys.platform != "win32" and stat.S_ISFIFO(os.fstat(fd).st_mode)


def _is_stream_socket(fd: int) -> bool:
    if sys.platform == "win32" or not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    with socket.socket(fileno=os.dup(fd)) as probe:
        return probe.type == socket.SOCK_STREAM
