"""Every command of the built-in agent, in the order in which clients list them."""

from __future__ import annotations

from difflib import get_close_matches

from duologue import Turn
from duologue.builtin.commands import (
    demo,
    failures,
    files,
    forms,
    mcp,
    media,
    messages,
    session,
    subagents,
    terminal,
    throughput,
)
from duologue.builtin.markdown import table
from duologue.builtin.settings import BuiltinSettings
from duologue.builtin.slash_command import SlashCommand, command
from duologue.conversation.updates import AvailableCommand


@command("help", "List what I can do", shows="Markdown in messages", hint="[command]")
async def show_help(turn: Turn[BuiltinSettings], argument: str) -> None:
    """List all commands by chapter, or describe one."""
    name = argument.strip().removeprefix("/")
    if name in COMMANDS:
        await turn.say(table_of(COMMANDS[name]))
        return
    await turn.say("I have no model: I show what the protocol can do, for real, in this session's directory.\n")
    for title, chapter in CHAPTERS.items():
        await turn.say(f"\n## {title}\n\n{table_of(*chapter)}")


@command("commands", "Offer only some commands, or all again", shows="`available_commands_update`", hint="[names]")
async def change_commands(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a new list of commands; the others still work."""
    names = [name.removeprefix("/") for name in argument.split()]
    offered = [each for each in COMMANDS.values() if not names or each.name in names]
    await turn.session.set_commands([offer(each) for each in offered])
    await turn.say(f"I offer {len(offered)} of {len(COMMANDS)} commands now.\n")


CHAPTERS: dict[str, tuple[SlashCommand, ...]] = {
    "Start here": (show_help, *demo.COMMANDS, *messages.COMMANDS[:2]),
    "Files and programs": (*files.COMMANDS, *terminal.COMMANDS, *mcp.COMMANDS),
    "Questions to you": forms.COMMANDS,
    "What an agent sends": (*messages.COMMANDS[2:], *media.COMMANDS),
    "The session": (*session.COMMANDS, *subagents.COMMANDS, change_commands),
    "Time and amount": throughput.COMMANDS,
    "What a client must survive": failures.COMMANDS,
}

COMMANDS: dict[str, SlashCommand] = {each.name: each for chapter in CHAPTERS.values() for each in chapter}


def offer(slash: SlashCommand) -> AvailableCommand:
    """Return a command as it is advertised to clients."""
    return AvailableCommand(slash.name, slash.description, slash.hint)


def table_of(*commands: SlashCommand) -> str:
    """Return commands as a Markdown table."""
    rows = [(f"`{each.usage}`", each.description, each.shows) for each in commands]
    return table(("command", "what it does", "what it shows"), rows)


def explain_unknown(name: str) -> str:
    """Return the answer to a command that does not exist."""
    near = get_close_matches(name, COMMANDS, n=1)
    guess = f" Did you mean `/{near[0]}`?" if near else ""
    return f"There is no command `/{name}`.{guess} `/help` lists them all.\n"
