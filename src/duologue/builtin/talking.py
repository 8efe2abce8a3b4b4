"""Commands that only talk: greetings, help, thoughts, plans, numbers and links."""

from __future__ import annotations

from duologue import Turn
from duologue.builtin.knobs import Knobs
from duologue.builtin.registry import COMMANDS, command
from duologue.conversation.content import Annotations, ResourceLink, TextContent
from duologue.conversation.updates import PlanEntry
from duologue.dialects.terms import TokenUsage

__all__ = ["table_of_commands"]


def table_of_commands() -> str:
    """Every command, as a Markdown table."""
    rows = [
        f"| `/{each.name}{' ' + each.hint if each.hint else ''}` | {each.description} | {each.shows} |"
        for each in COMMANDS.values()
    ]
    return "\n".join(["| command | what it does | what it shows |", "|---|---|---|", *rows])


@command("hello", "Say hello", shows="message chunks")
async def hello(turn: Turn[Knobs], argument: str) -> None:
    """A greeting that says what to try."""
    await turn.say(
        "Hello! I am duologue's built-in agent. There is no model behind me: I show what the protocol can do.\n\n"
    )
    await turn.say("Try `/help` for everything, `/read README.md`, `/edit`, `/run ls`, `/plan` or `/permission`.\n")


@command("help", "List what it can do", shows="Markdown in messages")
async def help_(turn: Turn[Knobs], argument: str) -> None:
    """The table of commands."""
    await turn.say("I do these things on demand, for real, in the session's directory.\n\n")
    await turn.say(table_of_commands() + "\n")


@command("echo", "Say what you said", shows="the prompt's blocks", hint="text")
async def echo(turn: Turn[Knobs], argument: str) -> None:
    """The prompt, block by block."""
    await turn.say(f"You said: {argument}" if argument else "You said nothing I could read as text.")
    others = [type(block).__name__ for block in turn.prompt if not isinstance(block, TextContent)]
    if others:
        await turn.say(f"\n\nWith it came: {', '.join(others)}.")
    if turn.settings.model == "echo-2":
        await turn.say("\n\n(The large model would like to add that you said it well.)")
    await turn.say("\n\nI have no model; `/help` lists what I can do.\n")


@command("think", "Think aloud, then answer", shows="thought chunks", hint="about what")
async def think(turn: Turn[Knobs], argument: str) -> None:
    """Thoughts first, words after."""
    for thought in ("Let me see. ", f"This is about {argument or 'nothing in particular'}. ", "That will do."):
        await turn.think(thought)
    if turn.settings.thoughts == "long":
        await turn.think(" On the other hand, it always helps to think a little longer.")
    await turn.say("I have thought about it.\n")


@command("plan", "Make a plan and follow it", shows="plans, replaced as a whole")
async def plan(turn: Turn[Knobs], argument: str) -> None:
    """A plan of three steps, told again after each."""
    steps = ["Look around", "Do the work", "Check the result"]
    for done in range(len(steps) + 1):
        entries = [
            PlanEntry(
                step,
                "completed" if number < done else "in_progress" if number == done else "pending",
                "high" if number == 1 else "medium",
            )
            for number, step in enumerate(steps)
        ]
        await turn.plan(*entries)
    await turn.say("The plan is done, all three steps of it.\n")


@command("named-plan", "A plan with a name, as Markdown, then gone", shows="plan_update, plan_removed (unstable)")
async def named_plan(turn: Turn[Knobs], argument: str) -> None:
    """Only clients that know named plans see it."""
    await turn.plan_document("side-plan", markdown="# Side plan\n\n1. Exist\n2. Vanish\n")
    await turn.remove_plan("side-plan")
    await turn.say("A named plan came and went.\n")


@command("usage", "Report tokens and cost", shows="usage_update, usage of the turn")
async def usage(turn: Turn[Knobs], argument: str) -> None:
    """Numbers made up, shapes real."""
    await turn.usage(used=53_000, size=200_000, cost=0.045, currency="USD")
    turn.tokens = TokenUsage(total=1_500, input=1_200, output=300, thought=50, cached_read=800, cached_write=100)
    await turn.say("53,000 of 200,000 tokens used, for 0.045 USD. None of them were real.\n")


@command("notice", "Show a notice", shows="notice", hint="info|warning|error")
async def notice(turn: Turn[Knobs], argument: str) -> None:
    """Only clients that know notices see it."""
    severity = argument if argument in ("info", "warning", "error") else "info"
    await turn.notice("This is a notice", severity=severity, description="It is no part of the conversation.")
    await turn.say("You should have seen a notice, if your client knows them.\n")


@command("title", "Give the session a title", shows="session_info_update", hint="title")
async def title(turn: Turn[Knobs], argument: str) -> None:
    """No argument takes the title away."""
    await turn.title(argument or None)
    await turn.say(f"This session is now called {argument!r}.\n" if argument else "This session has no title now.\n")


@command("links", "Send links and annotated text", shows="resource links, annotations")
async def links(turn: Turn[Knobs], argument: str) -> None:
    """Content beyond plain text that needs no capability."""
    readme = turn.cwd / "README.md"
    await turn.say(ResourceLink(uri=readme.as_uri(), name="README.md", mime_type="text/markdown", title="Read me"))
    await turn.say(TextContent("For the user alone, and important.", Annotations(audience=["user"], priority=1.0)))


@command("meta", "Send and read _meta", shows="_meta, both ways")
async def meta(turn: Turn[Knobs], argument: str) -> None:
    """What peers attach for each other."""
    await turn.say(f"You attached: {turn.meta!r}.", meta={"duologue.example/attached": True})
