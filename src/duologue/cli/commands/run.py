"""`duologue run`: one turn with any agent, for people and scripts."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import deque
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from duologue.cli.agent_log import AgentLog, show_line
from duologue.cli.arguments import (
    apply_settings,
    close_session,
    connect_from_args,
    open_session,
    save_prompt,
    save_usage,
)
from duologue.cli.console.echo_filter import EchoFilter
from duologue.cli.console.form_prompt import FormPrompt
from duologue.cli.console.interrupts import Interrupts, exit_now
from duologue.cli.console.json_output import JsonLines
from duologue.cli.console.line_reader import LineReader, is_interactive, terminal_to_ask
from duologue.cli.console.login_prompt import login_advice, terminal_login
from duologue.cli.console.permission_prompt import PermissionPrompt
from duologue.cli.console.renderer import ConsoleOutput, Output
from duologue.cli.console.safe_output import say
from duologue.cli.console.summaries import TurnSummary
from duologue.cli.denial_advice import denial_advice
from duologue.cli.error_report import code_of_error, explain, next_step, without_stderr
from duologue.cli.exit_codes import STOP_CODES, ExitCode, UsageError
from duologue.cli.mistakes import with_fitting_hint
from duologue.cli.permissions import wants_to_ask
from duologue.cli.piped_input import read_piped
from duologue.cli.targets import name_of
from duologue.cli.unchecked_acts import UncheckedActs
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.actions import Action
from duologue.client.services.terminals import Terminals
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.errors import AuthenticationRequired, DuologueError, InvalidParams, RequestError
from duologue.events import Event, MediaContent, Message, Text
from duologue.sanitize import escape_line
from duologue.traceback_filter import trim_tracebacks

GRACE_SECONDS = 5.0
"""Seconds after the timeout until the program exits even if the agent does not end."""

MOST_REJECTED = 100
"""Rejected actions that are kept, to say how they can be allowed."""


def run(arguments: argparse.Namespace) -> int:
    """Run one turn; return the exit code that says how it ended."""
    began = time.monotonic()
    if arguments.stderr and getattr(arguments, "warm", False):
        raise UsageError("`--stderr` cannot be combined with `--warm`: the daemon reads the agent's stderr")
    try:
        prompt = _prompt_of(arguments)
    except TimeoutError as error:
        sys.stderr.write(f"duologue: {error}\n")
        return ExitCode.TIMEOUT
    if getattr(arguments, "no_wait", False):
        return _start_job(arguments, prompt)
    return run_prompt(arguments, prompt, began)


def run_prompt(arguments: argparse.Namespace, prompt: str, began: float | None = None) -> int:
    """Run one turn with this prompt; return the exit code that says how it ended."""
    return asyncio.run(_Run(arguments, prompt, time.monotonic() if began is None else began).run())


def _start_job(arguments: argparse.Namespace, prompt: str) -> ExitCode:
    """Let the daemon run the prompt, and print the id of the job."""
    import duologue
    from duologue.cli.warm_target import job_input
    from duologue.daemon.client import DaemonClient

    client = DaemonClient(duologue.__version__)
    text = job_input(arguments, prompt)
    job = asyncio.run(client.run(["duologue", "daemon", "job"], text, escape_line(name_of(arguments))))
    sys.stdout.write(f"{job}\n")
    return ExitCode.OK


class _Run:
    def __init__(self, arguments: argparse.Namespace, prompt: str, began: float) -> None:
        self._arguments = arguments
        self._began = began
        self._prompt = prompt
        self._cwd = Path(arguments.cwd).absolute()
        self._terminals = Terminals()
        self._shown: Output = (
            JsonLines(sys.stdout)
            if arguments.json
            else ConsoleOutput(sys.stdout, sys.stderr, self._cwd, self._terminals, is_verbose=arguments.verbose)
        )
        self._log = AgentLog(
            self._show_log if arguments.stderr else None, has_all_frames=getattr(arguments, "full_tracebacks", False)
        )
        self._agent: RemoteAgent | None = None
        self._session: ClientSession | None = None
        self._is_earlier = bool(arguments.session or arguments.continue_ or arguments.name)
        self._echo = EchoFilter()
        self._acts = UncheckedActs(self._terminals)
        self._running_turn: ClientTurn | None = None
        self._has_answered = False
        self._reader: LineReader | None = None
        self._denials = 0
        self._rejected: deque[Action] = deque(maxlen=MOST_REJECTED)
        self._output_error: OSError | None = None

    async def run(self) -> ExitCode:
        """Run the turn within the timeout; return its exit code."""
        self._task = asyncio.current_task()
        seconds = self._arguments.timeout
        if seconds is not None:
            seconds = max(0.0, seconds - (time.monotonic() - self._began))
        with Interrupts(self._interrupt) as self._interrupts:
            if seconds is not None:
                asyncio.get_running_loop().call_later(seconds + GRACE_SECONDS, self._exit_after_grace)
            try:
                async with asyncio.timeout(seconds):
                    return await self._connect()
            except asyncio.CancelledError:
                if self._output_error is not None:
                    raise self._output_error from None
                return ExitCode.INTERRUPTED
            except (DuologueError, UsageError, TimeoutError) as error:
                return self._fail(error)

    async def _connect(self) -> ExitCode:
        arguments = self._arguments
        with terminal_to_ask() as terminal:
            user = LineReader(terminal) if terminal is not None and (arguments.ask or is_interactive()) else None
            reader = self._reader = user if wants_to_ask(arguments, user is not None) else None
            async with connect_from_args(
                arguments,
                self._terminals,
                on_request=None if reader is None else PermissionPrompt(reader, self._shown),
                on_denied=self._deny,
                on_decision=self._acts.record,
                on_rejected=self._rejected.extend,
                on_elicit=None if reader is None else FormPrompt(reader, self._shown),
                login=None if user is None else terminal_login(user, self._shown, nullcontext),
                seconds=arguments.timeout or 0.0,
                on_stderr=self._log,
            ) as self._agent:
                self._agent.on_session, self._agent.on_subagent = self._opened, self._opened_subagent
                return await self._run_session(self._agent)

    async def _run_session(self, agent: RemoteAgent) -> ExitCode:
        session = self._session = await open_session(agent, self._arguments)
        if self._is_earlier:
            self._shown.opened(session.id, str(session.cwd))
        try:
            await apply_settings(session, self._arguments)
            save_prompt(session, self._arguments, self._prompt)
            try:
                turn = session.prompt(self._prompt, files=self._arguments.file, images=self._arguments.image)
            except InvalidParams as error:
                raise UsageError(str(error)) from None
            report = await self._turn(turn)
        finally:
            save_usage(session, self._arguments)
            await close_session(session)
        acts = self._acts.of(turn)
        if acts:
            self._shown.unchecked(acts)
        self._shown.end(report)
        say(denial_advice(self._rejected, self._arguments))
        return report.code

    async def _turn(self, turn: ClientTurn) -> TurnSummary:
        began = time.monotonic()
        self._running_turn = turn
        self._echo.begin(self._prompt)
        try:
            await turn
        finally:
            self._running_turn = None
            self._echo.end()
        return TurnSummary.of(turn, self._code(turn), began)

    def _code(self, turn: ClientTurn) -> ExitCode:
        code = STOP_CODES.get(turn.stop_reason or "", ExitCode.OK)
        if self._interrupts.count:
            return ExitCode.INTERRUPTED
        # Some agents end the turn after a denial and report it as cancelled.
        if code in (ExitCode.OK, ExitCode.INTERRUPTED) and self._denials:
            return ExitCode.DENIED
        return ExitCode.EMPTY_ANSWER if code is ExitCode.OK and not self._has_answered else code

    # --- events during the turn

    def _opened(self, session: ClientSession) -> None:
        """Watch a session before its first update; an earlier one is announced once the agent has opened it."""
        if not self._is_earlier:
            self._shown.opened(session.id, str(session.cwd))
        session.watch(self._watch)

    def _opened_subagent(self, child: ClientSession) -> None:
        child.watch(partial(self._watch, child=child))

    def _watch(self, event: Event, child: ClientSession | None = None) -> None:
        is_past = self._is_earlier and (self._session is None or not self._session._prompts.is_prompted)
        if is_past or self._output_error is not None:
            return
        try:
            if child is not None:
                self._shown.show_subagent(child.id, event)
                return
            self._has_answered |= _is_answer(event)
            for shown in [event] if self._arguments.json else self._echo.pass_on(event):
                self._shown.show(shown)
        except OSError as error:
            self._stop_writing(error)

    def _stop_writing(self, error: OSError) -> None:
        """Cancel the turn because stdout was closed, or its disk is full."""
        self._output_error = error
        if self._task is not None:
            self._task.cancel()

    def _deny(self, what: str) -> None:
        self._denials += 1
        self._shown.denied(what)

    def _interrupt(self) -> None:
        if self._session is None or self._running_turn is None:
            assert self._task is not None
            self._task.cancel()
            return
        if self._reader is not None:
            self._reader.interrupt()
        self._shown.pause()
        sys.stderr.write("cancelling; press Ctrl-C again to exit immediately\n")
        self._session.agent._tasks.start(self._running_turn.cancel())

    def _exit_after_grace(self) -> None:
        """Report a timeout and exit, because the agent did not end within the grace time either."""
        self._fail(TimeoutError())
        exit_now(ExitCode.TIMEOUT)

    def _fail(self, error: Exception) -> ExitCode:
        code = code_of_error(error)
        is_denial = code is ExitCode.AGENT_ERROR and isinstance(error, RequestError) and self._denials > 0
        if is_denial:  # the agent did not handle that it was denied something
            code = ExitCode.DENIED
        text = with_fitting_hint(explain(error), self._arguments.command_line)
        if isinstance(error, TimeoutError):
            text = f"the agent did not finish within {self._arguments.timeout:g} s"
        elif isinstance(error, AuthenticationRequired):
            text = login_advice(self._agent, error)
        text = trim_tracebacks(text if self._log.show is None else without_stderr(text, error))
        self._shown.error(text, code, error)
        if self._arguments.json:
            sys.stderr.write(f"duologue: {text}\n")
        self._log.show_end(text, code, next_step(error))
        say(denial_advice(self._rejected, self._arguments) if is_denial else "")
        return code

    def _show_log(self, line: str) -> None:
        self._shown.pause()
        show_line(line)


def _prompt_of(arguments: argparse.Namespace) -> str:
    """Read the prompt; what is piped into the command follows it.

    Raises:
        UsageError: It cannot be read, is not UTF-8, or is empty.
        TimeoutError: Stdin was not closed in time.
    """
    source = arguments.prompt_file
    given = source is not None or arguments.prompt is not None
    try:
        if source == "-":
            return _checked(sys.stdin.buffer.read(), "the prompt")
        prompt = os.fsencode(arguments.prompt or "") if source is None else Path(source).read_bytes()
        text = _checked(prompt, "the prompt") if given else ""
        piped = read_piped(has_prompt=given, seconds=arguments.timeout)
    except TimeoutError:
        raise
    except OSError as error:
        raise UsageError(f"cannot read the prompt from {source or 'stdin'}: {error.strerror}") from None
    if not given and not piped:
        raise UsageError("run needs a prompt: as an argument, with `-f FILE`, or piped into it")
    if not piped.strip():
        return text
    return f"{text}\n\n{_checked(piped, 'stdin')}".lstrip("\n")


def _checked(data: bytes, what: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{what} is not UTF-8") from None
    if not text.strip():
        raise UsageError(f"{what} is empty")
    return text


def _is_answer(event: Event) -> bool:
    match event:
        case Text() | Message(role="agent"):
            return bool(event.text.strip())
        case _:
            return isinstance(event, MediaContent)
