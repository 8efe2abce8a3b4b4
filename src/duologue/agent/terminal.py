"""A command that runs while the agent watches: in the client's terminal, or as a child process of the agent."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duologue.conversation.updates import TerminalOutputChunk, TerminalPart, TerminalUpdate
from duologue.conversation.work_state import TerminalExit
from duologue.errors import ConnectionLost, RequestError
from duologue.protocol.client_requests import (
    CreateTerminal,
    GetTerminalOutput,
    KillTerminal,
    ReleaseTerminal,
    WaitForExit,
)
from duologue.protocol.values import TerminalOutputResult

if TYPE_CHECKING:
    from duologue.agent.session import Session
    from duologue.local.commands import RunningCommand


class TerminalHandle(ABC):
    """A running or ended command. Leaving the `async with` that created it ends it, with everything it started.

    Attributes:
        part: Shows the terminal live in a tool call (`tool.show(terminal.part)`); `None` if the client cannot show it.
    """

    part: TerminalPart | None = None

    def __init__(self, session: Session[Any]) -> None:
        self._session = session

    @abstractmethod
    async def output(self) -> TerminalOutputResult:
        """Return the kept output so far, and the exit if the command has ended."""

    @abstractmethod
    async def wait(self) -> TerminalExit:
        """Wait until the command ends."""

    @abstractmethod
    async def kill(self) -> None:
        """Kill the command; its output stays available."""


@asynccontextmanager
async def open_terminal(
    session: Session[Any], argv: list[str], *, cwd: str, env: dict[str, str], limit: int, is_hidden: bool = False
) -> AsyncGenerator[TerminalHandle]:
    """Run a command in the client's terminal if it has one, otherwise as a child process inside the session's roots.

    Args:
        session: The session that it belongs to.
        argv: The program and its arguments.
        cwd: Its working directory.
        env: Variables added to a minimal environment.
        limit: Bytes of output to keep.
        is_hidden: Run it as a child process that the client does not see.

    Raises:
        RequestError: The client rejects it, or the directory is outside the roots.
        StartError: The command does not exist on the agent's machine.
    """
    if is_hidden or not session.client_capabilities.terminals:
        directory = await asyncio.to_thread(session._directories.roots.resolve, cwd)
        can_show = session.client_capabilities.shows_terminals and not is_hidden
        open_own = _open_shown if can_show else _open_hidden
        async with open_own(session, argv, Path(directory), env, limit) as own:
            yield own
        return
    terminal = await _create_in_client(session, argv, cwd, env, limit)
    is_cancelled = False
    try:
        yield terminal
    except asyncio.CancelledError:
        is_cancelled = True
        raise
    finally:
        # protocol/v1/terminals: every terminal that was created is released. A cancelled turn does not wait for that.
        releasing = session._cleanup_tasks.start(terminal.release())
        if not is_cancelled:
            await asyncio.shield(releasing)


@asynccontextmanager
async def _open_hidden(
    session: Session[Any], argv: list[str], cwd: Path, env: dict[str, str], limit: int
) -> AsyncGenerator[TerminalHandle]:
    from duologue.local.commands import RunningCommand  # with all that starts processes: later than the first session

    async with await RunningCommand.start(argv, cwd=cwd, env=env, output_limit=limit) as command:
        yield _OwnTerminal(session, command)


@asynccontextmanager
async def _open_shown(
    session: Session[Any], argv: list[str], cwd: Path, env: dict[str, str], limit: int
) -> AsyncGenerator[TerminalHandle]:
    """Run a child process that the client shows and may cancel."""
    import shlex

    from duologue.local.commands import RunningCommand

    terminal_id = session.new_id("term")
    stream = TerminalStream(session, terminal_id, limit)
    command = await RunningCommand.start(argv, cwd=cwd, env=env, output_limit=limit, on_output=stream.write)
    sending: asyncio.Task[None] | None = None
    try:
        await session.update(
            TerminalUpdate(terminal_id=terminal_id, command=shlex.join(argv), cwd=str(cwd), can_cancel=True)
        )
        session._cancellable[terminal_id] = command.kill
        sending = session._cleanup_tasks.start(stream.send())
        yield _ShownTerminal(session, command, stream)
    finally:
        session._cancellable.pop(terminal_id, None)
        await command.release()
        if sending is not None:
            sending.cancel()
        await stream.close(_exit_of(command))


async def _create_in_client(
    session: Session[Any], argv: list[str], cwd: str, env: dict[str, str], limit: int
) -> _ClientTerminal:
    def release(terminal_id: str) -> None:
        """Release a terminal that was created after the wait for it was cancelled."""
        session._cleanup_tasks.start(_ClientTerminal(session, terminal_id).release())

    command, *args = argv
    request = CreateTerminal(
        session_id=session.id, command=command, args=args, env=env, cwd=cwd, output_byte_limit=limit
    )
    return _ClientTerminal(session, await session._client.ask(request, on_late=release))


class _ClientTerminal(TerminalHandle):
    def __init__(self, session: Session[Any], terminal_id: str) -> None:
        super().__init__(session)
        self.part = TerminalPart(terminal_id)
        self._client = session._client
        self._session_id = session.id
        self._id = terminal_id

    async def output(self) -> TerminalOutputResult:
        return await self._client.ask(GetTerminalOutput(session_id=self._session_id, terminal_id=self._id))

    async def wait(self) -> TerminalExit:
        return await self._client.ask(WaitForExit(session_id=self._session_id, terminal_id=self._id))

    async def kill(self) -> None:
        await self._client.ask(KillTerminal(session_id=self._session_id, terminal_id=self._id))

    async def release(self) -> None:
        with suppress(RequestError, ConnectionLost):
            await self._client.ask(ReleaseTerminal(session_id=self._session_id, terminal_id=self._id))


class _OwnTerminal(TerminalHandle):
    def __init__(self, session: Session[Any], command: RunningCommand) -> None:
        super().__init__(session)
        self._command = command

    async def output(self) -> TerminalOutputResult:
        text, truncated = self._command.output()
        return TerminalOutputResult(output=text, truncated=truncated, exit=_exit_of(self._command))

    async def wait(self) -> TerminalExit:
        ended = await self._command.wait()
        return TerminalExit(exit_code=ended.exit_code, signal=ended.signal)

    async def kill(self) -> None:
        await self._command.kill()


class _ShownTerminal(_OwnTerminal):
    def __init__(self, session: Session[Any], command: RunningCommand, stream: TerminalStream) -> None:
        super().__init__(session, command)
        self.part = TerminalPart(stream.terminal_id)
        self._stream = stream

    async def wait(self) -> TerminalExit:
        ended = await super().wait()
        await self._stream.close(ended)
        return ended


def _exit_of(command: RunningCommand) -> TerminalExit | None:
    ended = command.exit
    return None if ended is None else TerminalExit(exit_code=ended.exit_code, signal=ended.signal)


class TerminalStream:
    """Sends the output of a child process to the client as fast as the client reads it.

    Args:
        session: The session that shows the terminal.
        terminal_id: The id of the terminal.
        limit: Bytes that may wait for a slow client; beyond that the oldest output is dropped.
    """

    def __init__(self, session: Session[Any], terminal_id: str, limit: int) -> None:
        self.terminal_id = terminal_id
        self._session = session
        self._limit = limit
        self._pending = bytearray()
        self._has_dropped = False
        self._is_closed = False
        self._has_output = asyncio.Event()
        self._order = asyncio.Lock()

    def write(self, data: bytes) -> None:
        """Queue output of the command."""
        self._pending += data
        if len(self._pending) > self._limit:
            del self._pending[: len(self._pending) - self._limit]
            self._has_dropped = True
        self._has_output.set()

    async def send(self) -> None:
        """Send queued output until cancelled."""
        while True:
            await self._has_output.wait()
            await self._flush()

    async def close(self, ended: TerminalExit | None) -> None:
        """Send the remaining output and the exit of the command. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # a cancelled turn must not wait for a slow client
            await self._session._send_final_update(TerminalUpdate(terminal_id=self.terminal_id, exit=ended))
            return
        await self._flush()
        await self._session.update(TerminalUpdate(terminal_id=self.terminal_id, exit=ended))

    async def _flush(self) -> None:
        async with self._order:
            self._has_output.clear()
            while self._pending:
                data, self._pending = bytes(self._pending), bytearray()
                if self._has_dropped:
                    self._has_dropped = False
                    await self._session.update(TerminalUpdate(terminal_id=self.terminal_id, output=data))
                else:
                    await self._session.update(TerminalOutputChunk(terminal_id=self.terminal_id, data=data))
