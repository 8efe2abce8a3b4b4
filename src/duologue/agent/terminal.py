"""A command that runs while the agent watches: in the client's terminal, or as a process of our own."""

from __future__ import annotations

import asyncio
import shlex
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duologue.agent.terminal_stream import TerminalStream
from duologue.conversation.updates import TerminalPart, TerminalUpdate
from duologue.errors import ConnectionLost, RequestError
from duologue.local.commands import RunningCommand
from duologue.protocol.values import TerminalExit, TerminalOutputResult

if TYPE_CHECKING:
    from duologue.agent.session import Session

__all__ = ["TerminalHandle", "open_terminal"]


class TerminalHandle(ABC):
    """A running or ended command. Leaving the `async with` that made it ends it, and what it started.

    Attributes:
        part: Shows it live inside a tool call (`tool.show(terminal.part)`); `None` if it is a process of our own.
    """

    part: TerminalPart | None = None

    @abstractmethod
    async def output(self) -> TerminalOutputResult:
        """What it has printed so far, as far as it was kept, and how it ended if it has."""

    @abstractmethod
    async def wait(self) -> TerminalExit:
        """Until it ends."""

    @abstractmethod
    async def kill(self) -> None:
        """End it; its output stays."""


@asynccontextmanager
async def open_terminal(
    session: Session[Any], argv: list[str], *, cwd: str, env: dict[str, str], limit: int
) -> AsyncGenerator[TerminalHandle]:
    """Run a command in the client's terminal if it has one, else here, inside the session's roots.

    Raises:
        RequestError: The client refuses, or the directory lies outside of the roots.
        StartError: There is no such command here.
    """
    if not session.editor.features.terminals:
        place = await asyncio.to_thread(session.roots.resolve, cwd)
        open_here = _show if session.editor.features.shows_terminals else _hide
        async with open_here(session, argv, Path(place), env, limit) as own:
            yield own
        return
    terminal = await _open_in_editor(session, argv, cwd, env, limit)
    is_cancelled = False
    try:
        yield terminal
    except asyncio.CancelledError:
        is_cancelled = True
        raise
    finally:
        # protocol/v1/terminals: every terminal that was created is released. A cancelled turn does not wait for that.
        releasing = session.cleanup_tasks.start(terminal.release())
        if not is_cancelled:
            await asyncio.shield(releasing)


@asynccontextmanager
async def _hide(
    session: Session[Any], argv: list[str], cwd: Path, env: dict[str, str], limit: int
) -> AsyncGenerator[TerminalHandle]:
    async with await RunningCommand.start(argv, cwd=cwd, env=env, output_limit=limit) as command:
        yield _OwnTerminal(command)


@asynccontextmanager
async def _show(
    session: Session[Any], argv: list[str], cwd: Path, env: dict[str, str], limit: int
) -> AsyncGenerator[TerminalHandle]:
    """A process of our own that the client shows, and may end."""
    terminal_id = session.new_id("term")
    screen = TerminalStream(session, terminal_id, limit)
    command = await RunningCommand.start(argv, cwd=cwd, env=env, output_limit=limit, on_output=screen.write)
    showing: asyncio.Task[None] | None = None
    try:
        await session.update(
            TerminalUpdate(terminal_id=terminal_id, command=shlex.join(argv), cwd=str(cwd), can_cancel=True)
        )
        session.cancellable[terminal_id] = command.kill
        showing = session.cleanup_tasks.start(screen.show())
        yield _ShownTerminal(command, screen)
    finally:
        session.cancellable.pop(terminal_id, None)
        await command.release()
        if showing is not None:
            showing.cancel()
        await screen.close(_exit_of(command))


async def _open_in_editor(
    session: Session[Any], argv: list[str], cwd: str, env: dict[str, str], limit: int
) -> _EditorTerminal:
    def release(terminal_id: str) -> None:
        """It was created while we gave up waiting for it."""
        session.cleanup_tasks.start(_EditorTerminal(session, terminal_id).release())

    command, *args = argv
    terminal_id = await session.editor.create_terminal(session.id, command, args, env, cwd, limit, on_late=release)
    return _EditorTerminal(session, terminal_id)


class _EditorTerminal(TerminalHandle):
    def __init__(self, session: Session[Any], terminal_id: str) -> None:
        self.part = TerminalPart(terminal_id)
        self._editor = session.editor
        self._session_id = session.id
        self._id = terminal_id

    async def output(self) -> TerminalOutputResult:
        return await self._editor.terminal_output(self._session_id, self._id)

    async def wait(self) -> TerminalExit:
        return await self._editor.wait_for_exit(self._session_id, self._id)

    async def kill(self) -> None:
        await self._editor.kill_terminal(self._session_id, self._id)

    async def release(self) -> None:
        with suppress(RequestError, ConnectionLost):
            await self._editor.release_terminal(self._session_id, self._id)


class _OwnTerminal(TerminalHandle):
    def __init__(self, command: RunningCommand) -> None:
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
    def __init__(self, command: RunningCommand, screen: TerminalStream) -> None:
        super().__init__(command)
        self.part = TerminalPart(screen.terminal_id)
        self._screen = screen

    async def wait(self) -> TerminalExit:
        ended = await super().wait()
        await self._screen.close(ended)
        return ended


def _exit_of(command: RunningCommand) -> TerminalExit | None:
    ended = command.exit
    return None if ended is None else TerminalExit(exit_code=ended.exit_code, signal=ended.signal)
