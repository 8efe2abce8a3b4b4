"""Logging in before a person: the ways there are, by number; and what to do where nobody can be asked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from duologue.cli.output import say
from duologue.cli.reading import LineReader
from duologue.cli.show import Shown
from duologue.client.inert import inert
from duologue.client.login import Login, LoginProgram, describe, on_own_terminal
from duologue.client.remote import RemoteAgent
from duologue.dialects.terms import LoginMethod
from duologue.errors import AuthenticationRequired

__all__ = ["login_advice", "terminal_login"]


def terminal_login(reader: LineReader, shown: Shown, alone: Callable[[], AbstractAsyncContextManager[None]]) -> Login:
    """Asks on a terminal by which way to log in, and shows the login there if it needs that.

    Args:
        reader: Where the answer is typed.
        shown: What is on the screen meanwhile.
        alone: A block in which nobody else reads from the terminal.
    """

    async def choose(methods: list[LoginMethod]) -> LoginMethod | None:
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

    return Login(choose, run)


def login_advice(agent: RemoteAgent | None, error: AuthenticationRequired) -> str:
    """What to do about an agent that wants a login."""
    refusal = error.__cause__
    if isinstance(refusal, AuthenticationRequired):
        error = refusal  # what the agent said, without what a program could do about it
    methods = [] if agent is None else agent.login_methods
    ways = "".join(f"\n  --login {inert(each.method_id)}: {describe(each)}" for each in methods)
    return f"the agent wants a login first: {error}{ways}"
