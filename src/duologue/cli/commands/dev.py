"""`duologue dev`: a chat with an agent that is being written, which starts again when its files are saved."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from duologue.agent.diagnostics.stderr_output import VARIABLE
from duologue.cli.commands.chat import Chat
from duologue.cli.console.line_reader import LineReader, is_interactive
from duologue.cli.console.safe_output import say
from duologue.cli.error_report import explain, without_stderr
from duologue.cli.exit_codes import UsageError
from duologue.cli.file_watcher import FileWatcher
from duologue.client.agent import RemoteAgent
from duologue.client.turn import ClientTurn
from duologue.errors import ConnectionLost, CrashLoop, DuologueError, RequestError
from duologue.runtime.connection import Connection
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import escape_line
from duologue.transports.process.command import LAUNCHER

MOST_NAMED = 3
"""Saved files that are named."""

HOW_TO_START = "a save, or `:reload`, starts it again"

HUNG_SECONDS = 2.0
"""Time for the agent to end a cancelled turn, and to answer any request; then its process is ended."""

PING = "_duologue/ping"
"""A request that every agent answers, most with -32601."""


def dev(arguments: argparse.Namespace) -> int:
    """Run an agent from source, and chat with it until the user exits; return the exit code."""
    paths = _watched(arguments)
    if arguments.source is not None:
        arguments.command_line = [sys.executable, *LAUNCHER, arguments.source, *arguments.command_line]
    arguments.agent, arguments.stderr = None, True
    arguments.env = [f"{VARIABLE}=1", *arguments.env]
    if arguments.prompt is not None:
        from duologue.cli.commands.run import run

        arguments.prompt_file, arguments.json, arguments.timeout = None, False, None
        arguments.file, arguments.image = [], []
        return run(arguments)
    if not is_interactive():
        sys.stderr.write("without a terminal no files are watched; each line of stdin is a prompt\n")
        return asyncio.run(Chat(arguments, has_all_frames=arguments.full_tracebacks).run())
    return asyncio.run(_Dev(arguments, FileWatcher(paths)).run())


def _watched(arguments: argparse.Namespace) -> list[Path]:
    """Return the paths to watch: those of the command line, or this directory; and the agent's own file.

    Raises:
        UsageError: A path does not exist.
    """
    given = [Path(path).absolute() for path in arguments.watch]
    missing = next((path for path in given if not path.exists()), None)
    if missing is not None:
        raise UsageError(f"--watch {missing}: no such file or directory")
    watched = given or [Path.cwd()]
    file = (arguments.source or "").partition(":")[0]
    if not file.endswith(".py"):
        return watched
    path = Path(file).absolute()
    if not path.is_file():
        raise UsageError(f"{file}: no such file")
    is_elsewhere = not given and not path.is_relative_to(Path.cwd())
    return [path.parent, path] if is_elsewhere else [path, *watched]


class _Dev(Chat):
    def __init__(self, arguments: argparse.Namespace, watcher: FileWatcher) -> None:
        super().__init__(arguments, has_all_frames=arguments.full_tracebacks)
        self._is_warm = False  # the author of the agent would take a spare session for one of the chat
        self._watcher = watcher
        self._agent: RemoteAgent | None = None
        self._starting: asyncio.Task[None] | None = None
        self._saved = asyncio.Event()
        """Files were saved since the agent was started."""
        self._has_failed = False
        """The agent did not start, and is not tried again before a save."""
        self._is_waiting = False
        """A prompt waits until the agent was started again."""
        self._reloading: asyncio.Task[None] | None = None
        self._reloads: TaskScope

    # --- the first start, until it succeeds

    async def _connect(self, reader: LineReader | None) -> None:
        self._reloads = TaskScope()
        self._reloads.start(self._watch_files())
        try:
            while not await self._has_run(reader):
                say("waiting for a save; Ctrl-C exits\n")
                await self._saved.wait()
        finally:
            await self._reloads.cancel(1.0)

    async def _has_run(self, reader: LineReader | None) -> bool:
        """Start the agent and chat with it; return False if it could not be started."""
        while True:
            self._saved.clear()
            self._starting = self._reloads.start(super()._connect(reader))
            try:
                await self._starting
            except DuologueError as error:
                if self._agent is not None:
                    raise
                self._error(explain(error), error)
                return False
            except asyncio.CancelledError:
                if _is_cancelled():  # by Ctrl-C, not by a save
                    raise
            else:
                return True

    def _greet(self, agent: RemoteAgent) -> None:
        self._agent = agent
        self._reloads.start(self._report_exit(agent.connection))
        super()._greet(agent)
        count = len(self._watcher.files)
        least = "" if self._watcher.is_complete else "the nearest "
        say(f"Watching {least}{count:,} {'file' if count == 1 else 'files'}; a save starts the agent again.\n")

    # --- saves

    async def _watch_files(self) -> None:
        async for saved in self._watcher.changes():
            self._saved.set()
            names = ", ".join(escape_line(path.name) for path in saved[:MOST_NAMED])
            more = f" and {len(saved) - MOST_NAMED} more" if len(saved) > MOST_NAMED else ""
            if self._running_turn is not None and self._agent is not None:
                self._screen.pause()
                say(f"{names}{more} changed: the agent starts again after this turn (Ctrl-C cancels it)\n")
                self._reloads.start(self._reload_if_hung(self._agent, self._running_turn))
                continue
            self._print_above(f"{names}{more} changed: starting the agent again\n")
            if self._agent is None:
                assert self._starting is not None
                self._starting.cancel()
            else:
                await self._begin_reload(self._agent)

    async def _begin_reload(self, agent: RemoteAgent) -> None:
        """Start the agent again, instead of a start that is under way."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait({self._reloading})
        self._reloading = self._reloads.start(self._try_reload(agent))

    @property
    def _is_reloading(self) -> bool:
        return self._reloading is not None and not self._reloading.done()

    async def _try_reload(self, agent: RemoteAgent) -> None:
        self._saved.clear()
        self._has_failed = False
        try:
            await self._reload(agent)
        except (DuologueError, UsageError) as error:
            self._has_failed, failure = agent.is_closed, error
            self._editor.above(lambda: self._fail(failure))
        else:
            self._reloads.start(self._report_exit(agent.connection))
            if self._is_waiting:
                self._queue.release()
            self._is_waiting = False

    async def _reload_if_hung(self, agent: RemoteAgent, turn: ClientTurn) -> None:
        """Start the agent again if it does not answer a request: it cannot end the turn either."""
        try:
            async with asyncio.timeout(HUNG_SECONDS):
                await agent.call(PING, {})
        except TimeoutError:
            await self._reload_during(agent, turn, "the agent does not answer: ending it and starting it again\n")
        except (RequestError, ConnectionLost):
            pass

    async def _reload_during(self, agent: RemoteAgent, turn: ClientTurn, note: str) -> None:
        """Start the agent again, unless the turn has ended or this happens already."""
        if turn is self._running_turn and not self._is_reloading:
            self._print_above(note)
            await self._begin_reload(agent)

    def _fail(self, error: Exception) -> None:
        self._error(f"{explain(error)}\n{HOW_TO_START}", error)
        self._screen.pause()

    # --- turns and commands

    async def _turn(self, agent: RemoteAgent, line: str) -> bool:
        while self._reloading is not None and not self._reloading.done():
            await asyncio.wait({self._reloading})
        if self._has_failed:
            self._wait_with(line)
            return False
        try:
            is_complete = await super()._turn(agent, line)
        except CrashLoop:  # it was not started again, so nothing was sent
            self._wait_with(line)
            raise
        except DuologueError:
            await self._reload_after_turn(agent)
            raise
        await self._reload_after_turn(agent)
        return is_complete

    def _wait_with(self, line: str) -> None:
        """Queue a prompt again, to send it when the agent was started."""
        self._queue.add(line, is_first=True)
        self._is_waiting = True
        say(f"the agent does not run, so your prompt waits; {HOW_TO_START}\n")

    async def _reload_after_turn(self, agent: RemoteAgent) -> None:
        if self._saved.is_set():
            how = "was cancelled" if self._interrupts.count else "has ended"
            say(f"the turn {how}: starting the agent again\n")
            await self._begin_reload(agent)

    async def _chat_command(self, agent: RemoteAgent, line: str) -> None:
        if line.strip() != "reload":
            await super()._chat_command(agent, line)
        elif self._running_turn is None:
            await self._begin_reload(agent)
        else:
            self._editor.echo(":reload")
            self._reloads.start(self._cancel_and_reload(agent, self._running_turn))

    async def _cancel_and_reload(self, agent: RemoteAgent, turn: ClientTurn) -> None:
        self._print_above("cancelling the turn, then starting the agent again\n")
        self._saved.set()  # after the turn, the agent is started again
        try:
            async with asyncio.timeout(HUNG_SECONDS):
                await turn.cancel()
        except TimeoutError:
            await self._reload_during(agent, turn, "the turn does not end: ending the agent and starting it again\n")

    def _interrupt(self) -> None:
        super()._interrupt()
        if self._agent is not None and self._running_turn is not None:
            self._reloads.start(self._reload_if_hung(self._agent, self._running_turn))

    def _lost(self, error: ConnectionLost) -> None:
        """Report a lost agent; one that was lost too often is not started again before a save."""
        if self._is_reloading:  # that has ended it
            return
        if not isinstance(error, CrashLoop):
            super()._lost(error)
            return
        self._has_failed = True
        self._fail(error)

    async def _report_exit(self, connection: Connection) -> None:
        """Report an agent that exits while no turn runs."""
        await connection.wait_closed()
        if self._queue.is_idle and not self._is_reloading and isinstance(connection.cause, ConnectionLost):
            text = without_stderr(str(connection.cause), connection.cause)
            self._print_above(f"{text}; your next line starts the agent again\n")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
