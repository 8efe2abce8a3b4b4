"""Endpoints for the connections of a client under test: a program that it starts as its agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import socket
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from duologue.conformance.case import CaseTransport
from duologue.conformance.client_side import agent_stub
from duologue.conformance.raw_peer import Json
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport
from duologue.transports.stdio.socket import SocketTransport

MAX_WAITING = 16
"""Connections of the client that may wait for the case."""
LOGIN_ARGUMENT = "duologue-check-login"
"""An argument with which the program is a login instead of a connection."""
MAX_GREETING = 64 * 1024
END_SECONDS = 5.0
READ_AHEAD = 64 * 1024
"""Bytes that are read before the case asks for them; few, so that a case can read slowly."""


class RawSocketTransport(SocketTransport):
    """Frames to and from a client, and bytes that are not frames."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._read_ahead = READ_AHEAD

    def discard(self) -> None:
        """Close a connection that was never entered."""
        self._socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Write bytes as they are; the caller adds line ends.

        Raises:
            ConnectionLost: The client no longer reads.
        """
        self._flush_scheduled()
        self._write(data)


class Endpoint(ABC):
    """Receives the connections of a client.

    Attributes:
        transport: How the client reaches it.
        token: What a client must send to be let in; empty if nothing.
    """

    transport: CaseTransport = "stdio"
    token = ""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Transport] = asyncio.Queue(MAX_WAITING)

    @property
    @abstractmethod
    def address(self) -> str:
        """The word that replaces `{agent}` in a command."""

    async def next(self) -> Transport:
        """Wait for the client's next connection; the transport is not yet entered."""
        return await self._waiting.get()


class StdioEndpoint(Endpoint):
    """A program for the client to start, whose stdin and stdout lead here.

    Args:
        directory: An empty directory for the program and the socket.

    Attributes:
        program: The program, one word that a client can start as an agent.
        logins: Arguments and environment of each start as a login.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.program = directory / "agent"
        self.logins: asyncio.Queue[Json] = asyncio.Queue(MAX_WAITING)
        self._socket = directory / "agent.socket"
        self._listener: socket.socket | None = None
        self._scope: TaskScope | None = None

    async def __aenter__(self) -> Self:
        stub = [sys.executable, "-I", "-S", str(Path(agent_stub.__file__)), str(self._socket)]
        self.program.write_text(f'#!/bin/sh\nexec {shlex.join(stub)} "$@"\n', "utf-8")
        self.program.chmod(0o700)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind(str(self._socket))
        self._socket.chmod(0o600)
        self._listener.listen(MAX_WAITING)
        self._scope = TaskScope()
        self._scope.start(self._accept(self._listener))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._scope is not None:
            await self._scope.cancel(END_SECONDS)
        if self._listener is not None:
            self._listener.close()
        while not self._waiting.empty():
            waiting = self._waiting.get_nowait()
            if isinstance(waiting, RawSocketTransport):
                waiting.discard()

    @property
    def address(self) -> str:
        """Path of the program."""
        return str(self.program)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listener)
            greeting = await self._read_line(connection)
            started: Json = {}
            with contextlib.suppress(ValueError):
                started = json.loads(greeting)
            if LOGIN_ARGUMENT in started.get("arguments", []):
                with contextlib.suppress(asyncio.QueueFull):
                    self.logins.put_nowait(started)
                connection.close()  # which ends the program with the exit code 0
            else:
                await self._waiting.put(RawSocketTransport(connection))

    async def _read_line(self, connection: socket.socket) -> bytes:
        loop, line = asyncio.get_running_loop(), b""
        while not line.endswith(b"\n") and len(line) < MAX_GREETING:
            byte = await loop.sock_recv(connection, 1)  # one by one: the bytes after it belong to the client
            if not byte:
                break
            line += byte
        return line
