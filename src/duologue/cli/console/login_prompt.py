"""Logging in before a person: the ways there are, by number; and what to do where nobody can be asked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from duologue.cli.console.line_reader import LineReader
from duologue.cli.console.renderer import Output
from duologue.cli.console.safe_output import say
from duologue.client.agent import RemoteAgent
from duologue.client.auth import AuthOptions, LoginProgram, describe, on_own_terminal
from duologue.errors import AuthenticationRequired
from duologue.protocol.values import AuthMethod
from duologue.sanitize import escape_line

__all__ = ["login_advice", "terminal_login"]


def terminal_login(
    reader: LineReader, shown: Output, alone: Callable[[], AbstractAsyncContextManager[None]]
) -> AuthOptions:
    """Asks on a terminal by which way to log in, and shows the login there if it needs that.

    Args:
        reader: Where the answer is typed.
        shown: What is on the screen meanwhile.
        alone: A block in which nobody else reads from the terminal.
    """

    async def choose(methods: list[AuthMethod]) -> AuthMethod | None:
        async with alone():
            shown.pause()
            say("\nThe agent wants a login first. You can log in by:\n")
            for number, method in enumerate(methods, 1):
                say(f"  {number}. {describe(method)}\n")
            reader.forget()
            say("Your choice (a number; enter means none): ")
            choice = (await reader.read() or "").strip()
        is_one = choice.isdecimal() and 0 < int(choice) <= len(methods)
        return methods[int(choice) - 1] if is_one else None

    async def run(program: LoginProgram) -> int:
        async with alone():
            shown.pause()
            return await on_own_terminal(program)

    return AuthOptions(choose, run)


def login_advice(agent: RemoteAgent | None, error: AuthenticationRequired) -> str:
    """What to do about an agent that wants a login."""
    refusal = error.__cause__
    if isinstance(refusal, AuthenticationRequired):
        error = refusal  # what the agent said, without what a program could do about it
    methods = [] if agent is None else agent.login_methods
    ways = "".join(f"\n  --login {escape_line(each.method_id)}: {describe(each)}" for each in methods)
    return f"the agent wants a login first: {error}{ways}"
