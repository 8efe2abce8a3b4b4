"""Authentication: choosing one of the agent's methods, and running it.

    agent        the agent is sent `authenticate` and logs in by itself, for example in a browser
    terminal     the agent's program runs once more on the user's terminal, with the arguments of the method
    variables    (an older draft) the agent reads environment variables, and is started again if they have changed

Every failure is an `AuthenticationRequired` that says what is missing.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
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

END_SECONDS = 2.0
"""Time for a cancelled login program to reset the terminal."""

Choice: TypeAlias = AuthMethod | str | None
AuthMethodChooser: TypeAlias = Callable[[list[AuthMethod]], Choice | Awaitable[Choice]]
"""Called with the login methods; returns one of them, its id, or `None` to log in with none."""


class LoginProgram(Struct, frozen=True):
    """The program that a login in a terminal runs.

    Attributes:
        argv: Program and arguments.
        env: Complete environment.
        cwd: Working directory; `None`: the current one.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str | Path | None = None


LoginRunner: TypeAlias = Callable[[LoginProgram], Awaitable[int]]
"""Called with a program for the user to log in with; returns its exit status."""


class AuthOptions(Struct, frozen=True):
    """How to log in when the agent requires it.

    Attributes:
        choose: Id of the login method, or a function that chooses one.
        run: Runs a login program for the user. Default: on the terminal of this process.
        credentials: Credentials by method id, sent only to agents of the dialect `seed-004`.
    """

    choose: AuthMethodChooser | str
    run: LoginRunner | None = None
    credentials: Mapping[str, Mapping[str, str]] = {}

    def __repr__(self) -> str:
        return f"AuthOptions(choose={self.choose!r}, run={self.run!r})"

    def credentials_for(self, method_id: str) -> Mapping[str, str] | None:
        """Return the credentials of a login method."""
        return self.credentials.get(method_id)

    async def pick(self, methods: list[AuthMethod]) -> AuthMethod | None:
        """Return the chosen method.

        Raises:
            InvalidParams: The agent has no such method.
        """
        chosen = self.choose if isinstance(self.choose, str) else self.choose(methods)
        choice = await chosen if isawaitable(chosen) else chosen
        return choice if choice is None or isinstance(choice, AuthMethod) else find(methods, choice)


class Authenticator:
    """Authenticates the user to one agent.

    Attributes:
        count: Number of authentications so far: a request that was sent before the last one is only sent again.
    """

    def __init__(self, agent: RemoteAgent, target: AgentTarget, options: AuthOptions | None) -> None:
        self.count = 0
        self._agent = agent
        self._target = target
        self._options = options
        self._lock = asyncio.Lock()
        self._environment = inherited(target.env)

    async def authenticate(self, error: AuthenticationRequired, since: int, session: ClientSession | None) -> None:
        """Log in because a request failed, so that it can be sent once more.

        Args:
            error: The response of the agent.
            since: `count` when the request was sent.
            session: The session of the request.

        Raises:
            AuthenticationRequired: No method was chosen, or the login failed.
            RequestError: The error did not ask for a login. There are agents that use -32000 for other errors: without
                login methods and in an open session it means something else.
        """
        if session is not None and session._is_current and not self._agent.login_methods:
            raise RequestError(error.message, data=error.data, code=error.code) from error
        async with self._lock:
            if self.count != since:
                return  # another request has logged in meanwhile
            methods = self._agent.login_methods
            method = await self._options.pick(methods) if self._options is not None and methods else None
            if method is None:
                raise AuthenticationRequired(self._advice(error, methods), data=error.data) from error
            try:
                await self._authenticate(method)
            except DuologueError as failure:
                message = f"logging in by {escape_line(method.name)!r} failed: {failure}"
                raise AuthenticationRequired(message, data=error.data) from failure

    async def authenticate_by(self, method_id: str) -> None:
        """Log in with a method that the agent offers.

        Raises:
            InvalidParams: The agent has no such method, or this client cannot run it.
            AuthenticationRequired: The login failed.
        """
        async with self._lock:
            await self._authenticate(find(self._agent.login_methods, method_id))

    async def _authenticate(self, method: AuthMethod) -> None:
        if method.is_terminal or _foreign_program(method) is not None:
            await self._in_terminal(method)
        elif (wanted := _wanted_variables(method)) is not None:
            await self._by_variables(method, wanted)
        else:
            await self._agent._proxy.authenticate(method.method_id)
        self.count += 1

    async def _in_terminal(self, method: AuthMethod) -> None:
        program = program_for(self._target, method)
        run = self._options.run if self._options is not None and self._options.run is not None else on_own_terminal
        status = await run(program)
        if status != 0:
            raise AuthenticationRequired(f"`{shlex.join(program.argv)}` ended with {status}")
        # protocol/v1/authentication: the running agent does not know what the other process did.
        await self._agent._supervisor.reconnect()

    async def _by_variables(self, method: AuthMethod, wanted: _Wanted) -> None:
        environment = inherited(self._target.env)
        missing = [name for name in wanted.needed if not environment.get(name)]
        if missing:
            where = f" (see {escape_line(wanted.link)})" if wanted.link else ""
            raise AuthenticationRequired(f"set {_listed(missing)} in the environment first{where}")
        if self._target.command is not None and any(
            self._environment.get(name) != environment.get(name) for name in wanted.names
        ):
            await self._agent._supervisor.reconnect()  # a process has the environment of its start
            self._environment = environment
        await self._agent._proxy.authenticate(method.method_id)

    def _advice(self, error: AuthenticationRequired, methods: Sequence[AuthMethod]) -> str:
        if not methods:
            return f"{error}; it offers no login methods, so see its own documentation"
        listed = "".join(f"\n  {escape_line(each.method_id)}: {describe(each, self._target)}" for each in methods)
        return f"{error}; log in by one of these methods first (`connect(login=…)`, `agent.login(…)`):{listed}"


def find(methods: Sequence[AuthMethod], method_id: str) -> AuthMethod:
    """Return the login method of this id.

    Raises:
        InvalidParams: The agent has none.
    """
    method = next((each for each in methods if each.method_id == method_id), None)
    if method is None:
        known = ", ".join(each.method_id for each in methods) or "none"
        raise InvalidParams(f"no such login method: {method_id!r} (there are: {known})")
    return method


def describe(method: AuthMethod, target: AgentTarget | None = None) -> str:
    """Describe a login method in one line, with what the user has to do."""
    text = escape_line(method.name) + (f", {escape_line(method.description)}" if method.description else "")
    foreign = None if method.is_terminal else _foreign_program(method)
    if foreign is not None:
        return f"{text} (in a terminal: {escape_line(shlex.join([foreign.command, *foreign.args]))})"
    if method.is_terminal:
        argv = None if target is None or target.command is None else program_for(target, method).argv
        return f"{text} (in a terminal{'' if argv is None else f': {escape_line(shlex.join(argv))}'})"
    wanted = _wanted_variables(method)
    return text if wanted is None else f"{text} (by the environment: {_listed(wanted.needed)})"


def program_for(target: AgentTarget, method: AuthMethod) -> LoginProgram:
    """Return the program of a login in a terminal: the agent's own, with the arguments of the method.

    Raises:
        InvalidParams: The agent was not started by this client.
    """
    command = target.command
    if command is None:
        raise InvalidParams(
            f"{method.name!r} runs the agent's own program in a terminal, and this client did not start the agent"
        )
    foreign = _foreign_program(method)
    if foreign is not None and not method.is_terminal:
        argv = [foreign.command, *foreign.args]
        return LoginProgram(argv, inherited({**target.env, **foreign.env}), target.cwd)
    # schema v1, AuthMethodTerminal: arguments are appended to the invocation, and variables override.
    return LoginProgram([*command, *method.args], inherited({**target.env, **method.env}), target.cwd)


class _ForeignProgram(Struct):
    command: str
    args: list[str] = []
    env: dict[str, str] = {}


def _foreign_program(method: AuthMethod) -> _ForeignProgram | None:
    """Return the command that agents put into `_meta` before the protocol had terminal logins."""
    with suppress(ValidationError):
        return convert((method.meta or {}).get("terminal-auth"), _ForeignProgram)
    return None


class _Variable(Struct):
    name: str
    optional: bool = False


class _Wanted(Struct, rename="camel"):
    """Environment variables, as two stages of the draft spelled them."""

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
    """Return the environment variables that the agent reads, if it lists them in extra fields or in `_meta`."""
    for fields in (method.other, method.meta):
        with suppress(ValidationError):
            wanted = convert(fields, _Wanted)
            if wanted.names:
                return wanted
    return None


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(escape_line, names))


def can_use_terminal(target: AgentTarget, options: AuthOptions | None) -> bool:
    """Return True if a login in a terminal can run: the client starts the agent, and its user has a terminal."""
    if target.command is None:
        return False
    if options is not None and options.run is not None:
        return True
    try:
        with _terminal():
            return True
    except AuthenticationRequired:
        return False


async def on_own_terminal(program: LoginProgram) -> int:
    """Run a login program on the terminal of this process.

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
    """Yield a descriptor of the user's terminal; `None` if stdio of this process is that terminal."""
    if all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        yield None
        return
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        raise AuthenticationRequired("this login needs a terminal, and this process has none") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
