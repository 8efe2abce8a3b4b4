"""Every command of the built-in agent, in the order in which clients list them."""

from __future__ import annotations

from difflib import get_close_matches

from duologue import Turn
from duologue.builtin.commands import demo as tour
from duologue.builtin.commands import failures as trouble
from duologue.builtin.commands import files, media, session, subagents
from duologue.builtin.commands import forms as questions
from duologue.builtin.commands import mcp as servers
from duologue.builtin.commands import messages as talking
from duologue.builtin.commands import terminal as running
from duologue.builtin.commands import throughput as streams
from duologue.builtin.markdown import table
from duologue.builtin.settings import BuiltinSettings
from duologue.builtin.slash_command import SlashCommand, command
from duologue.conversation.updates import AvailableCommand

__all__ = ["CHAPTERS", "COMMANDS", "explain_unknown", "offer", "table_of"]


@command("help", "List what I can do", shows="Markdown in messages", hint="[command]")
async def show_help(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Everything by chapters, or one command."""
    name = argument.strip().removeprefix("/")
    if name in COMMANDS:
        await turn.say(table_of(COMMANDS[name]))
        return
    await turn.say("I have no model: I show what the protocol can do, for real, in this session's directory.\n")
    for title, chapter in CHAPTERS.items():
        await turn.say(f"\n## {title}\n\n{table_of(*chapter)}")


@command("commands", "Offer only some commands, or all again", shows="`available_commands_update`", hint="[names]")
async def change_commands(turn: Turn[BuiltinSettings], argument: str) -> None:
    """The list is always the complete list; what is not in it works all the same."""
    names = [name.removeprefix("/") for name in argument.split()]
    offered = [each for each in COMMANDS.values() if not names or each.name in names]
    await turn.session.set_commands([offer(each) for each in offered])
    await turn.say(f"I offer {len(offered)} of {len(COMMANDS)} commands now.\n")


CHAPTERS: dict[str, tuple[SlashCommand, ...]] = {
    "Start here": (show_help, *tour.COMMANDS, *talking.COMMANDS[:2]),
    "Files and programs": (*files.COMMANDS, *running.COMMANDS, *servers.COMMANDS),
    "Questions to you": questions.COMMANDS,
    "What an agent sends": (*talking.COMMANDS[2:], *media.COMMANDS),
    "The session": (*session.COMMANDS, *subagents.COMMANDS, change_commands),
    "Time and amount": streams.COMMANDS,
    "What a client must survive": trouble.COMMANDS,
}

COMMANDS: dict[str, SlashCommand] = {each.name: each for chapter in CHAPTERS.values() for each in chapter}


def offer(slash: SlashCommand) -> AvailableCommand:
    """A command as a client is told of it."""
    return AvailableCommand(slash.name, slash.description, slash.hint)


def table_of(*commands: SlashCommand) -> str:
    """Commands as a Markdown table."""
    rows = [(f"`{each.usage}`", each.description, each.shows) for each in commands]
    return table(("command", "what it does", "what it shows"), rows)


def explain_unknown(name: str) -> str:
    """What to say to a command that does not exist."""
    near = get_close_matches(name, COMMANDS, n=1)
    guess = f" Did you mean `/{near[0]}`?" if near else ""
    return f"There is no command `/{name}`.{guess} `/help` lists them all.\n"
