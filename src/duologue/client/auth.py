"""Logging in: who chooses the way, and what each way takes.

    agent        the agent is asked to do it, by a browser or however it likes
    terminal     the agent's own program runs once more on the user's terminal, with the arguments the method adds
    variables    (an older draft) the agent finds what it needs in its environment, and is started again if it was not

Whatever goes wrong ends as `AuthenticationRequired`, and says what is missing.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, ValidationError, convert

from duologue.client.target import AgentTarget
from duologue.errors import AuthenticationRequired, DuologueError, InvalidParams, RequestError
from duologue.protocol.values import AuthMethod
from duologue.sanitize import escape_line
from duologue.transports.process.environment import inherited

if TYPE_CHECKING:
    from duologue.client.agent import RemoteAgent
    from duologue.client.session import ClientSession

__all__ = [
    "AuthMethodChooser",
    "AuthOptions",
    "Authenticator",
    "LoginProgram",
    "LoginRunner",
    "can_use_terminal",
    "describe",
    "on_own_terminal",
]

END_SECONDS = 2.0
"""For a login program that is no longer wanted to put the terminal in order."""

Choice: TypeAlias = AuthMethod | str | None
AuthMethodChooser: TypeAlias = Callable[[list[AuthMethod]], Choice | Awaitable[Choice]]
"""Is given the ways to log in, and returns one of them, its id, or None to leave it."""


@dataclass(frozen=True)
class LoginProgram:
    """What a login in a terminal runs.

    Attributes:
        argv: The program and its arguments.
        env: Its whole environment.
        cwd: Where it runs; here if not given.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str | Path | None = None


LoginRunner: TypeAlias = Callable[[LoginProgram], Awaitable[int]]
"""Runs a program for the user to log in with, and returns its exit status."""


@dataclass(frozen=True)
class AuthOptions:
    """How to log in when an agent wants it.

    Attributes:
        choose: Picks the method; a plain text is its id.
        run: Shows a login program to the user; on this program's own terminal if not given.
        credentials: By the id of a method, what an agent of the dialect `seed-004` is sent to log in with; no other
            agent is sent any.
    """

    choose: AuthMethodChooser | str
    run: LoginRunner | None = None
    credentials: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]], repr=False, hash=False
    )

    def credentials_for(self, method_id: str) -> Mapping[str, str] | None:
        """What to log in with by this method."""
        return self.credentials.get(method_id)

    async def pick(self, methods: list[AuthMethod]) -> AuthMethod | None:
        """The method that was chosen.

        Raises:
            InvalidParams: The agent has no such method.
        """
        chosen = self.choose if isinstance(self.choose, str) else self.choose(methods)
        choice = await chosen if isawaitable(chosen) else chosen
        return choice if choice is None or isinstance(choice, AuthMethod) else find(methods, choice)


class Authenticator:
    """The logins at one agent.

    Attributes:
        count: How many there were; whoever was refused before the last of them need not log in again.
    """

    def __init__(self, way: AgentTarget, login: AuthOptions | None) -> None:
        self.count = 0
        self._way = way
        self._login = login
        self._order = asyncio.Lock()
        self._known = inherited(way.env)

    async def settle(
        self, agent: RemoteAgent, refusal: AuthenticationRequired, since: int, session: ClientSession | None
    ) -> None:
        """Log in because a request was refused; afterwards it can be sent once more.

        Args:
            agent: The agent that refused.
            refusal: Its answer.
            since: How many logins there had been when the request was sent.
            session: The session that the request is about.

        Raises:
            AuthenticationRequired: No method was chosen, or the login failed.
            RequestError: The error was no demand for a login. There are agents that use -32000 for other errors: from
                one without login methods it is a demand only as long as no session is open.
        """
        if session is not None and session.is_reached and not agent.login_methods:
            raise RequestError(refusal.message, data=refusal.data, code=refusal.code) from refusal
        async with self._order:
            if self.count != since:
                return  # somebody else has logged in meanwhile
            methods = agent.login_methods
            method = await self._login.pick(methods) if self._login is not None and methods else None
            if method is None:
                raise AuthenticationRequired(self._advice(refusal, methods), data=refusal.data) from refusal
            try:
                await self._log_in(agent, method)
            except DuologueError as error:
                told = f"logging in by {escape_line(method.name)!r} failed: {error}"
                raise AuthenticationRequired(told, data=refusal.data) from error

    async def log_in(self, agent: RemoteAgent, method_id: str) -> None:
        """Log in by a method the agent offers.

        Raises:
            InvalidParams: There is no such method, or it cannot be run here.
            AuthenticationRequired: It did not succeed.
        """
        async with self._order:
            await self._log_in(agent, find(agent.login_methods, method_id))

    async def _log_in(self, agent: RemoteAgent, method: AuthMethod) -> None:
        if method.is_terminal or _foreign_program(method) is not None:
            await self._in_terminal(agent, method)
        elif (wanted := _wanted_variables(method)) is not None:
            await self._by_variables(agent, method, wanted)
        else:
            await agent._proxy.login(method.method_id)
        self.count += 1

    async def _in_terminal(self, agent: RemoteAgent, method: AuthMethod) -> None:
        program = program_for(self._way, method)
        run = self._login.run if self._login is not None and self._login.run is not None else on_own_terminal
        status = await run(program)
        if status != 0:
            raise AuthenticationRequired(f"`{shlex.join(program.argv)}` ended with {status}")
        # protocol/v1/authentication: the agent that runs has not seen what the other process did.
        await agent._supervisor.reconnect()

    async def _by_variables(self, agent: RemoteAgent, method: AuthMethod, wanted: _Wanted) -> None:
        there = inherited(self._way.env)
        missing = [name for name in wanted.needed if not there.get(name)]
        if missing:
            where = f" (see {escape_line(wanted.link)})" if wanted.link else ""
            raise AuthenticationRequired(f"set {_listed(missing)} in the environment first{where}")
        if self._way.command is not None and any(self._known.get(name) != there.get(name) for name in wanted.names):
            await agent._supervisor.reconnect()  # a process sees what there was when it was started
            self._known = there
        await agent._proxy.login(method.method_id)

    def _advice(self, refusal: AuthenticationRequired, methods: Sequence[AuthMethod]) -> str:
        if not methods:
            return f"{refusal}; it names no way to log in, so its own documentation has to"
        listed = "".join(f"\n  {escape_line(each.method_id)}: {describe(each, self._way)}" for each in methods)
        return f"{refusal}; log in by one of these methods first (`connect(login=…)`, `agent.login(…)`):{listed}"


def find(methods: Sequence[AuthMethod], method_id: str) -> AuthMethod:
    """The method of this id.

    Raises:
        InvalidParams: There is none.
    """
    method = next((each for each in methods if each.method_id == method_id), None)
    if method is None:
        known = ", ".join(each.method_id for each in methods) or "none"
        raise InvalidParams(f"no such login method: {method_id!r} (there are: {known})")
    return method


def describe(method: AuthMethod, way: AgentTarget | None = None) -> str:
    """A method in one line, and what it asks of the user."""
    told = escape_line(method.name) + (f", {escape_line(method.description)}" if method.description else "")
    foreign = None if method.is_terminal else _foreign_program(method)
    if foreign is not None:
        return f"{told} (in a terminal: {escape_line(shlex.join([foreign.command, *foreign.args]))})"
    if method.is_terminal:
        argv = None if way is None or way.command is None else program_for(way, method).argv
        return f"{told} (in a terminal{'' if argv is None else f': {escape_line(shlex.join(argv))}'})"
    wanted = _wanted_variables(method)
    return told if wanted is None else f"{told} (by the environment: {_listed(wanted.needed)})"


def program_for(way: AgentTarget, method: AuthMethod) -> LoginProgram:
    """The program of a login in a terminal: the agent's own, with what the method adds to it.

    Raises:
        InvalidParams: The agent is no program of ours.
    """
    command = way.command
    if command is None:
        raise InvalidParams(
            f"{method.name!r} needs a terminal that the agent's own program runs in, and it was not started from here"
        )
    foreign = _foreign_program(method)
    if foreign is not None and not method.is_terminal:
        argv = [foreign.command, *foreign.args]
        return LoginProgram(argv, inherited({**way.env, **foreign.env}), way.cwd)
    # schema v1, AuthMethodTerminal: arguments are appended to the invocation, and variables override.
    return LoginProgram([*command, *method.args], inherited({**way.env, **method.env}), way.cwd)


class _ForeignProgram(Struct):
    command: str
    args: list[str] = []
    env: dict[str, str] = {}


def _foreign_program(method: AuthMethod) -> _ForeignProgram | None:
    """A command that agents put into `_meta` before the protocol had a way to say it."""
    with suppress(ValidationError):
        return convert((method.meta or {}).get("terminal-auth"), _ForeignProgram)
    return None


class _Variable(Struct):
    name: str
    optional: bool = False


class _Wanted(Struct, rename="camel"):
    """Variables as two stages of the draft had them."""

    vars: list[_Variable] = []
    var_name: str | None = None
    var_names: list[str] = []
    link: str | None = None

    @property
    def needed(self) -> list[str]:
        named = [*self.var_names, *([] if self.var_name is None else [self.var_name])]
        return list(dict.fromkeys([*(each.name for each in self.vars if not each.optional), *named]))

    @property
    def names(self) -> list[str]:
        return [*self.needed, *(each.name for each in self.vars if each.optional)]


def _wanted_variables(method: AuthMethod) -> _Wanted | None:
    """What an agent wants to find in its environment, if it says so in its own fields or in `_meta`."""
    for said in (method.other, method.meta):
        with suppress(ValidationError):
            wanted = convert(said, _Wanted)
            if wanted.names:
                return wanted
    return None


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(escape_line, names))


def can_use_terminal(way: AgentTarget, login: AuthOptions | None) -> bool:
    """Whether a login in a terminal could run: of a program started from here, where its user sees a terminal."""
    if way.command is None:
        return False
    if login is not None and login.run is not None:
        return True
    try:
        with _terminal():
            return True
    except AuthenticationRequired:
        return False


async def on_own_terminal(program: LoginProgram) -> int:
    """Run it where the user of this program is.

    Raises:
        AuthenticationRequired: There is no terminal, or no such program.
    """
    with _terminal() as terminal:
        try:
            process = await asyncio.create_subprocess_exec(
                *program.argv, env=program.env, cwd=program.cwd, stdin=terminal, stdout=terminal, stderr=terminal
            )
        except OSError as error:
            raise AuthenticationRequired(f"cannot run {program.argv[0]!r}: {error.strerror}") from error
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
            return
    process.kill()
    await process.wait()


@contextmanager
def _terminal() -> Generator[int | None]:
    """A descriptor of the user's terminal; None if our own stdio is that terminal."""
    if all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        yield None
        return
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        raise AuthenticationRequired("this login needs a terminal, and there is none here") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
