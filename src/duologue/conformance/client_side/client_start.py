"""How the client under test is started and made to cancel: as a command, or by a person."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from duologue.conformance.client_side.endpoints import Endpoint
from duologue.transports.process import environment
from duologue.transports.process.child import Child, ShutdownTimeouts
from duologue.transports.process.transport import TAIL_BYTES, StderrTail
from duologue.transports.stdio.fd_streams import open_reader, read_rest

AGENT_WORD = "{agent}"
TOKEN_WORD = "{token}"  # noqa: S105 - a placeholder in a command
TIMEOUTS = ShutdownTimeouts(after_close=0.0)
"""The client has no input that could be closed, so that it would have no reason to exit."""


class RunningClient(Protocol):
    """A client that was started."""

    @property
    def exit_code(self) -> int | None:
        """Exit code of its process; None while it runs."""

    @property
    def stderr(self) -> str:
        """The end of what it wrote to stderr."""
        ...

    async def exited(self) -> None:
        """Wait until it has ended."""

    def cancel(self) -> None:
        """Make it cancel the turn."""


class ClientStart(Protocol):
    """A way to start the client.

    Attributes:
        is_interactive: True if a person starts it, and one connection serves several cases.
    """

    is_interactive: bool

    def start(
        self, endpoint: Endpoint, directory: Path, *, cancels: bool
    ) -> AbstractAsyncContextManager[RunningClient]:
        """Start the client so that it connects to the endpoint.

        Args:
            endpoint: What it connects to.
            directory: An empty directory for its session, if it takes one.
            cancels: True if it is to cancel a turn.
        """
        ...


class ClientCommand:
    """A client that is started by a command in this directory, once for each connection of a case.

    Args:
        command: The command; `{agent}` stands for the agent.
        cancel_command: A command that sends a prompt and then cancels it by itself. Without one, SIGINT is sent.
    """

    is_interactive = False

    def __init__(self, command: Sequence[str], cancel_command: Sequence[str] = ()) -> None:
        self._command = command
        self._cancel_command = cancel_command

    @contextlib.asynccontextmanager
    async def start(self, endpoint: Endpoint, directory: Path, *, cancels: bool) -> AsyncGenerator[RunningClient]:
        """Start the command, and end its processes with the block.

        Raises:
            StartError: It cannot be started.
        """
        own = bool(cancels and self._cancel_command)
        template = self._cancel_command if own else self._command
        has_token = any(TOKEN_WORD in word for word in template)
        address = endpoint.address if has_token or not endpoint.token else f"{endpoint.address}#token={endpoint.token}"
        command = [word.replace(AGENT_WORD, address).replace(TOKEN_WORD, endpoint.token) for word in template]
        tail = StderrTail(None, TAIL_BYTES)
        read_end, write_end = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        try:
            env = environment.inherited(None)
            child = Child(command, stdin=null, stdout=null, stderr=write_end, env=env, timeouts=TIMEOUTS)
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
            os.close(null)
        reader = await open_reader(read_end, tail)
        try:
            yield _ClientProcess(child, reader, tail, cancels_itself=own)
        finally:
            try:
                await child.stop(lambda: None)
            finally:
                reader.close()


class _ClientProcess:
    def __init__(self, child: Child, reader: asyncio.ReadTransport, tail: StderrTail, *, cancels_itself: bool) -> None:
        self._child = child
        self._reader = reader
        self._tail = tail
        self._cancels_itself = cancels_itself

    @property
    def exit_code(self) -> int | None:
        return self._child.returncode

    @property
    def stderr(self) -> str:
        if rest := read_rest(self._reader):
            self._tail.data_received(rest)
        return str(self._tail)

    async def exited(self) -> None:
        await self._child.exit()

    def cancel(self) -> None:
        """Send SIGINT to the group, as Ctrl-C in a terminal does."""
        if not self._cancels_itself and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGINT)


class InteractiveClient:
    """A client that a person uses, asked to do what the cases need.

    Args:
        say: Called with a sentence that says what to do next.
    """

    is_interactive = True
    exit_code: int | None = None
    stderr = ""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    @contextlib.asynccontextmanager
    async def start(self, endpoint: Endpoint, directory: Path, *, cancels: bool) -> AsyncGenerator[RunningClient]:
        """Leave the start to the person."""
        yield self

    async def exited(self) -> None:
        """Wait without end: the connection shows the end of the client."""
        await asyncio.Event().wait()

    def cancel(self) -> None:
        """Ask for it."""
        self.say("cancel it now")
