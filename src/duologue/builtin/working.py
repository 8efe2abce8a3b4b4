"""Commands that do something: run, ask, use tools, work in the background."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass, field
from typing import Literal

from duologue import Turn
from duologue.agent.permission import DEFAULT_OPTIONS, Asked
from duologue.builtin.gates import may_run
from duologue.builtin.knobs import Knobs
from duologue.builtin.registry import command
from duologue.builtin.streams import number_in
from duologue.conversation.content import TextContent
from duologue.conversation.updates import MessageChunk, ToolCallChanged
from duologue.errors import DuologueError, RequestError

__all__ = ["Order"]

KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")


@command("run", "Run a command", shows="execute tools, terminals, permission", hint="command")
async def run(turn: Turn[Knobs], argument: str) -> None:
    """In the client's terminal, or as a process of our own."""
    try:
        words = shlex.split(argument) or ["echo", "hello"]
    except ValueError as error:
        await turn.say(f"I cannot read that command: {error}\n")
        return
    async with turn.tool(f"May I run `{' '.join(words)}`?", kind="execute") as gate:
        if not await may_run(turn, gate):
            await turn.say("Then I will not run it.\n")
            return
    try:
        ran = await turn.run(*words, timeout=60)
    except DuologueError as error:
        await turn.say(f"It could not be run: {error}\n")
        return
    ended = "was stopped after a minute" if ran.timed_out else f"ended with {ran.signal or ran.exit_code}"
    await turn.say(f"It {ended} and printed {len(ran.output)} characters.\n")


@command("tools", "Show N tool calls, of every kind and status", shows="tool calls", hint="N")
async def tools(turn: Turn[Knobs], argument: str) -> None:
    """All kinds in turn; every fourth fails."""
    count = number_in(argument, len(KINDS), 10_000)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        async with turn.tool(f"Example {number}: {kind}", kind=kind, raw_input={"number": number}) as tool:
            await tool.show(f"This is what a tool of kind {kind} shows.")
            if number % 4 == 3:
                await tool.fail("and this one fails, for you to see")
            else:
                await tool.change(raw_output={"ok": True})
    await turn.say(f"Those were {count} tool calls.\n")


@command("permission", "Ask for permission and say what was chosen", shows="session/request_permission")
async def permission(turn: Turn[Knobs], argument: str) -> None:
    """Nothing is done either way."""
    async with turn.tool("Something that needs your permission", kind="other") as tool:
        question = Asked(ToolCallChanged(tool_call_id=tool.tool_call_id, title=tool.title, kind=tool.kind), None)
        chosen = await turn.ask_permission(question, DEFAULT_OPTIONS)
        await tool.change(status="completed" if chosen and chosen.kind.startswith("allow") else "failed")
    await turn.say(f"You chose: {chosen.name} ({chosen.kind}).\n" if chosen else "You chose nothing.\n")


@dataclass
class Order:
    """A small order, to show every kind of question a form can hold."""

    drink: Literal["coffee", "tea", "water"]
    cups: int = field(default=1, metadata={"title": "How many", "minimum": 1, "maximum": 12})
    milk: bool = False
    name: str = field(default="", metadata={"description": "For the cup"})
    extras: list[Literal["sugar", "honey", "biscuit"]] = field(default_factory=list)


@command("ask", "Ask you to fill in a form, or to visit an address", shows="elicitation", hint="form|url")
async def ask(turn: Turn[Knobs], argument: str) -> None:
    """Forms for anything but secrets, addresses for those."""
    if argument == "url":
        try:
            agreed = await turn.ask_url("Please visit this address.", "https://example.com/login")
        except RequestError as error:
            await turn.say(f"I could not ask: {error.message}\n")
            return
        await turn.say("You agreed.\n" if agreed else "You did not agree.\n")
        return
    if not turn.client.forms:
        await turn.say("Your client has no forms.\n")
        return
    order = await turn.ask(Order, "What would you like to drink?")
    await turn.say(f"You ordered: {order}\n" if order is not None else "You ordered nothing.\n")


@command("mcp", "List the session's MCP servers and call a tool", shows="MCP servers", hint="[server tool]")
async def mcp(turn: Turn[Knobs], argument: str) -> None:
    """Servers come from the client, with the session."""
    try:
        servers = turn.mcp
    except RuntimeError as error:
        await turn.say(f"{error}\n")
        return
    await servers.ready()
    for name, why in servers.errors.items():
        await turn.say(f"- `{name}` cannot be used: {why}\n")
    for tool in servers.tools:
        await turn.say(f"- `{tool.server}` offers `{tool.name}`: {tool.description or 'no description'}\n")
    if not servers.tools and not servers.errors:
        await turn.say("This session has no MCP servers.\n")


@command("background", "Work on after the turn has ended", shows="updates between turns")
async def background(turn: Turn[Knobs], argument: str) -> None:
    """One more message, a moment after the answer."""
    session = turn.session

    async def later() -> None:
        await asyncio.sleep(0.2)
        chunk = MessageChunk(role="agent", content=TextContent("This came between turns.\n"))
        await session.update(chunk)

    session.tasks.start(later())
    await turn.say("I go on working after this turn.\n")
