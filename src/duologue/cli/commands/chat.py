"""`duologue chat`: an interactive conversation with an agent in any terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from functools import partial
from pathlib import Path

from duologue.cli.agent_log import AgentLog, LogView, WireView
from duologue.cli.arguments import (
    apply_settings,
    close_session,
    connect_from_args,
    new_session,
    open_session,
    reopen_session,
    restore_usage,
    save_prompt,
    save_usage,
    sessions_here,
    with_titles,
)
from duologue.cli.console.chat_commands import (
    completions,
    help_text,
    mentioned_files,
    session_line,
    usage_text,
)
from duologue.cli.console.echo_filter import QUIET_EVENTS, EchoFilter
from duologue.cli.console.form_prompt import FormPrompt
from duologue.cli.console.interrupts import Interrupts
from duologue.cli.console.line_editor import LineEditor, editor_for
from duologue.cli.console.line_reader import LineReader, is_interactive, terminal_to_ask
from duologue.cli.console.login_prompt import login_advice, terminal_login
from duologue.cli.console.menu import Menu
from duologue.cli.console.permission_prompt import PermissionPrompt
from duologue.cli.console.renderer import ConsoleOutput
from duologue.cli.console.summaries import TurnSummary
from duologue.cli.error_report import code_of_error, explain, next_step, without_stderr
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.mcp_servers import mcp_servers
from duologue.cli.permissions import wants_to_ask
from duologue.cli.setting_commands import run_setting_command
from duologue.cli.traceback_filter import trim_tracebacks
from duologue.cli.unchecked_acts import UncheckedActs
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.prompter import Handler
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.elicitation import ElicitationHandler
from duologue.client.services.terminals import Terminals
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.conversation.session_setup import SessionInfo
from duologue.errors import AuthenticationRequired, ConnectionLost, CrashLoop, DuologueError, RequestError, SessionLost
from duologue.events import Event
from duologue.protocol.values import Elicitation, ElicitationAnswer
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import escape_line

LOG_SECONDS = 0.05
"""Time for what an agent wrote to stderr before an error to arrive after the error."""


SILENT_SECONDS = 5.0
"""Time without any output after which a line says what the agent is doing."""
MOST_OFFERED = 20
"""Sessions that `:resume` offers, the newest first."""


def chat(arguments: argparse.Namespace) -> int:
    """Chat until the user exits; return the exit code."""
    return asyncio.run(Chat(arguments).run())


class Chat:
    """A conversation in a terminal, or with the lines of a pipe as prompts.

    Args:
        arguments: The parsed command line.
        has_all_frames: Show the tracebacks of the agent with the frames of the library.
    """

    def __init__(self, arguments: argparse.Namespace, *, has_all_frames: bool = False) -> None:
        self._arguments = arguments
        self._cwd = Path(arguments.cwd).absolute()
        self._terminals = Terminals()
        self._screen = ConsoleOutput(
            sys.stdout,
            sys.stderr,
            self._cwd,
            self._terminals,
            may_show_output=lambda: not self._editor.is_reading,
            is_verbose=arguments.verbose,
        )
        self._reader = LineReader(sys.stdin.fileno())
        self._editor: LineEditor = editor_for(
            self._reader, lambda before: completions(self._session, self._cwd, before)
        )
        self._log_view = LogView(self._editor.above, self._screen.pause)
        self._log = AgentLog(self._log_view if arguments.stderr else None, has_all_frames=has_all_frames)
        self._wire_view = WireView(self._log, self._log_view, is_on=getattr(arguments, "wire", False))
        self._session: ClientSession | None = None
        self._echo = EchoFilter()
        self._acts = UncheckedActs(self._terminals)
        self._running_turn: ClientTurn | None = None
        self._is_done = False

    async def run(self) -> ExitCode:
        """Connect to the agent and run the conversation to its end."""
        self._task = asyncio.current_task()
        with Interrupts(self._interrupt) as self._interrupts, terminal_to_ask() as terminal:
            try:
                reader = self._reader if sys.stdin.isatty() else None if terminal is None else LineReader(terminal)
                is_asking = wants_to_ask(
                    self._arguments, reader is not None and (self._arguments.ask or is_interactive())
                )
                await self._connect(reader if is_asking else None)
            except asyncio.CancelledError:
                return ExitCode.INTERRUPTED
            except (DuologueError, UsageError) as error:
                self._error(explain(error), error)
                return code_of_error(error)
        return ExitCode.OK

    async def _connect(self, reader: LineReader | None) -> None:
        on_request = None if reader is None else self._permission_handler(PermissionPrompt(reader, self._screen))
        on_elicit = None if reader is None else self._form_handler(FormPrompt(reader, self._screen))
        async with connect_from_args(
            self._arguments,
            self._terminals,
            on_request=on_request,
            on_denied=self._screen.denied,
            on_decision=self._acts.record,
            on_elicit=on_elicit,
            login=terminal_login(self._reader, self._screen, self._editor.suspended) if is_interactive() else None,
            restart=is_interactive(),
            on_stderr=self._log,
            observers=(self._wire_view,),
        ) as agent:
            agent.on_session = self._opened
            await self._open(agent)
            self._greet(agent)
            try:
                await self._read_lines(agent)
            finally:
                if self._session is not None:
                    await close_session(self._session)

    async def _open(self, agent: RemoteAgent) -> None:
        try:
            self._session = await open_session(agent, self._arguments, is_replayed=True)
        except AuthenticationRequired as error:
            raise AuthenticationRequired(login_advice(agent, error)) from None
        self._screen.pause()
        await apply_settings(self._session, self._arguments)

    def _greet(self, agent: RemoteAgent) -> None:
        name = "an agent" if agent.info is None else f"{agent.info.title or agent.info.name} {agent.info.version}"
        self._print(f"Connected to {escape_line(name)} in {self._cwd}. :help lists commands, Ctrl-D exits.\n")

    async def _read_lines(self, agent: RemoteAgent) -> None:
        while not self._is_done:
            self._screen.pause()
            line = await self._editor.read()
            if line is None:
                return
            try:
                if line.startswith(":"):
                    await self._chat_command(agent, line[1:])
                elif line.strip():
                    await self._turn(agent, line)
            except ConnectionLost as error:
                self._lost(error)
            except SessionLost as error:
                self._error(f"{error}; `:new` opens a new session", error)
            except (DuologueError, UsageError) as error:
                self._error(explain(error), error)

    def _lost(self, error: ConnectionLost) -> None:
        """Report a lost agent that the next line starts again; raise the error if it cannot be started again."""
        if isinstance(error, CrashLoop) or not is_interactive():
            raise error
        self._error(f"{error}\nyour next line starts the agent again", error)

    async def _turn(self, agent: RemoteAgent, line: str) -> None:
        session = self._session
        assert session is not None, "lines are read after a session was opened"
        self._interrupts.count = 0
        began = time.monotonic()
        save_prompt(session, self._arguments, line)
        turn = session.prompt(line, files=mentioned_files(line, self._cwd))
        self._echo.begin(line)
        self._acts.begin()
        self._running_turn = turn
        tasks = TaskScope()
        tasks.start(self._report_silence())
        try:
            await turn
        except RequestError as error:
            text = login_advice(agent, error) if isinstance(error, AuthenticationRequired) else explain(error)
            await asyncio.sleep(LOG_SECONDS)
            self._error(text, error)
            return
        finally:
            await tasks.cancel(1.0)
            self._running_turn = None
            self._echo.end()
            save_usage(session, self._arguments)
        acts = self._acts.of(turn)
        if acts:
            self._screen.unchecked(acts)
        has_answered = turn.text.strip() or turn.stop_reason != "end_turn"
        self._screen.end(TurnSummary.of(turn, ExitCode.OK if has_answered else ExitCode.EMPTY_ANSWER, began))

    async def _report_silence(self) -> None:
        """Say what the agent is doing while nothing is shown, after longer and longer times; not during a question."""
        since, written_at, reported = time.monotonic(), self._screen.written_at, 0.0
        while is_interactive():
            await asyncio.sleep(1.0)
            if self._screen.written_at != written_at or self._reader.lock.locked():
                since = written_at = self._screen.written_at
                reported = 0.0
            elif (silent := time.monotonic() - since) >= max(SILENT_SECONDS, 2 * reported):
                self._screen.silent(silent)
                written_at, reported = self._screen.written_at, silent

    # --- commands of the chat itself

    async def _chat_command(self, agent: RemoteAgent, line: str) -> None:
        name, _, argument = line.strip().partition(" ")
        argument, session = argument.strip(), self._session
        assert session is not None, "lines are read after a session was opened"
        match name:
            case "help" | "":
                self._print(help_text())
            case "mode" | "model" | "set":
                self._print(await run_setting_command(session, name, argument))
            case "commands":
                lines = (f"  /{escape_line(each.name)}  {escape_line(each.description)}\n" for each in session.commands)
                self._print("".join(lines) or "this agent offers no commands\n")
            case "new":
                await self._open_new(agent)
            case "sessions":
                lines = (
                    f"  {escape_line(info.session_id)}  {escape_line(info.title or '')}".rstrip() + "\n"
                    for info in with_titles(await sessions_here(agent, self._cwd), self._arguments)
                )
                self._print("".join(lines) or "the agent has no stored session of this directory\n")
            case "resume":
                await self._resume(agent, argument)
            case "reload":
                await self._reload(agent)
            case "stderr" | "wire":
                self._toggle(name)
            case "usage":
                self._print(usage_text(session.usage))
            case "cancel":
                await session.cancel()
            case "quit":
                self._is_done = True
            case _:
                raise UsageError(f"unknown command :{escape_line(name)}; `:help` lists the commands")

    def _toggle(self, name: str) -> None:
        if name == "wire":
            self._wire_view.is_on = is_on = not self._wire_view.is_on
        else:
            is_on = self._log.show is None
            self._log.show = self._log_view if is_on else None
        self._print(f"{name}: {'on' if is_on else 'off'}\n")

    async def _resume(self, agent: RemoteAgent, wanted: str) -> None:
        if wanted:
            found = [info for info in await agent.list_sessions() if info.session_id.startswith(wanted)]
        else:
            found = await self._pick_session(await sessions_here(agent, self._cwd))
        if not wanted and not found:
            return
        if len(found) != 1:
            raise UsageError(f"{'no' if not found else 'more than one'} session id begins with {wanted!r}")
        session_id, cwd = found[0].session_id, found[0].cwd
        if self._session is not None and self._session.is_open and session_id == self._session.id:
            raise UsageError("this session is already open here")
        servers = mcp_servers(self._arguments.mcp)
        session = await reopen_session(agent, session_id, cwd, servers, is_replayed=True)
        restore_usage(session, self._arguments)
        await self._change_session(session)

    async def _pick_session(self, offered: list[SessionInfo]) -> list[SessionInfo]:
        """Let the user choose one of the newest sessions; return nothing if the user chooses none."""
        if not is_interactive():
            raise UsageError("`:resume` needs the id of a session; `:sessions` lists them")
        is_current = {self._session.id} if self._session is not None else set[str]()
        newest = sorted(offered, key=lambda info: info.updated_at or "", reverse=True)
        sessions = [info for info in newest if info.session_id not in is_current][:MOST_OFFERED]
        if not sessions:
            raise UsageError("the agent has no other session of this directory")
        names = [session_line(info) for info in sessions]
        self._print("".join(f"  {number:>2}. {name}\n" for number, name in enumerate(names, 1)))
        async with self._editor.suspended():
            chosen = await Menu(self._reader, names, {}, {"q": "for none"}).choose()
        return [sessions[chosen]] if isinstance(chosen, int) else []

    async def _open_new(self, agent: RemoteAgent) -> None:
        session = await new_session(agent, self._arguments)
        await self._change_session(session)
        await apply_settings(session, self._arguments)

    async def _change_session(self, session: ClientSession) -> None:
        if self._session is not None:
            await close_session(self._session)
        self._session = session
        await self._print_above(f"switched to session {escape_line(session.id)}\n")

    async def _reload(self, agent: RemoteAgent) -> None:
        """Start the agent again and resume the session; open a new one if the agent cannot."""
        session = self._session
        assert session is not None, "lines are read after a session was opened"
        await agent._supervisor.reconnect()
        try:
            await session._ensure_open()
        except SessionLost as error:
            await self._print_above(f"{error}; opening a new one\n")
            await self._open_new(agent)
        else:
            await self._print_above("the agent was started again, and the session goes on\n")

    # --- events and requests during a turn

    def _opened(self, session: ClientSession) -> None:
        session.watch(self._watch)

    def _watch(self, event: Event) -> None:
        for shown in self._echo.pass_on(event):
            if not self._editor.is_reading:
                self._screen.show(shown)
            elif self._session is not None and not isinstance(shown, QUIET_EVENTS):
                self._session.agent._tasks.start(self._editor.above(partial(self._show_line, shown)))

    def _show_line(self, event: Event) -> None:
        self._screen.show(event)
        self._screen.pause()

    def _permission_handler(self, prompt: PermissionPrompt) -> Handler:
        async def ask(request: PermissionRequest) -> None:
            async with self._editor.suspended():
                await prompt(request)

        return ask

    def _form_handler(self, form: FormPrompt) -> ElicitationHandler:
        async def ask(elicitation: Elicitation) -> ElicitationAnswer:
            async with self._editor.suspended():
                return await form(elicitation)

        return ask

    def _interrupt(self) -> None:
        if self._running_turn is None:
            assert self._task is not None
            self._task.cancel()
            return
        self._screen.pause()
        self._print("cancelling; press Ctrl-C again to exit immediately\n")
        self._running_turn.session.agent._tasks.start(self._running_turn.cancel())

    def _error(self, text: str, error: Exception) -> None:
        """Show an error after what the agent wrote to stderr."""
        advice = next_step(error)
        if self._log.show is not None:
            self._log_view.show_now()
            text, advice = without_stderr(text, error), ""
        text = trim_tracebacks(text)
        self._screen.error(text, code_of_error(error))
        self._log.show_end(text, code_of_error(error), advice)

    async def _print_above(self, text: str) -> None:
        """Print a line, above the one that the user is typing if there is one."""

        def show() -> None:
            self._log_view.show_now()
            self._screen.pause()
            self._print(text)

        await self._editor.above(show)

    def _print(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
