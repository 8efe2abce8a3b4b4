"""Ask the user which login method to use, or say how to log in without a terminal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from duologue.cli.console.line_reader import LineReader, choose
from duologue.cli.console.renderer import Output
from duologue.cli.console.safe_output import say
from duologue.client.agent import RemoteAgent
from duologue.client.auth import AuthOptions, LoginProgram, describe, on_own_terminal
from duologue.errors import AuthenticationRequired
from duologue.protocol.values import AuthMethod
from duologue.sanitize import escape_line


def terminal_login(
    reader: LineReader, shown: Output, alone: Callable[[], AbstractAsyncContextManager[None]]
) -> AuthOptions:
    """Return options that ask for the login method on a terminal, and run a login program there if one is needed.

    Args:
        reader: Reads the user's choice.
        shown: Output that is paused while the user is asked.
        alone: Context manager in which nothing else reads from the terminal.
    """

    async def choose_method(methods: list[AuthMethod]) -> AuthMethod | None:
        async with alone():
            shown.pause()
            say("\nThe agent requires a login. Login methods:\n")
            for number, method in enumerate(methods, 1):
                say(f"  {number}. {describe(method)}\n")
            chosen = await choose(reader, len(methods), "for none")
        return None if chosen is None else methods[chosen]

    async def run(program: LoginProgram) -> int:
        async with alone():
            shown.pause()
            return await on_own_terminal(program)

    return AuthOptions(choose_method, run)


def login_advice(agent: RemoteAgent | None, error: AuthenticationRequired) -> str:
    """Return what the user can do about an agent that requires a login."""
    cause = error.__cause__
    if isinstance(cause, AuthenticationRequired):
        error = cause  # the agent's own message, without advice for programs
    methods = [] if agent is None else agent.login_methods
    options = "".join(f"\n  --login {escape_line(each.method_id)}: {describe(each)}" for each in methods)
    return f"the agent requires a login: {error}{options}"
