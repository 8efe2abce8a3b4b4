"""Commands of an editor's workspace: live in the editor's terminal, or with stdout and stderr apart and exact.

Live       the command itself runs in the terminal, and its output is what the terminal shows
Captured   its output goes into private files, and the end of it to the terminal afterwards
Hidden     captured, as a child process of the agent that the editor does not see: for searches
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from pydantic_ai.workspaces import (
    CommandResult,
    WorkspaceError,
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from duologue.agent.terminal import TerminalHandle, open_terminal
from duologue.agent.tool_call import ToolCallHandle
from duologue.agent.turn import Turn
from duologue.conversation.work_state import TerminalExit
from duologue.errors import CommandNotFound, ConnectionLost, RequestError, StartError
from duologue.protocol.values import TerminalOutputResult

Mode: TypeAlias = Literal["live", "captured", "hidden"]

OUTPUT_LIMIT = 4 * 1024 * 1024
"""Bytes of a terminal's output: six times as many, if all are escaped, still fit into one message."""
CAPTURE_LIMIT = 10 * 1024 * 1024
"""Bytes that a captured command may print, as in pydantic-ai's local workspace."""
SHOWN_BYTES = 64 * 1024
"""Bytes of captured output that the terminal shows, and that an error has with it."""
WATCH_SECONDS = 0.2
"""Seconds between two looks at how much a captured command has printed."""
MOST_UNRELEASED = 8
"""Ended commands whose terminals, with what they left running, are kept until the turn ends."""

CAPTURE = f"""\
[ -d "$0" ] || exec "$@"
"$@" >"$0/stdout" 2>"$0/stderr" </dev/null
code=$?
tail -c {SHOWN_BYTES} <"$0/stdout"
tail -c {SHOWN_BYTES} <"$0/stderr" >&2
exit $code"""
"""Runs a command with its output in the directory `$0`; where that does not exist, in a container perhaps, without."""


class PreparedCommand(Struct, frozen=True, kw_only=True):
    """A command that is ready to run.

    Attributes:
        argv: What runs.
        program: The program that was asked for.
        directory: Where its output goes; `None` for a live one.
        is_hidden: Whether it is a child process that the editor does not see.
    """

    argv: list[str]
    program: str
    directory: Path | None
    is_hidden: bool


class WorkspaceCommands:
    """Runs the commands of one turn.

    Args:
        turn: The turn; commands, and what they left running, end with it.
        request_timeout: Seconds that the client has to answer a request other than waiting for the end of a command.
    """

    def __init__(self, turn: Turn[Any], request_timeout: float) -> None:
        self._turn = turn
        self._request_timeout = request_timeout
        self._unreleased: deque[AsyncExitStack] = deque()
        turn._at_end.append(self._release_all)

    @contextmanager
    def prepare(self, argv: list[str], mode: Mode) -> Generator[PreparedCommand]:
        """Make what a command needs; it is removed at the end of the block."""
        if mode == "live":
            yield PreparedCommand(argv=argv, program=argv[0], directory=None, is_hidden=False)
            return
        directory = Path(tempfile.mkdtemp(prefix="duologue-output-"))
        try:
            wrapped = ["sh", "-c", CAPTURE, str(directory), *argv]
            is_hidden = mode == "hidden"
            yield PreparedCommand(argv=wrapped, program=argv[0], directory=directory, is_hidden=is_hidden)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    async def run(
        self, command: PreparedCommand, *, env: Mapping[str, str], timeout: float, tool: ToolCallHandle | None
    ) -> CommandResult:
        """Run a command to its end.

        Args:
            command: The command.
            env: Variables in addition to those that the client or the agent gives every command.
            timeout: Seconds after which it is killed.
            tool: The tool call that shows the terminal.

        Raises:
            WorkspaceTimeoutError: It was killed after the timeout, or the client did not answer.
            WorkspaceOutputLimitError: It printed more than is kept.
            WorkspaceError: The client did not start it.
        """
        try:
            async with self._terminal(command, dict(env), tool) as terminal:
                ended = await self._wait(terminal, timeout, command.directory)
                async with self._answer_in_time():
                    seen = await terminal.output()
        except CommandNotFound as error:
            return CommandResult(exit_code=127, stdout="", stderr=f"{error}\n")
        except (RequestError, StartError) as error:
            if command.directory is None and shutil.which(command.program) is None:
                return CommandResult(exit_code=127, stdout="", stderr=f"{command.program}: command not found\n")
            raise WorkspaceError(f"the command was not run: {error}") from error
        except ConnectionLost as error:
            raise WorkspaceUnavailableError("the editor has disconnected") from error
        stdout, stderr, is_complete = await asyncio.to_thread(_output_of, command.directory, seen)
        if not is_complete:
            raise WorkspaceOutputLimitError(
                "the command printed more than is kept; write its output to a file and read parts of that",
                limit=OUTPUT_LIMIT if command.directory is None else CAPTURE_LIMIT,
                stdout=stdout[:SHOWN_BYTES],
                stderr=stderr[:SHOWN_BYTES],
            )
        if ended is None:
            text = f"the command was killed after its timeout of {timeout:g} s"
            raise WorkspaceTimeoutError(text, stdout=stdout, stderr=stderr)
        return CommandResult(exit_code=_exit_code(ended), stdout=stdout, stderr=stderr)

    @asynccontextmanager
    async def _terminal(
        self, command: PreparedCommand, env: dict[str, str], tool: ToolCallHandle | None
    ) -> AsyncGenerator[TerminalHandle]:
        """Open a terminal; keep one whose command has ended by itself, so that what it left running goes on."""
        session, cwd, is_hidden = self._turn.session, str(self._turn.cwd), command.is_hidden
        async with AsyncExitStack() as stack:
            block = open_terminal(session, command.argv, cwd=cwd, env=env, limit=OUTPUT_LIMIT, is_hidden=is_hidden)
            async with self._answer_in_time():
                terminal = await stack.enter_async_context(block)
            if tool is not None and not is_hidden:
                tool.on_cancel = terminal.kill
                if terminal.part is not None:
                    await tool.show(terminal.part)
            yield terminal
            if not is_hidden and not self._turn._is_over:
                self._unreleased.append(stack.pop_all())
        if tool is not None:
            tool.on_cancel = None
        while len(self._unreleased) > MOST_UNRELEASED:
            await _release(self._unreleased.popleft())

    async def _wait(
        self, terminal: TerminalHandle, timeout: float, directory: Path | None = None
    ) -> TerminalExit | None:
        """Wait until the command ends; return None if it was killed because of the timeout."""
        try:
            async with asyncio.timeout(timeout), _watched(terminal, directory):
                return await terminal.wait()
        except TimeoutError:
            async with self._answer_in_time():
                await terminal.kill()
            return None

    @asynccontextmanager
    async def _answer_in_time(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._request_timeout):
                yield
        except TimeoutError as error:
            raise WorkspaceTimeoutError(f"the editor did not answer within {self._request_timeout:g} s") from error

    def _release_all(self) -> None:
        """Release the terminals that were kept; the turn is over and does not wait."""
        while self._unreleased:
            self._turn.session._cleanup_tasks.start(_release(self._unreleased.popleft()))


async def _release(terminal: AsyncExitStack) -> None:
    with suppress(RequestError, ConnectionLost):
        await terminal.aclose()


@asynccontextmanager
async def _watched(terminal: TerminalHandle, directory: Path | None) -> AsyncGenerator[None]:
    """Kill a captured command that prints more than is read."""
    if directory is None:
        yield
        return
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(_kill_if_too_long(terminal, directory))
        failure: Exception | None = None
        try:
            yield
        except Exception as error:  # raised in the block, a task group would wrap it
            failure = error
        finally:
            watching.cancel()
    if failure is not None:
        raise failure


async def _kill_if_too_long(terminal: TerminalHandle, directory: Path) -> None:
    while (_size(directory) or 0) <= CAPTURE_LIMIT:  # noqa: ASYNC110 - a file that grows sets no event
        await asyncio.sleep(WATCH_SECONDS)
    with suppress(RequestError, ConnectionLost):
        await terminal.kill()


def _size(directory: Path) -> int | None:
    """Return how much a captured command has printed; None if the terminal could not write it there."""
    sizes = [file.stat().st_size for file in directory.iterdir()]
    return sum(sizes) if sizes else None


def _output_of(directory: Path | None, seen: TerminalOutputResult) -> tuple[str, str, bool]:
    """Return stdout, stderr, and whether they are complete: from the files, or from the terminal if there are none."""
    size = None if directory is None else _size(directory)
    if directory is None or size is None:
        return seen.output, "", not seen.truncated
    return _read(directory / "stdout"), _read(directory / "stderr"), size <= CAPTURE_LIMIT


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(CAPTURE_LIMIT).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""  # killed before it was made


def _exit_code(ended: TerminalExit) -> int:
    """Return the exit code, that of a shell for a signal.

    Raises:
        WorkspaceError: The client did not say how the command ended.
    """
    if ended.exit_code is not None:
        return ended.exit_code
    if ended.signal is None:
        raise WorkspaceError("the command has ended, but the editor sent neither its exit code nor its signal")
    known = signal.Signals.__members__.get(ended.signal)
    return 128 + (known or 0)
