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
from duologue.builtin.intents import command_for
from duologue.builtin.login import require_login
from duologue.builtin.raw_wire import OwnProcess
from duologue.builtin.settings import BuiltinSettings
from duologue.conversation.content import JsonObject
from duologue.private_files import make_private_directory, user_directory
from duologue.protocol.feature_filter import Unstable
from duologue.protocol.values import Provider
from duologue.store.base import Store
from duologue.store.memory import MemoryStore

__all__ = ["builtin_agent", "main"]


def builtin_agent(
    store: Store | str | Path | None = None,
    *,
    login: bool = False,
    versions: tuple[int, ...] = (1,),
    unstable: Unstable = False,
) -> Agent[BuiltinSettings]:
    """The built-in agent as an object, for tests of clients and for programs that need an agent at hand.

    Args:
        store: Where sessions are kept: a store, or a directory; in memory if not given.
        login: Refuse sessions until the client has logged in, which succeeds without a question.
        versions: Of the protocol, that it speaks.
        unstable: Which unstable parts of the protocol it shows; `duologue agent` shows all.
    """
    agent: Agent[BuiltinSettings] = Agent(
        "duologue",
        version=duologue.__version__,
        title="duologue's built-in agent",
        settings=BuiltinSettings,
        accepts=("image", "audio", "resource"),
        system_prompt="override",
        mcp=True,
        titles=True,
        versions=versions,
        unstable=unstable,
    )
    agent.persist_sessions(store if store is not None else MemoryStore())
    agent.use_providers(Provider(provider_id="example", supported=["openai", "anthropic"]))
    if login:
        require_login(agent)
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


def main(arguments: argparse.Namespace) -> int:
    """Serve on stdio; return the exit code."""
    versions = (1, 2) if arguments.v2 else (1,)
    agent = builtin_agent(_store(arguments.sessions), login=arguments.login, versions=versions, unstable=True)
    agent.debug = arguments.debug
    agent.dialect = arguments.dialect
    serve_stdio(OwnProcess(agent))
    return 0


def _store(named: str | None) -> Store | Path:
    """The directory that was named, or else the usual one if it can be used; somebody's first try must not fail."""
    if named is not None:
        return Path(named)
    directory = user_directory("XDG_DATA_HOME", ".local/share") / "sessions"
    try:
        make_private_directory(directory)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
        reason = "not writable"
    except OSError as error:
        reason = error.strerror or str(error)
    sys.stderr.write(f"duologue agent: sessions are kept in memory only, not in {directory}: {reason}\n")
    return MemoryStore()
