"""The built-in agent: `duologue agent` on the command line, `builtin_agent()` in Python."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import duologue
from duologue import Agent, Turn
from duologue.agent.hosting.stdio import serve_stdio
from duologue.builtin.command_table import COMMANDS, explain_unknown
from duologue.builtin.commands.demo import pace
from duologue.builtin.commands.failures import OwnProcess
from duologue.builtin.intents import command_for
from duologue.builtin.settings import BuiltinSettings
from duologue.compat.dialects import Dialect
from duologue.conversation.content import JsonObject
from duologue.private_files import make_private_directory, user_directory
from duologue.protocol.feature_filter import Unstable
from duologue.protocol.values import Account, AuthStatus, Provider
from duologue.store.base import Store
from duologue.store.memory import MemoryStore


def builtin_agent(
    store: Store | str | Path | None = None,
    *,
    login: bool = False,
    debug: bool = False,
    protocol_versions: tuple[int, ...] = (1,),
    unstable: Unstable = False,
    dialect: Dialect | None = None,
) -> Agent[BuiltinSettings]:
    """Return the built-in agent, for tests of clients and for programs that need an agent at hand.

    Args:
        store: Where sessions are stored: a store or a directory. Default: in memory.
        login: Reject sessions until the client has logged in, which always succeeds.
        debug: Include the text of unexpected exceptions in error responses.
        protocol_versions: Versions of the protocol to speak.
        unstable: Unstable features to offer; `duologue agent` offers all.
        dialect: Name of an older dialect that the client speaks.
    """
    agent: Agent[BuiltinSettings] = Agent(
        "duologue",
        version=duologue.__version__,
        title="duologue's built-in agent",
        settings=BuiltinSettings,
        accepts=("image", "audio", "resource"),
        system_prompt="override",
        mcp=True,
        steering=True,
        login_required=login,
        store=store if store is not None else MemoryStore(),
        auto_title=True,
        debug=debug,
        protocol_versions=protocol_versions,
        unstable=unstable,
        dialect=dialect,
    )
    agent.use_providers(Provider(provider_id="example", supported=["openai", "anthropic"]))
    if login:
        _add_login(agent)
    for command in COMMANDS.values():
        agent.command(command.name, command.description, hint=command.hint)(command.handler)

    @agent.on_prompt
    async def answer(turn: Turn[BuiltinSettings]) -> str | None:
        name, argument = command_for(turn.text, COMMANDS)
        if name in COMMANDS:
            return await COMMANDS[name].handler(turn, argument)
        await turn.say(explain_unknown(name))
        return None

    @agent.extension("_duologue.example/echo")
    async def echo(params: JsonObject) -> JsonObject:
        return params

    return agent


def _add_login(agent: Agent[BuiltinSettings]) -> None:
    """Add a login method that always succeeds, and is forgotten with the process."""
    accounts: list[Account] = []

    @agent.login("example", "Log in", description="Succeeds without asking anything")
    async def log_in() -> None:
        accounts[:] = [Account(label="you@example.com", active=True, name="You")]

    @agent.on_logout
    async def log_out() -> None:
        accounts.clear()

    @agent.on_login_status
    async def status() -> AuthStatus:
        return AuthStatus(state="authenticated" if accounts else "unauthenticated", accounts=list(accounts))


def main(arguments: argparse.Namespace) -> int:
    """Serve on stdio; return the exit code."""
    agent = builtin_agent(
        _store(arguments.sessions),
        login=arguments.login,
        debug=arguments.debug,
        protocol_versions=(1, 2) if arguments.v2 else (1,),
        unstable=True,
        dialect=arguments.dialect,
    )
    pace.set(arguments.pace or 0.0)
    serve_stdio(OwnProcess(agent))
    return 0


def _store(given: str | None) -> Store | Path:
    """Return the given directory, else the default one, or a store in memory if that cannot be used."""
    if given is not None:
        return Path(given)
    directory = user_directory("XDG_DATA_HOME", ".local/share") / "sessions"
    try:
        make_private_directory(directory)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
        reason = "not writable"
    except OSError as error:
        reason = error.strerror or str(error)
    sys.stderr.write(f"duologue agent: sessions are stored in memory only; {directory} cannot be used: {reason}\n")
    return MemoryStore()
