"""A command that runs while the agent watches: in the client's terminal, or as a process of our own."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from duologue.conversation.updates import TerminalPart
from duologue.dialects.terms import TerminalExit, TerminalOutput
from duologue.errors import ConnectionLost, RequestError
from duologue.local.commands import Command

if TYPE_CHECKING:
    from duologue.agent.session import Session

__all__ = ["Terminal", "open_terminal"]


class Terminal(ABC):
    """A running or ended command. Leaving the `async with` that made it ends it, and what it started.

    Attributes:
        part: Shows it live inside a tool call (`tool.show(terminal.part)`); `None` if it is a process of our own.
    """

    part: TerminalPart | None = None

    @abstractmethod
    async def output(self) -> TerminalOutput:
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
) -> AsyncGenerator[Terminal]:
    """Run a command in the client's terminal if it has one, else here, inside the session's roots.

    Raises:
        RequestError: The client refuses, or the directory lies outside of the roots.
        StartError: There is no such command here.
    """
    if not session.editor.features.terminals:
        place = await asyncio.to_thread(session.roots.resolve, cwd)
        async with await Command.start(argv, cwd=place, env=env, output_limit=limit) as command:
            yield _OwnTerminal(command)
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
        releasing = session.errands.start(terminal.release())
        if not is_cancelled:
            await asyncio.shield(releasing)


async def _open_in_editor(
    session: Session[Any], argv: list[str], cwd: str, env: dict[str, str], limit: int
) -> _EditorTerminal:
    def release(terminal_id: str) -> None:
        """It was created while we gave up waiting for it."""
        session.errands.start(_EditorTerminal(session, terminal_id).release())

    command, *args = argv
    terminal_id = await session.editor.create_terminal(session.id, command, args, env, cwd, limit, late=release)
    return _EditorTerminal(session, terminal_id)


class _EditorTerminal(Terminal):
    def __init__(self, session: Session[Any], terminal_id: str) -> None:
        self.part = TerminalPart(terminal_id)
        self._editor = session.editor
        self._session_id = session.id
        self._id = terminal_id

    async def output(self) -> TerminalOutput:
        return await self._editor.terminal_output(self._session_id, self._id)

    async def wait(self) -> TerminalExit:
        return await self._editor.wait_for_exit(self._session_id, self._id)

    async def kill(self) -> None:
        await self._editor.kill_terminal(self._session_id, self._id)

    async def release(self) -> None:
        with suppress(RequestError, ConnectionLost):
            await self._editor.release_terminal(self._session_id, self._id)


class _OwnTerminal(Terminal):
    def __init__(self, command: Command) -> None:
        self._command = command

    async def output(self) -> TerminalOutput:
        text, truncated = self._command.output()
        ended = self._command.exit
        status = None if ended is None else TerminalExit(exit_code=ended.exit_code, signal=ended.signal)
        return TerminalOutput(output=text, truncated=truncated, exit=status)

    async def wait(self) -> TerminalExit:
        ended = await self._command.wait()
        return TerminalExit(exit_code=ended.exit_code, signal=ended.signal)

    async def kill(self) -> None:
        await self._command.kill()
