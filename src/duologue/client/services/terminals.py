"""Terminals: commands that an agent runs through the client, as processes that end with their session.

create     a process in its own group, without a shell unless the command is a line that needs one
output     the newest bytes, cut at a character, at any time
kill       ends the command; its output can still be read
release    ends the command and forgets the id; the user interface can still show its output
"""

from __future__ import annotations

import asyncio
import codecs
import copy
import logging
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from duologue.client.permissions.command_line import SHELL, argv_of
from duologue.client.services.working_directory import WorkingDirectory, open_directory
from duologue.conversation.work_state import TerminalExit
from duologue.errors import InvalidParams, InvalidRequest, ResourceNotFound, StartError
from duologue.local.commands import GRACE_SECONDS, MAX_PROCESSES, OUTPUT_LIMIT, RunningCommand
from duologue.protocol.values import TerminalOutputResult
from duologue.transports.process.command import check_program

MAX_PER_SESSION = 32
"""More terminals than any agent uses at once."""
HARD_CAP = 64 * 1024 * 1024
"""Bytes of output kept of one command, whatever an agent requests."""
SHOWN_CHARACTERS = 4 * 1024 * 1024
"""Output of released terminals that is kept for display, all together."""
MOST_SHOWN = 256
"""Released terminals that can still be shown."""

DIVERTING = re.compile(
    r"PATH|LD_.*|DYLD_.*|GCONV_PATH|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|IFS|PS4|PROMPT_COMMAND|BASH_FUNC_.*|ZDOTDIR|"
    r"GIT_(SSH|EXEC_PATH|CONFIG|PAGER|EDITOR|ASKPASS|EXTERNAL_DIFF|SEQUENCE_EDITOR|DIR|TEMPLATE_DIR|PROXY_COMMAND).*|"
    r"PYTHON(PATH|HOME|STARTUP|INSPECT|BREAKPOINT|EXECUTABLE)|NODE_(OPTIONS|PATH)|PERL5?(OPT|LIB|DB)|RUBY(OPT|LIB)|"
    r"JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|DUOLOGUE_.*",
    re.IGNORECASE,
)
"""Variables that make another program run than the one that was named, or in addition to it."""

Watcher = Callable[[str], None]
Check = Callable[[str], Awaitable[None]]

_log = logging.getLogger("duologue.client")


@dataclass(eq=False)
class _Terminal:
    """One command, its watchers, and the decoder of its output."""

    command: RunningCommand | None = None
    watchers: list[Watcher] = field(default_factory=list[Watcher])
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), repr=False
    )

    def on_output(self, data: bytes) -> None:
        text = self.decoder.decode(data)
        for watcher in self.watchers if text else ():
            try:
                watcher(text)
            except Exception:
                self.unwatch(watcher)
                _log.exception("a function given to Terminals.watch() failed and is no longer called")

    def unwatch(self, watcher: Watcher) -> None:
        self.watchers = [each for each in self.watchers if each is not watcher]

    def output(self) -> TerminalOutputResult:
        assert self.command is not None, "a terminal has an id only once its command runs"
        text, truncated = self.command.output()
        ended = self.command.exit
        status = None if ended is None else TerminalExit(exit_code=ended.exit_code, signal=ended.signal)
        return TerminalOutputResult(output=text, truncated=truncated, exit=status)


@dataclass(eq=False)
class _Session:
    """Terminals of one session; `is_closed` stops those that are being started."""

    terminals: dict[str, _Terminal] = field(default_factory=dict[str, _Terminal])
    is_closed: bool = False


class Terminals:
    """Runs commands for agents, separately for each session.

    Args:
        max_per_session: Largest number of terminals of one session that are not released.
        env: Variables for every command, in addition to the few that any program needs.
        allow_env: Variables an agent may set although they can make another program run: `PATH`, `LD_PRELOAD`, ….
        pty: Run commands in a pseudo-terminal of 80 by 24 instead of writing to a pipe.
        shell: Shell for a line that is more than one simple command; `None` to reject such lines.
        output_limit: Bytes of output to keep if the agent sets no limit.
        hard_cap: Largest number of bytes to keep, whatever limit the agent sets.
        shown: Characters of output of released terminals kept for display, all together.
        grace: Seconds between asking a command to end and killing it.
        max_processes: Largest number of processes of one command.
        prefix: Words before every command, such as those of a program that confines it.
    """

    def __init__(
        self,
        *,
        max_per_session: int = MAX_PER_SESSION,
        env: Mapping[str, str] | None = None,
        allow_env: Collection[str] = (),
        pty: bool = False,
        shell: str | None = SHELL,
        output_limit: int = OUTPUT_LIMIT,
        hard_cap: int = HARD_CAP,
        shown: int = SHOWN_CHARACTERS,
        grace: float = GRACE_SECONDS,
        max_processes: int = MAX_PROCESSES,
        prefix: Sequence[str] = (),
    ) -> None:
        self._prefix = list(prefix)
        self._max_per_session = max_per_session
        self._env = dict(env or {})
        self._allow_env = frozenset(allow_env)
        self._shell = shell
        self._output_limit = output_limit
        self._hard_cap = hard_cap
        self._most_shown = shown
        self._run = partial(RunningCommand.start, pty=pty, grace=grace, max_processes=max_processes)
        self._sessions: dict[str, _Session] = {}
        self._running: dict[str, _Terminal] = {}
        self._released: OrderedDict[str, TerminalOutputResult] = OrderedDict()

    def for_agent(self) -> Self:
        """Return the same terminals for one more agent, with sessions of its own: two agents may use the same ids.

        User interfaces find the terminals of all agents here.
        """
        other = copy.copy(self)
        other._sessions = {}
        return other

    # --- for agents

    async def create(
        self,
        session_id: str,
        command: str,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        roots: Sequence[str],
        limit: int | None,
        check: Check | None = None,
    ) -> str:
        """Start a command and return the id of its terminal at once.

        Args:
            session_id: Session of the command; no other one can use the id.
            command: A program, or without `args` possibly a whole line (see `command_line.argv_of`).
            args: Arguments, passed unchanged.
            env: Variables of the command.
            cwd: Working directory, inside one of `roots`.
            roots: Directories of the session.
            limit: Bytes of output to keep.
            check: Called with the directory once it is open; an exception prevents the start.

        Raises:
            InvalidParams: The command, its directory or its variables are not valid or not permitted.
            InvalidRequest: The session has too many terminals.
        """
        argv = self._argv(command, args)
        self._check_env(env)
        session = self._sessions.setdefault(session_id, _Session())
        if len(session.terminals) >= self._max_per_session:
            raise InvalidRequest(f"{self._max_per_session} terminals are open already; release one first")
        terminal_id = new_id()
        terminal = session.terminals[terminal_id] = _Terminal()
        try:
            with open_directory(cwd, roots) as directory:
                if check is not None:
                    await check(directory.path)
                _check_open(session)
                terminal.command = started = await self._start(argv, env, directory, limit, terminal)
        except BaseException:
            session.terminals.pop(terminal_id, None)
            raise
        if session.is_closed:
            await started.release()
            _check_open(session)
        self._running[terminal_id] = terminal
        return terminal_id

    def output(self, session_id: str, terminal_id: str) -> TerminalOutputResult:
        """Return the output so far, and the exit status if the command has ended."""
        return self._find(session_id, terminal_id)[0].output()

    async def wait(self, session_id: str, terminal_id: str) -> TerminalExit:
        """Wait for the exit status; a release ends the command and the wait."""
        ended = await self._find(session_id, terminal_id)[1].wait()
        return TerminalExit(exit_code=ended.exit_code, signal=ended.signal)

    async def kill(self, session_id: str, terminal_id: str) -> None:
        """End the command and everything it started; its output can still be read."""
        await self._find(session_id, terminal_id)[1].kill()

    async def release(self, session_id: str, terminal_id: str) -> None:
        """End the command and everything it started, and forget the id."""
        terminal, _ = self._find(session_id, terminal_id)
        del self._sessions[session_id].terminals[terminal_id]
        await self._end(terminal_id, terminal)

    # --- for user interfaces

    def watch(self, terminal_id: str, watcher: Watcher) -> Callable[[], None]:
        """Call a function with the text that a running command prints; call the returned function to stop.

        Raises:
            ResourceNotFound: There is no such terminal; agents may show ids that do not exist.
        """
        terminal = self._running.get(terminal_id)
        if terminal is None:
            raise ResourceNotFound("no such terminal")
        terminal.watchers.append(watcher)
        return partial(terminal.unwatch, watcher)

    def shown(self, terminal_id: str) -> TerminalOutputResult | None:
        """Return the output of a terminal of any session, also after its release; `None` if it is not known.

        Escape codes are kept; `duologue.sanitize.strip_terminal_controls` removes those that act on a terminal.
        """
        terminal = self._running.get(terminal_id)
        return self._released.get(terminal_id) if terminal is None else terminal.output()

    def has_running(self, session_id: str) -> bool:
        """Return True while a command of this session runs."""
        session = self._sessions.get(session_id)
        terminals = () if session is None else session.terminals.values()
        return any(each.command is not None and each.command.exit is None for each in terminals)

    # --- closing

    async def close_session(self, session_id: str) -> None:
        """End all commands of a session."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        session.is_closed = True
        running = [(id, terminal) for id, terminal in session.terminals.items() if terminal.command is not None]
        await asyncio.gather(*(self._end(id, terminal) for id, terminal in running))

    async def aclose(self) -> None:
        """End all commands."""
        await asyncio.gather(*(self.close_session(session_id) for session_id in list(self._sessions)))

    async def _end(self, terminal_id: str, terminal: _Terminal) -> None:
        assert terminal.command is not None
        try:
            await terminal.command.release()
        finally:
            self._running.pop(terminal_id, None)
            self._store_released(terminal_id, terminal.output())

    def _store_released(self, terminal_id: str, output: TerminalOutputResult) -> None:
        if len(output.output) > self._most_shown:
            output = TerminalOutputResult(output=output.output[-self._most_shown :], truncated=True, exit=output.exit)
        self._released[terminal_id] = output
        size = sum(len(each.output) for each in self._released.values())
        while size > self._most_shown or len(self._released) > MOST_SHOWN:
            size -= len(self._released.popitem(last=False)[1].output)

    # --- starting

    async def _start(
        self,
        argv: list[str],
        env: Mapping[str, str],
        directory: WorkingDirectory,
        limit: int | None,
        terminal: _Terminal,
    ) -> RunningCommand:
        cwd = directory.start_path()
        env = {**_search_path(), **self._env, **env}
        try:
            if self._prefix:  # it would be the prefix that finds nothing to start
                check_program(argv, env, cwd)
            return await self._run(
                [*self._prefix, *argv],
                cwd=cwd,
                env=env,
                output_limit=min(self._hard_cap, self._output_limit if limit is None else max(0, limit)),
                on_output=terminal.on_output,
            )
        except StartError as error:
            raise InvalidParams(str(error).replace(cwd, directory.path)) from error

    def _argv(self, command: str, args: Sequence[str]) -> list[str]:
        if self._shell is not None:
            return argv_of(command, args, self._shell)
        argv = argv_of(command, args, "")
        if not argv[0] and command.strip():
            raise InvalidParams(
                "the command is a line for a shell, which this client does not offer; send a program and args"
            )
        return argv

    def _check_env(self, env: Mapping[str, str]) -> None:
        diverting = sorted(name for name in env if DIVERTING.fullmatch(name) and name not in self._allow_env)
        if diverting:
            raise InvalidParams(f"env: {diverting[0]} can make another program run, so an agent may not set it")

    def _find(self, session_id: str, terminal_id: str) -> tuple[_Terminal, RunningCommand]:
        session = self._sessions.get(session_id)
        terminal = None if session is None else session.terminals.get(terminal_id)
        if terminal is None or terminal.command is None:
            raise ResourceNotFound("no such terminal")
        return terminal, terminal.command


def _search_path() -> dict[str, str]:
    """Return a `PATH` without relative directories: an agent may have put a program where the command runs."""
    directories = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return {"PATH": os.pathsep.join(each for each in directories if Path(each).is_absolute())}


def _check_open(session: _Session) -> None:
    if session.is_closed:
        raise InvalidRequest("the session was closed")


def new_id() -> str:
    """Return an id that cannot be guessed."""
    return f"term_{secrets.token_urlsafe(16)}"
