"""`duologue chat`: a conversation in any terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from functools import partial
from pathlib import Path

from duologue.cli.arguments import (
    apply_settings,
    change_mode,
    change_setting,
    close_session,
    connect_from_args,
    find_choice,
    open_session,
    reopen_session,
    sessions_here,
)
from duologue.cli.console.chat_commands import completions, help_text, mentioned_files, settings_text, usage_text
from duologue.cli.console.echo_filter import EchoFilter
from duologue.cli.console.form_prompt import FormPrompt
from duologue.cli.console.interrupts import Interrupts
from duologue.cli.console.line_editor import LineEditor, editor_for
from duologue.cli.console.line_reader import LineReader, terminal_to_ask
from duologue.cli.console.login_prompt import login_advice, terminal_login
from duologue.cli.console.permission_prompt import PermissionPrompt
from duologue.cli.console.renderer import ConsoleOutput, TurnSummary
from duologue.cli.exit_codes import ExitCode, UsageError, code_of_error, explain
from duologue.cli.mcp_servers import mcp_servers
from duologue.cli.permissions import wants_to_ask
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.policy import PermissionRequest
from duologue.client.permissions.prompter import Handler
from duologue.client.services.elicitation import ElicitationHandler
from duologue.client.services.terminals import Terminals
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.errors import AuthenticationRequired, ConnectionLost, CrashLoop, DuologueError, RequestError, SessionLost
from duologue.events import (
    CommandsChanged,
    Event,
    SettingsChanged,
    StateChanged,
    Terminal,
    TerminalOutput,
    TitleChanged,
    Usage,
)
from duologue.protocol.values import Elicitation, ElicitationAnswer
from duologue.sanitize import escape_line

__all__ = ["chat"]

QUIET_EVENTS = (CommandsChanged, SettingsChanged, StateChanged, Terminal, TerminalOutput, TitleChanged, Usage)
"""What shows nothing, and is no reason to disturb somebody who types."""


def chat(arguments: argparse.Namespace) -> int:
    """Talk until the person leaves; the exit code."""
    try:
        return int(asyncio.run(_Chat(arguments).talk()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return int(ExitCode.INTERRUPTED)


class _Chat:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._cwd = Path(arguments.cwd).absolute()
        self._terminals = Terminals()
        self._screen = ConsoleOutput(sys.stdout, sys.stderr, self._cwd, self._terminals, self._may_show_output)
        self._reader = LineReader(sys.stdin.fileno())
        self._editor: LineEditor = editor_for(
            self._reader, lambda before: completions(self._session, self._cwd, before)
        )
        self._session: ClientSession | None = None
        self._echo = EchoFilter()
        self._turn_now: ClientTurn | None = None
        self._has_left = False

    async def talk(self) -> ExitCode:
        """From the first line to the last."""
        self._task = asyncio.current_task()
        with Interrupts(self._interrupt) as self._interrupts, terminal_to_ask() as terminal:
            try:
                reader = self._reader if sys.stdin.isatty() else None if terminal is None else LineReader(terminal)
                is_asking = wants_to_ask(self._arguments, reader is not None and (self._arguments.ask or _is_watched()))
                await self._meet(reader if is_asking else None)
            except asyncio.CancelledError:
                return ExitCode.INTERRUPTED
            except (DuologueError, UsageError) as error:
                self._screen.error(explain(error), code_of_error(error))
                return code_of_error(error)
        return ExitCode.ENDED

    async def _meet(self, reader: LineReader | None) -> None:
        on_request = None if reader is None else self._between(PermissionPrompt(reader, self._screen))
        on_elicit = None if reader is None else self._form(FormPrompt(reader, self._screen))
        async with connect_from_args(
            self._arguments,
            self._terminals,
            on_request=on_request,
            on_denied=self._screen.denied,
            on_elicit=on_elicit,
            login=terminal_login(self._reader, self._screen, self._editor.suspended) if _is_watched() else None,
            restart=_is_watched(),
        ) as agent:
            agent.on_session = self._opened
            await self._open(agent)
            self._greet(agent)
            try:
                await self._lines(agent)
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
        self._say(f"Talking to {escape_line(name)} in {self._cwd}. :help lists what you can do, Ctrl-D leaves.\n")

    async def _lines(self, agent: RemoteAgent) -> None:
        while not self._has_left:
            self._screen.pause()
            line = await self._editor.read()
            if line is None:
                return
            try:
                if line.startswith(":"):
                    await self._local(agent, line[1:])
                elif line.strip():
                    await self._turn(agent, line)
            except ConnectionLost as error:
                if isinstance(error, CrashLoop) or not _is_watched():
                    raise
                self._screen.error(f"{error}\nit is started again with your next line", code_of_error(error))
            except SessionLost as error:
                self._screen.error(f"{error}; `:new` begins another", code_of_error(error))
            except (DuologueError, UsageError) as error:
                self._screen.error(explain(error), code_of_error(error))

    async def _turn(self, agent: RemoteAgent, line: str) -> None:
        session = self._session
        assert session is not None, "nothing is read before a session is open"
        self._interrupts.count = 0
        began = time.monotonic()
        turn = session.prompt(line, files=mentioned_files(line, self._cwd))
        self._echo.begin(line)
        self._turn_now = turn
        try:
            await turn
        except RequestError as error:
            told = login_advice(agent, error) if isinstance(error, AuthenticationRequired) else explain(error)
            self._screen.error(told, code_of_error(error))
            return
        finally:
            self._turn_now = None
            self._echo.end()
        usage = session.usage
        report = TurnSummary(
            session_id=session.id,
            stop_reason=turn.stop_reason or "ended",
            code=ExitCode.ENDED,
            seconds=time.monotonic() - began,
            tools=len(turn.tool_calls),
            usage=turn.usage,
            cost=None if usage is None else usage.cost,
            currency=None if usage is None else usage.currency,
        )
        self._screen.end(report)

    # --- our own commands

    async def _local(self, agent: RemoteAgent, line: str) -> None:
        name, _, argument = line.strip().partition(" ")
        argument, session = argument.strip(), self._session
        assert session is not None, "nothing is read before a session is open"
        match name:
            case "help" | "":
                self._say(help_text())
            case "mode" | "model" | "set":
                await self._setting(session, name, argument)
            case "commands":
                told = (f"  /{escape_line(each.name)}  {escape_line(each.description)}\n" for each in session.commands)
                self._say("".join(told) or "this agent offers no commands\n")
            case "new":
                session = await agent.new_session(self._cwd, mcp_servers=mcp_servers(self._arguments.mcp))
                await self._change_session(session)
                await apply_settings(session, self._arguments)
            case "sessions":
                told = (
                    f"  {escape_line(info.session_id)}  {escape_line(info.title or '')}".rstrip() + "\n"
                    for info in await sessions_here(agent, self._cwd)
                )
                self._say("".join(told) or "the agent keeps no session of this directory\n")
            case "resume":
                await self._resume(agent, argument)
            case "usage":
                self._say(usage_text(session.usage))
            case "cancel":
                await session.cancel()
            case "quit":
                self._has_left = True
            case _:
                raise UsageError(f"there is no :{escape_line(name)}; `:help` lists what there is")

    async def _setting(self, session: ClientSession, name: str, argument: str) -> None:
        if name == "mode" and argument:
            await change_mode(session, argument)
        elif name == "model" and argument:
            offered = [] if session.models is None else [(each.value, each.name) for each in session.models.choices]
            await session.set_model(find_choice(argument, offered) or argument)
        elif name == "set" and argument:
            setting, _, value = argument.partition(" ")
            await change_setting(session, setting, value.strip())
        if name == "mode" and session.modes is not None:
            known = ", ".join(escape_line(mode.mode_id) for mode in session.modes.available)
            self._say(f"  mode = {escape_line(session.modes.current)}  ({known})\n")
        elif name == "model" and session.models is not None:
            known = ", ".join(escape_line(option.value) for option in session.models.choices)
            self._say(f"  model = {escape_line(str(session.models.value))}  ({known})\n")
        else:
            self._say(settings_text(session))

    async def _resume(self, agent: RemoteAgent, wanted: str) -> None:
        if not wanted:
            raise UsageError("say which: `:resume ID`; `:sessions` lists them")
        found = [info for info in await agent.list_sessions() if info.session_id.startswith(wanted)]
        if len(found) != 1:
            raise UsageError(f"{'no' if not found else 'more than one'} session begins with {wanted!r}")
        session_id, cwd = found[0].session_id, found[0].cwd
        if self._session is not None and self._session.is_open and session_id == self._session.id:
            raise UsageError("that is the session you are in")
        servers = mcp_servers(self._arguments.mcp)
        await self._change_session(await reopen_session(agent, session_id, cwd, servers, is_replayed=True))

    async def _change_session(self, session: ClientSession) -> None:
        if self._session is not None:
            await close_session(self._session)
        self._session = session
        self._screen.pause()
        self._say(f"this is session {escape_line(session.id)} now\n")

    # --- what happens meanwhile

    def _opened(self, session: ClientSession) -> None:
        session.watch(self._watch)

    def _watch(self, event: Event) -> None:
        for shown in self._echo.pass_on(event):
            if not self._editor.is_reading:
                self._screen.show(shown)
            elif self._session is not None and not isinstance(shown, QUIET_EVENTS):
                self._session.agent._tasks.start(self._editor.above(partial(self._show_whole, shown)))

    def _show_whole(self, event: Event) -> None:
        self._screen.show(event)
        self._screen.pause()

    def _between(self, asker: PermissionPrompt) -> Handler:
        async def ask(question: PermissionRequest) -> None:
            async with self._editor.suspended():
                await asker(question)

        return ask

    def _form(self, form: FormPrompt) -> ElicitationHandler:
        async def ask(question: Elicitation) -> ElicitationAnswer:
            async with self._editor.suspended():
                return await form(question)

        return ask

    def _interrupt(self) -> None:
        if self._turn_now is None:
            assert self._task is not None
            self._task.cancel()
            return
        self._screen.pause()
        self._say("cancelling; Ctrl-C once more leaves at once\n")
        self._turn_now.session.agent._tasks.start(self._turn_now.cancel())

    def _may_show_output(self) -> bool:
        """Not into the line that somebody types."""
        return not self._editor.is_reading

    def _say(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_watched() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
