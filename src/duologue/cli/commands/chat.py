"""`duologue chat`: an interactive conversation with an agent in any terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from duologue.cli.agent_log import AgentLog, LogView, WireView, toggle_view
from duologue.cli.arguments import (
    apply_settings,
    close_session,
    connect_from_args,
    new_session,
    open_session,
    save_prompt,
    save_usage,
)
from duologue.cli.chat.line_editor import EditorCallbacks, LineEditor, asking_alone
from duologue.cli.chat.local_commands import completions, mentioned_files
from duologue.cli.chat.plain_editor import editor_for
from duologue.cli.chat.queue_commands import QUEUE_COMMANDS, enqueue, queue_lines, run_queue_command
from duologue.cli.chat.queued_prompts import QueuedPrompts
from duologue.cli.chat.session_commands import SessionCommands
from duologue.cli.chat.steering import Steering
from duologue.cli.chat.work_status import WorkStatus
from duologue.cli.console.echo_filter import QUIET_EVENTS, EchoFilter
from duologue.cli.console.form_prompt import FormPrompt
from duologue.cli.console.interrupts import Interrupts
from duologue.cli.console.line_reader import LineReader, is_interactive, terminal_to_ask
from duologue.cli.console.login_prompt import login_advice, terminal_login
from duologue.cli.console.permission_prompt import PermissionPrompt
from duologue.cli.console.renderer import ConsoleOutput
from duologue.cli.console.safe_output import say, terminal_width
from duologue.cli.console.summaries import TurnSummary
from duologue.cli.error_report import code_of_error, explain, next_step, without_stderr
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.mistakes import with_fitting_hint
from duologue.cli.permissions import wants_to_ask
from duologue.cli.unchecked_acts import UncheckedActs
from duologue.client.agent import RemoteAgent
from duologue.client.services.terminals import Terminals
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.errors import AuthenticationRequired, ConnectionLost, CrashLoop, DuologueError, RequestError, SessionLost
from duologue.events import Event
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import escape_line
from duologue.traceback_filter import trim_tracebacks

T = TypeVar("T")

LOG_SECONDS = 0.05
"""Time for what an agent wrote to stderr before an error to arrive after the error."""


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
        self._queue = QueuedPrompts()
        self._reader = LineReader(sys.stdin.fileno())
        self._reads_ahead = sys.stdin.isatty()
        self._editor: LineEditor = editor_for(
            self._reader,
            EditorCallbacks(
                offer=lambda before: completions(self._session, self._cwd, before),
                status=lambda width: self._status.lines(width),  # noqa: PLW0108  # it is made later
                interrupt=self._interrupt_by_key,
                is_working=lambda: not self._queue.is_idle,
            ),
        )
        self._queue.on_change = self._editor.refresh
        self._screen = ConsoleOutput(
            sys.stdout,
            sys.stderr,
            self._cwd,
            self._terminals,
            may_show_output=lambda: not self._editor.is_prompting,
            is_verbose=arguments.verbose,
            draft=self._editor.draft,
        )
        self._commands = SessionCommands(arguments, self._cwd, self._reader, self._editor)
        self._steering = Steering(self._queue, self._screen, self._editor)
        self._status = WorkStatus(self._queue, self._steering, self._screen, self._reader, self._editor)
        self._log_view = LogView(self._editor.above, self._screen.pause)
        self._log = AgentLog(self._log_view if arguments.stderr else None, has_all_frames=has_all_frames)
        self._wire_view = WireView(self._log, self._log_view, is_on=getattr(arguments, "wire", False))
        self._session: ClientSession | None = None
        self._echo = EchoFilter()
        self._acts = UncheckedActs(self._terminals)
        self._running_turn: ClientTurn | None = None
        self._is_done = False
        self._is_warm = is_interactive()

    async def run(self) -> ExitCode:
        """Connect to the agent and run the conversation to its end."""
        self._task = asyncio.current_task()
        with Interrupts(self._interrupt, self._editor.close) as self._interrupts, terminal_to_ask() as terminal:
            try:
                reader = self._reader if sys.stdin.isatty() else None if terminal is None else LineReader(terminal)
                is_asking = wants_to_ask(
                    self._arguments, reader is not None and (self._arguments.ask or is_interactive())
                )
                self._asking_reader = reader or self._reader
                await self._connect(reader if is_asking else None)
            except asyncio.CancelledError:
                return ExitCode.INTERRUPTED
            except (DuologueError, UsageError) as error:
                self._error(explain(error), error)
                return code_of_error(error)
        return ExitCode.OK

    async def _connect(self, reader: LineReader | None) -> None:
        on_request = None if reader is None else asking_alone(self._editor, PermissionPrompt(reader, self._screen))
        on_elicit = None if reader is None else asking_alone(self._editor, FormPrompt(reader, self._screen))
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
            agent.on_session, agent.on_subagent = self._opened, self._opened_subagent
            await self._open(agent)
            self._greet(agent)
            try:
                await self._converse(agent)
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
        if self._is_warm:
            agent._new_sessions.keep_spare(self._session._params)  # for `:new`

    def _greet(self, agent: RemoteAgent) -> None:
        name = "an agent" if agent.info is None else f"{agent.info.title or agent.info.name} {agent.info.version}"
        say(f"Connected to {escape_line(name)} in {self._cwd}. :help lists commands, Ctrl-D exits.\n")

    async def _converse(self, agent: RemoteAgent) -> None:
        """Read lines until the user exits, and let the turn that runs then end."""
        self._tasks = TaskScope()
        self._sender = self._tasks.start(self._send_prompts(agent))
        try:
            async with self._editor.active():
                await self._read_lines(agent)
                if unsent := self._queue.close():
                    say("not sent:\n" + "".join(f"  {text}\n" for text in unsent))
                if not self._queue.is_idle and self._reads_ahead:
                    say("the chat exits when this turn has ended; Ctrl-C cancels it\n")
                await self._unless_failed(self._queue.wait_until_idle())
                await self._steering.settle()
        finally:
            await self._tasks.cancel(1.0)

    async def _read_lines(self, agent: RemoteAgent) -> None:
        while not self._is_done:
            line = await self._unless_failed(self._editor.read())
            if line is None:
                return
            async with self._reporting_errors(agent):
                await self._handle_line(agent, line)
            if not self._reads_ahead:
                await self._unless_failed(self._queue.wait_until_idle())
            self._editor.refresh()

    async def _unless_failed(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work`, or raise the error that ended the conversation."""
        task = self._tasks.start(work)
        await asyncio.wait({task, self._sender}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            self._sender.result()
        return await task

    @asynccontextmanager
    async def _reporting_errors(self, agent: RemoteAgent) -> AsyncGenerator[None]:
        """Report errors after which the conversation can go on."""
        try:
            yield
        except ConnectionLost as error:
            self._lost(error)
        except SessionLost as error:
            self._error(f"{error}; `:new` opens a new session", error)
        except (DuologueError, UsageError) as error:
            if isinstance(error, RequestError):
                await asyncio.sleep(LOG_SECONDS)
            text = login_advice(agent, error) if isinstance(error, AuthenticationRequired) else explain(error)
            self._error(text, error)

    def _lost(self, error: ConnectionLost) -> None:
        """Report a lost agent that the next line starts again; raise the error if it cannot be started again."""
        if isinstance(error, CrashLoop) or not is_interactive():
            raise error
        self._error(f"{error}\nyour next line starts the agent again", error)

    async def _handle_line(self, agent: RemoteAgent, line: str) -> None:
        queue = self._queue
        if queue.edited is not None:
            queue.end_edit(line.removeprefix(":steer "))
        elif line.startswith(":"):
            await self._chat_command(agent, line[1:])
        elif line.strip():
            enqueue(queue, self._editor, line)
        elif queue.is_idle:
            queue.release()

    async def _send_prompts(self, agent: RemoteAgent) -> None:
        """Send one prompt after the other; hold the others after a turn that was cancelled or failed."""
        while True:
            self._screen.pause()
            prompt = await self._queue.next()
            self._editor.echo(prompt.text, has_waited=prompt.has_waited)
            is_complete = False
            async with self._reporting_errors(agent):
                is_complete = await self._turn(agent, prompt.text)
            if not is_complete:
                self._queue.hold()
            if self._queue.is_held and not self._editor.has_status:
                say("".join(f"{line}\n" for line in queue_lines(self._queue, terminal_width())))

    async def _turn(self, agent: RemoteAgent, line: str) -> bool:
        """Run a turn; return True if the agent ended it."""
        session = self._session
        assert session is not None, "lines are read after a session was opened"
        self._interrupts.count = 0
        began = time.monotonic()
        save_prompt(session, self._arguments, line)
        turn = session.prompt(line, files=mentioned_files(line, self._cwd))
        self._echo.begin(line)
        self._acts.begin()
        self._running_turn = turn
        self._status.can_steer = agent.capabilities.steering
        tasks = TaskScope()
        tasks.start(self._status.report_silence())
        try:
            await turn
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
        return turn.stop_reason == "end_turn"

    # --- commands of the chat itself

    async def _chat_command(self, agent: RemoteAgent, line: str) -> None:
        name, _, argument = line.strip().partition(" ")
        argument, session = argument.strip(), self._session
        assert session is not None, "lines are read after a session was opened"
        if name in QUEUE_COMMANDS:
            run_queue_command(self._queue, self._editor, name, argument)
            return
        if name != "steer":
            self._editor.echo(f":{line}")
        match name:
            case "cancel":
                await (session.cancel() if self._running_turn is None else self._running_turn.cancel())
            case "quit":
                self._is_done = True
            case "steer":
                self._echo.begin(argument)
                self._steering.start(self._running_turn, argument)
            case "new" | "resume" | "reload" if not self._queue.is_idle:
                raise UsageError(f"`:{name}` has to wait until the turn has ended; Ctrl-C cancels it")
            case "new":
                await self._open_new(agent)
            case "reload":
                await self._reload(agent)
            case "stderr" | "wire":
                is_on = toggle_view(name, self._log, self._log_view, self._wire_view)
                say(f"{name}: {'on' if is_on else 'off'}\n")
            case _:
                await self._change_session(await self._commands.run(agent, session, name, argument))

    async def _change_session(self, session: ClientSession) -> None:
        if session is self._session:
            return
        if self._session is not None:
            await close_session(self._session)
        self._session = session
        self._print_above(f"switched to session {escape_line(session.id)}\n")

    async def _open_new(self, agent: RemoteAgent) -> None:
        session = await new_session(agent, self._arguments)
        await self._change_session(session)
        await apply_settings(session, self._arguments)

    async def _reload(self, agent: RemoteAgent) -> None:
        """Start the agent again and resume the session; open a new one if the agent cannot."""
        session = self._session
        assert session is not None, "lines are read after a session was opened"
        await agent._supervisor.reconnect()
        try:
            await session._ensure_open()
        except SessionLost as error:
            self._print_above(f"{error}; opening a new one\n")
            await self._open_new(agent)
        else:
            self._print_above("the agent was started again, and the session goes on\n")

    # --- events and requests during a turn

    def _opened(self, session: ClientSession) -> None:
        session.watch(self._watch)

    def _opened_subagent(self, child: ClientSession) -> None:
        child.watch(lambda event: self._show(partial(self._screen.show_subagent, child.id, event)))

    def _watch(self, event: Event) -> None:
        for shown in self._echo.pass_on(event):
            if not self._editor.is_prompting or not isinstance(shown, QUIET_EVENTS):
                self._show(partial(self._screen.show, shown))

    def _show(self, show: Callable[[], None]) -> None:
        """Show an event, on lines of its own above the one that the user is typing if there is one."""
        if not self._editor.is_prompting:
            show()
            return

        def show_line() -> None:
            show()
            self._screen.pause()

        self._editor.above(show_line)

    def _interrupt(self) -> None:
        if self._running_turn is None:
            assert self._task is not None
            self._task.cancel()
            return
        self._asking_reader.interrupt()
        self._screen.pause()
        say("cancelling; press Ctrl-C again to exit immediately\n")
        self._running_turn.session.agent._tasks.start(self._running_turn.cancel())

    def _interrupt_by_key(self) -> bool:
        """Cancel the turn, or stop editing a queued prompt; return False if no turn runs."""
        if self._running_turn is None:
            self._queue.cancel_edit()
            return False
        self._interrupts.press()
        return True

    def _error(self, text: str, error: Exception) -> None:
        """Show an error after what the agent wrote to stderr."""
        advice = next_step(error)
        if self._log.show is not None:
            self._log_view.show_now()
            text, advice = without_stderr(text, error), ""
        text = trim_tracebacks(with_fitting_hint(text, self._arguments.command_line))
        self._screen.error(text, code_of_error(error))
        self._log.show_end(text, code_of_error(error), advice)

    def _print_above(self, text: str) -> None:
        """Print a line, above the one that the user is typing if there is one."""

        def show() -> None:
            self._log_view.show_now()
            self._screen.pause()
            say(text)

        self._editor.above(show)
