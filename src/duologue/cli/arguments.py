"""Open the session a command line asks for: start the agent, log in, open or continue a session, apply settings."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from pathlib import Path

from msgspec.structs import replace

from duologue.cli.console.safe_output import Style, say
from duologue.cli.error_report import next_step
from duologue.cli.exit_codes import UsageError
from duologue.cli.mcp_servers import mcp_servers
from duologue.cli.permissions import permissions_for
from duologue.cli.recordings import own_patterns
from duologue.cli.targets import lock_for, name_of, target_of, versions_for
from duologue.client.agent import RemoteAgent
from duologue.client.auth import AuthOptions
from duologue.client.connect import INITIALIZE_SECONDS
from duologue.client.permissions.actions import Action
from duologue.client.permissions.prompter import Handler
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.elicitation import ElicitationHandler
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.client.target import AgentTarget, Target
from duologue.config.recordings import new_recording
from duologue.config.sessions import (
    OpenedSession,
    opened_sessions,
    save_continued,
    save_session,
    save_title,
    session_named,
)
from duologue.config.sessions import save_usage as save_session_usage
from duologue.conversation.session_setup import McpServer, SessionInfo
from duologue.errors import DuologueError, InvalidParams, MethodNotFound, ResourceNotFound
from duologue.named_agents import connect
from duologue.recording.recorder import Recorder
from duologue.runtime.observers import FrameObserver
from duologue.sanitize import escape_line

START_NOTICE_SECONDS = 1.0
"""Time for an agent to start before a line says that it is starting."""

CLOSE_SECONDS = 5.0
"""Time for an agent to close a session whose turns have ended."""


@contextlib.asynccontextmanager
async def connect_from_args(
    arguments: argparse.Namespace,
    terminals: Terminals,
    *,
    on_request: Handler | None,
    on_denied: Callable[[str], None],
    on_decision: Callable[[PermissionRequest], None] = lambda request: None,
    on_rejected: Callable[[list[Action]], None] = lambda actions: None,
    on_elicit: ElicitationHandler | None = None,
    login: AuthOptions | None = None,
    restart: bool = False,
    seconds: float = 0.0,
    on_stderr: Callable[[bytes], None] | None = None,
    observers: tuple[FrameObserver, ...] = (),
) -> AsyncGenerator[RemoteAgent]:
    """Connect to the agent the arguments name, with the files and commands they allow."""
    cwd = _directory(arguments.cwd)
    # Check the arguments before a process is started.
    mcp_servers(arguments.mcp)
    parse_key_values(arguments.set, "--set")
    target, env = target_of(arguments), parse_key_values(arguments.env, "--env")
    permissions = permissions_for(arguments, on_request, on_denied, on_decision, on_rejected)
    with _recorder(arguments.record, env) as recorders, _start_notice(arguments) as is_started:
        async with connect(
            _warm(target, env, on_stderr, arguments) if getattr(arguments, "warm", False) else target,
            permissions=permissions,
            workspace=Workspace(cwd),
            terminals=terminals,
            on_elicit=on_elicit,
            observers=(*recorders, *observers),
            env=env,
            lock=lock_for(target, arguments),
            login=login,
            restart=restart,
            stall_timeout=arguments.stall_timeout,
            startup_timeout=max(INITIALIZE_SECONDS, seconds),
            protocol_versions=versions_for(arguments),
            unstable=True,
            dialect=arguments.dialect,
            on_stderr=on_stderr,
        ) as agent:
            is_started()
            yield agent


def _warm(
    target: Target, env: dict[str, str], on_stderr: Callable[[bytes], None] | None, arguments: argparse.Namespace
) -> AgentTarget:
    from duologue.cli.warm_target import WarmTarget

    return WarmTarget(target, env=env, on_stderr=on_stderr, lock=lock_for(target, arguments))


@contextlib.contextmanager
def _start_notice(arguments: argparse.Namespace) -> Generator[Callable[[], None]]:
    """Print one line on a terminal if the agent has not started after a second; the function stops that."""

    def show() -> None:
        if sys.stderr.isatty():
            name = getattr(arguments, "source", None) or name_of(arguments)
            say(f"starting {escape_line(name)} ...\n", Style.DIM)

    notice = asyncio.get_running_loop().call_later(START_NOTICE_SECONDS, show)
    try:
        yield notice.cancel
    finally:
        notice.cancel()


@contextlib.contextmanager
def _recorder(named: str | None, env: dict[str, str]) -> Generator[tuple[Recorder, ...]]:
    """Open the recorder that `--record` asks for, if any; without a file name, print the path of the new file.

    Raises:
        UsageError: The file cannot be written.
    """
    if named is None:
        yield ()
        return
    try:
        recorder = Recorder(named or new_recording(), patterns=own_patterns(), env=env)
    except OSError as error:
        raise UsageError(f"--record {error.filename or named}: {error.strerror}") from None
    if not named:
        sys.stderr.write(f"recording to {recorder.path}\n")
    with recorder:
        yield (recorder,)
    if recorder.lost:
        sys.stderr.write(f"duologue: {recorder.lost} messages are missing from {recorder.path}\n")


def _directory(named: str) -> Path:
    path = Path(named).absolute()
    if not path.is_dir():
        raise UsageError(f"--cwd {named}: no such directory")
    return path


def parse_key_values(given: Sequence[str], option: str) -> dict[str, str]:
    """Parse `NAME=VALUE` arguments.

    Raises:
        UsageError: An argument has another form.
    """
    wrong = next((pair for pair in given if not pair.partition("=")[1] or pair.startswith("=")), None)
    if wrong is not None:
        raise UsageError(f"{option} {wrong}: expected NAME=VALUE")
    return {name: value for name, _, value in (pair.partition("=") for pair in given)}


async def open_session(
    agent: RemoteAgent, arguments: argparse.Namespace, *, is_replayed: bool = False
) -> ClientSession:
    """Open the session the arguments name, or a new one.

    Args:
        agent: The connected agent.
        arguments: The parsed command line.
        is_replayed: Load an earlier session with its history, if the agent can, instead of resuming it.

    Raises:
        UsageError: The agent does not offer it.
    """
    servers = mcp_servers(arguments.mcp)
    try:
        if arguments.login is not None:
            await agent.login(arguments.login)
        wanted = arguments.session or _named(agent, arguments)
        if arguments.continue_:
            wanted = await _newest(agent, arguments.cwd)
        if wanted is None:
            return await new_session(agent, arguments)
        try:
            session = await reopen_session(agent, wanted, arguments.cwd, servers, is_replayed=is_replayed)
            restore_saved(session, arguments)
            return session
        except ResourceNotFound:
            if arguments.name is None:
                raise
            sys.stderr.write(f"the session {escape_line(arguments.name)!r} no longer exists: opening a new one\n")
            return await new_session(agent, arguments)
    except (MethodNotFound, InvalidParams, ResourceNotFound) as error:
        step = next_step(error)
        raise UsageError(f"{error}; {step}" if step else str(error)) from error


async def new_session(agent: RemoteAgent, arguments: argparse.Namespace) -> ClientSession:
    """Open a new session in the directory of the arguments, and save its id under the name they give."""
    session = await agent.new_session(arguments.cwd, mcp_servers=mcp_servers(arguments.mcp))
    _save(arguments, session.id)
    return session


def _save(arguments: argparse.Namespace, session_id: str) -> None:
    cwd, name = str(Path(arguments.cwd).resolve()), arguments.name
    is_run = arguments.command == "run" and name is None
    opened = OpenedSession(agent=name_of(arguments), cwd=cwd, session_id=session_id, name=name, is_run=is_run)
    try:
        save_session(opened)
    except OSError as error:
        if arguments.name is not None:
            raise UsageError(f"-s {arguments.name}: the name cannot be saved: {error}") from None


def save_prompt(session: ClientSession, arguments: argparse.Namespace, prompt: str) -> None:
    """Save the first prompt of a new session as its title, for agents that give their sessions none."""
    if not session._prompts.is_prompted:
        with contextlib.suppress(OSError):
            save_title(name_of(arguments), session.id, prompt)


def restore_saved(session: ClientSession, arguments: argparse.Namespace) -> None:
    """Count on from the usage that earlier programs have saved for a session, which is continued now."""
    with contextlib.suppress(OSError):
        save_continued(name_of(arguments), session.id)
    known = opened_sessions(name_of(arguments)).get(session.id)
    if known is not None and (state := known.usage_state) is not None:
        session.restore_usage(state)


def save_usage(session: ClientSession, arguments: argparse.Namespace) -> None:
    """Save the usage of a session, if its agent reports any."""
    usage = session.usage
    if usage.text or usage.warnings:
        with contextlib.suppress(OSError):
            save_session_usage(name_of(arguments), str(Path(arguments.cwd).resolve()), session.id, session.usage_state)


def _named(agent: RemoteAgent, arguments: argparse.Namespace) -> str | None:
    """Return the id of the session of the name that was given, if there is one."""
    if arguments.name is None:
        return None
    if not (agent.capabilities.load or agent.capabilities.resume):
        raise UsageError("-s: this agent cannot continue sessions")
    return session_named(arguments.name, name_of(arguments), str(Path(arguments.cwd).resolve()))


async def reopen_session(
    agent: RemoteAgent, session_id: str, cwd: str, servers: Sequence[McpServer], *, is_replayed: bool
) -> ClientSession:
    """Load or resume an earlier session; `is_replayed` prefers loading.

    If the agent advertises a method but answers it with -32601, the other one is tried.
    """
    features = agent.capabilities
    offered = [
        reopen
        for is_offered, reopen in ((features.load, agent.load_session), (features.resume, agent.resume_session))
        if is_offered
    ]
    methods = (offered if is_replayed else offered[::-1]) or [agent.load_session]
    for reopen in methods[:-1]:
        with contextlib.suppress(MethodNotFound):
            return await reopen(session_id, cwd, mcp_servers=servers)
    return await methods[-1](session_id, cwd, mcp_servers=servers)


async def close_session(session: ClientSession) -> None:
    """Close a session whose turns have ended; ignore failures, which cannot change them."""
    with contextlib.suppress(DuologueError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await session.aclose()


async def sessions_here(agent: RemoteAgent, cwd: str | Path) -> list[SessionInfo]:
    """Return the sessions of a directory; some agents ignore the filter and list all of theirs."""
    return [each for each in await agent.list_sessions(cwd=cwd) if _is_same_directory(each.cwd, cwd)]


def with_titles(known: Sequence[SessionInfo], arguments: argparse.Namespace) -> list[SessionInfo]:
    """Return the sessions with the first prompt as the title of each that has none, as far as it is known."""
    opened = opened_sessions(name_of(arguments))
    titles = {session_id: each.title for session_id, each in opened.items()}
    return [each if each.title else replace(each, title=titles.get(each.session_id)) for each in known]


def runs_last(known: Sequence[SessionInfo], arguments: argparse.Namespace) -> list[tuple[SessionInfo, str]]:
    """Return the sessions, newest first, those of a single `run` after the others; with `(run)` for each of those."""
    runs = {session_id for session_id, each in opened_sessions(name_of(arguments)).items() if each.is_run}
    newest = sorted(with_titles(known, arguments), key=lambda info: info.updated_at or "", reverse=True)
    marked = [(info, "(run)" if info.session_id in runs else "") for info in newest]
    return sorted(marked, key=lambda each: bool(each[1]))


def _is_same_directory(one: str, other: str | Path) -> bool:
    return not one or Path(one).resolve() == Path(other).resolve()


async def _newest(agent: RemoteAgent, cwd: str) -> str:
    found = await sessions_here(agent, cwd)
    if not found:
        raise UsageError("--continue: the agent has no session in this directory")
    return max(found, key=lambda each: each.updated_at or "").session_id


async def apply_settings(session: ClientSession, arguments: argparse.Namespace) -> None:
    """Apply `--mode` and `--set`.

    Raises:
        UsageError: The agent has no such mode, setting or value.
    """
    if arguments.mode is not None:
        await change_mode(session, arguments.mode)
    for name, value in parse_key_values(arguments.set, "--set").items():
        await change_setting(session, name, value)


async def change_mode(session: ClientSession, given: str) -> None:
    """Switch the mode, by its id, its name or the last word of its id.

    Raises:
        UsageError: No mode matches.
    """
    modes = session.modes
    known = [] if modes is None else [(mode.mode_id, mode.name) for mode in modes.available]
    mode_id = find_choice(given, known)
    if mode_id is None:
        listed = ", ".join(mode_id for mode_id, _ in known) or "none"
        raise UsageError(f"unknown mode {given!r}; available: {listed}")
    await session.set_mode(mode_id)


def find_choice(given: str, known: Sequence[tuple[str, str]]) -> str | None:
    """Return the id that equals the given text, else the only one of that name, else the only one ending with it.

    Args:
        given: Text that the user typed.
        known: Ids with their names. Many agents use URLs as ids: `https://…/session-modes#plan`.
    """
    if any(known_id == given for known_id, _ in known):
        return given
    named = [known_id for known_id, name in known if name.casefold() == given.casefold()]
    ending = [known_id for known_id, _ in known if re.search(rf"(?:\W|_){re.escape(given)}\Z", known_id)]
    return next((found[0] for found in (named, ending) if len(found) == 1), None)


async def change_model(session: ClientSession, given: str) -> None:
    """Switch the model, by its id, its name or the last word of its id."""
    offered = [] if session.models is None else [(each.value, each.name) for each in session.models.choices]
    await session.set_model(find_choice(given, offered) or given)


async def change_setting(session: ClientSession, name: str, value: str) -> None:
    """Change one setting.

    Raises:
        UsageError: No setting has that name, or it does not accept the value.
    """
    setting = next((each for each in session.settings if each.setting_id == name), None)
    if setting is None and name == "model" and session.models is not None:
        await change_model(session, value)
        return
    if setting is None:
        known = ", ".join(each.setting_id for each in session.settings) or "none"
        raise UsageError(f"unknown setting {name!r}; available: {known}")
    if setting.kind == "boolean":
        if value not in ("true", "false"):
            raise UsageError(f"{name} must be true or false, not {value!r}")
        await session.set_option(name, value == "true")
        return
    offered = [(option.value, option.name) for option in setting.choices]
    found = find_choice(value, offered) if offered else value
    if found is None:
        raise UsageError(f"{name} cannot be {value!r}; available: {', '.join(value for value, _ in offered)}")
    await session.set_option(name, found)
