"""The directory of the daemon: its socket, the lock of which one daemon at a time is the holder, and its log."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path

from duologue.errors import StartError
from duologue.private_files import FILE_MODE, make_private_directory, user_directory

if sys.platform != "win32":
    import fcntl

MAX_SOCKET_PATH = 100
"""Bytes of a path that every system accepts for a socket."""

_CREDENTIALS = struct.Struct("3i")
"""`struct ucred` of Linux: the ids of the process, the user and the group."""

_BSD_CREDENTIALS_BYTES = 76
"""Size of `struct xucred` of macOS and FreeBSD, whose second number is the id of the user."""


class RuntimeDirectory:
    """A directory that only its owner may use.

    Raises:
        StartError: It cannot be made, belongs to another user, other users may access it, or its path is too long.
    """

    def __init__(self, path: Path | None = None) -> None:
        if sys.platform == "win32":
            raise StartError("there is no daemon on Windows, which has no sockets that only their owner can reach")
        self.path = path or user_directory("XDG_RUNTIME_DIR", ".local/share") / "daemon"
        self.socket = self.path / "socket"
        self.log = self.path / "log"
        try:
            make_private_directory(self.path)
            info = self.path.lstat()
        except OSError as error:
            raise StartError(f"cannot make the directory {str(self.path)!r}: {error.strerror}") from None
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) & 0o077:
            raise StartError(
                f"{str(self.path)!r} must be a directory that only you may use; run: chmod 700 {self.path}"
            )
        if len(os.fsencode(self.socket)) > MAX_SOCKET_PATH:
            raise StartError(f"the path {str(self.socket)!r} is too long for a socket: set XDG_RUNTIME_DIR")

    def lock(self) -> int | None:
        """Become the only daemon; return the descriptor that means so while it is open, None if there is another."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def listen(self, backlog: int) -> socket.socket:
        """Listen on the socket, in the place of a daemon that was killed; the caller holds the lock."""
        with suppress(FileNotFoundError):
            self.socket.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setblocking(False)
        # No other user can enter the directory, so the mode may be set after the socket was made.
        listener.bind(str(self.socket))
        self.socket.chmod(FILE_MODE)
        listener.listen(backlog)
        return listener

    def connect(self) -> socket.socket:
        """Connect to the daemon.

        Raises:
            OSError: There is none, or it belongs to another user.
        """
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(5.0)
            connected.connect(str(self.socket))
            if peer_user(connected) != os.geteuid():
                raise PermissionError("the daemon belongs to another user")
            connected.setblocking(False)
        except BaseException:
            connected.close()
            raise
        return connected


def peer_user(connected: socket.socket) -> int | None:
    """Return the id of the user of the process at the other end; None if the system does not say it."""
    if hasattr(socket, "SO_PEERCRED"):
        data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(data)[1])
    option = getattr(socket, "LOCAL_PEERCRED", None)
    if option is None:
        return None
    data = connected.getsockopt(0, option, _BSD_CREDENTIALS_BYTES)
    return int.from_bytes(data[4:8], sys.byteorder)
