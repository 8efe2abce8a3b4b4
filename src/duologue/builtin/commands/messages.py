"""Commands that only send updates: text, thoughts, plans, usage, links."""

from __future__ import annotations

import msgspec

from duologue import Turn
from duologue.builtin.markdown import fenced
from duologue.builtin.settings import BuiltinSettings
from duologue.builtin.slash_command import command
from duologue.conversation.content import (
    Annotations,
    AudioContent,
    Content,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
)
from duologue.conversation.updates import NoticeUpdate, PlanEntry
from duologue.conversation.work_state import TokenUsage

STEPS = ("Look around", "Do the work", "Check the result")


@command("hello", "Say hello", shows="message chunks")
async def hello(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Greet the user and say what to try."""
    await turn.say("Hello! I am duologue's built-in agent. There is no model behind me: ")
    await turn.say("I show what the protocol can do, for real, in this session's directory.\n\n")
    await turn.say("Try `/help` for everything, `/read README.md`, `/edit`, `/run ls`, `/plan` or `/permission`.\n")


@command("echo", "Say what you said, and what came with it", shows="the prompt's blocks", hint="text")
async def echo(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Answer a prompt that no other command matches."""
    shown = f"\n\n{fenced(argument)}" if "\n" in argument else f" {argument}\n"  # Markdown would join the lines
    await turn.say(f"You said:{shown}" if argument else "You said nothing I could read as text.\n")
    attached = [f"- {_described(block)}\n" for block in turn.prompt if not isinstance(block, TextContent)]
    if attached:
        await turn.say("\nWith it came:\n\n" + "".join(attached))
    if turn.settings.model == "echo-2":
        await turn.say("\nThe large model would like to add that you said it well.\n")
    await turn.say("\nThere is no model behind me; `/help` lists what I can do.\n")


@command("think", "Think aloud, then answer", shows="thought chunks", hint="about what")
async def think(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send thoughts, then an answer."""
    for thought in ("Let me see. ", f"This is about {argument or 'nothing in particular'}. ", "That will do."):
        await turn.think(thought)
    if turn.settings.thoughts == "long":
        await turn.think(" On the other hand, it always helps to think a little longer.")
    await turn.say("I have thought about it.\n")


@command("plan", "Make a plan and follow it", shows="plans, replaced as a whole")
async def plan(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a plan of three steps, again after each step."""
    for done in range(len(STEPS) + 1):
        await turn.plan(*(_step(number, done) for number in range(len(STEPS))))
    await turn.say("The plan is done, all three steps of it.\n")


def _step(number: int, done: int) -> PlanEntry:
    status = "completed" if number < done else "in_progress" if number == done else "pending"
    return PlanEntry(STEPS[number], status, ("medium", "high", "low")[number])


@command("named-plan", "A plan with a name, as Markdown, then gone", shows="`plan_update`, `plan_removed` (unstable)")
async def named_plan(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a named plan and remove it; only clients with named plans see it."""
    await turn.plan_document("side-plan", markdown="# Side plan\n\n1. Exist\n2. Vanish\n")
    await turn.remove_plan("side-plan")
    await turn.say(_seen("A named plan came and went", turn.client_capabilities.named_plans))


@command("usage", "Report tokens and cost", shows="`usage_update`, the usage of a turn")
async def usage(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Report made-up numbers that add up: tokens of this turn, and the cost of the session so far."""
    cost = round(float(turn.session.state.get("cost", 0.0)) + 0.045, 3)
    turn.session.state["cost"] = cost
    await turn.report_usage(used=53_000, size=200_000, cost=cost, currency="USD")
    turn.tokens = TokenUsage(total=1_500, input=1_200, output=300, thought=50, cached_read=800, cached_write=100)
    await turn.say(
        f"1,500 tokens in this turn, 53,000 of 200,000 in the context, and {cost:g} USD for the session so far. "
        "None of them were real.\n"
    )


@command("notice", "Show a notice", shows="`notice`", hint="info, warning or error")
async def notice(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a notice; only clients with notices see it."""
    severity = argument.strip() or "info"
    description = "It is no part of the conversation."
    await turn.update(NoticeUpdate(severity=severity, title="This is a notice", description=description))
    await turn.say(_seen(f"There was a notice of severity `{severity}`", turn.client_capabilities.notices))


@command("title", "Set the title of the session, or remove it", shows="`session_info_update`", hint="title")
async def title(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Set the title; without an argument, remove it."""
    await turn.set_title(argument or None)
    await turn.say(f"This session is called “{argument}” now.\n" if argument else "This session has no title now.\n")


@command("links", "Send links and annotated text", shows="resource links, annotations")
async def links(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send content other than plain text that needs no capability."""
    await turn.say(
        ResourceLink(
            uri=(turn.cwd / "README.md").as_uri(),
            name="README.md",
            title="Read me",
            description="Whether it exists or not",
            mime_type="text/markdown",
            annotations=Annotations(audience=["user", "assistant"], last_modified="2026-01-01T00:00:00Z"),
        )
    )
    await turn.say(TextContent("For you alone, and important.\n", Annotations(audience=["user"], priority=1.0)))


@command("meta", "Send `_meta`, and show yours", shows="`_meta`, both ways")
async def meta(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send `_meta`, and show what the client attached."""
    await turn.say("You attached:\n\n", meta={"duologue.example/attached": True})
    await turn.say(fenced(msgspec.json.format(msgspec.json.encode(turn.meta)).decode(), "json"))


@command("user-message", "Say something in your name", shows="user message chunks in a live turn", hint="text")
async def user_message(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a user message that the client did not send."""
    await turn.send_user_message(argument or "These are your words, although you never typed them.")
    await turn.say("I said something in your name.\n")


COMMANDS = (hello, echo, think, plan, named_plan, usage, notice, title, links, meta, user_message)


def _seen(what: str, is_supported: bool) -> str:
    return f"{what}{'.' if is_supported else '; your client does not support it.'}\n"


def _described(block: Content) -> str:
    match block:
        case ImageContent() | AudioContent():
            return f"{type(block).__name__.removesuffix('Content').lower()}, `{block.mime_type}`, {_size(block.data)}"
        case ResourceLink():
            return f"a link to [{block.name}]({block.uri})"
        case Resource(text=str(text)):
            return f"the text of `{block.uri}`, {len(text):,} characters"
        case Resource():
            return f"the bytes of `{block.uri}`, {_size(block.blob or '')}"
        case _:
            return f"{type(block).__name__}"


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4 - base64[-2:].count('='):,} bytes"
