"""Commands that ask the user: for permission, with a form, to visit a URL, to change the mode."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from duologue import Turn
from duologue.builtin.settings import BuiltinSettings
from duologue.builtin.slash_command import command, number_in, seconds_in
from duologue.errors import RequestError
from duologue.protocol.values import PermissionOption

WITHDRAW_SECONDS = 2.0
"""Seconds to see the request, but not enough to answer it."""

LEAVING_PLAN = [
    PermissionOption(option_id="code", name="Yes, and go ahead", kind="allow_always"),
    PermissionOption(option_id="ask", name="Yes, and ask before each step", kind="allow_once"),
    PermissionOption(option_id="architect", name="No, keep planning", kind="reject_once"),
]
"""The answers to a finished plan; each is named after the mode it leads to."""


@command("permission", "Ask for permission and say what was chosen", shows="`session/request_permission`", hint="[N]")
async def permission(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Request permission N times at once; nothing is done either way."""
    count = number_in(argument, 1, 100)
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(_ask_permission(turn, f"Question {number + 1} of {count}" if count > 1 else "A question"))


async def _ask_permission(turn: Turn[BuiltinSettings], title: str) -> None:
    async with turn.tool(title, kind="other") as tool:
        await tool.show("Nothing will be done, whatever you choose.", status="pending")
        chosen = await tool.request_permission_option(remember_as=tool.tool_call_id)
        if chosen is None or not chosen.kind.startswith("allow"):
            await tool.update(status="failed")
    await turn.say(f"You chose: {chosen.name} (`{chosen.kind}`).\n" if chosen else "You chose nothing.\n")


@command("withdraw", "Ask for permission and take the question back", shows="`$/cancel_request`", hint="[seconds]")
async def withdraw(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Cancel a permission request; the client should remove it."""
    async with turn.tool("A question that is taken back", kind="other") as tool:
        try:
            async with asyncio.timeout(seconds_in(argument, WITHDRAW_SECONDS, 3600.0)):
                chosen = await tool.request_permission_option(remember_as=tool.tool_call_id)
        except TimeoutError:
            await tool.fail("taken back")
            await turn.say("I took the question back; it should be gone from your screen.\n")
            return
    await turn.say(f"You were faster than me: {chosen.name}.\n" if chosen else "You chose nothing.\n")


@command("exit-plan", "Offer to leave architect mode and start working", shows="`switch_mode` tools with permission")
async def exit_plan(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Ask to leave architect mode, as agents do that plan before they act."""
    async with turn.tool("Ready to implement the plan", kind="switch_mode") as tool:
        await tool.show("1. Look around\n2. Do the work\n3. Check the result\n", status="pending")
        chosen = await tool.request_permission_option(options=LEAVING_PLAN, remember_as=tool.tool_call_id)
        if chosen is None or not chosen.kind.startswith("allow"):
            await tool.fail("The plan was not approved.")
            await turn.say("I keep planning.\n")
            return
        await turn.set_option(mode=chosen.option_id)
    await turn.say(f"The mode is `{turn.settings.mode}` now.\n")


Extra: TypeAlias = Literal["sugar", "honey", "biscuit"]


@dataclass
class Order:
    """A small order, to show every kind of question a form can hold."""

    drink: Literal["coffee", "tea", "water"]
    cups: int = field(default=1, metadata={"title": "How many", "minimum": 1, "maximum": 12})
    degrees: float = field(default=65.5, metadata={"title": "How hot", "minimum": 0, "maximum": 100})
    milk: bool = False
    name: str = field(default="", metadata={"description": "For the cup", "maxLength": 20})
    extras: list[Extra] = field(default_factory=list[Extra])


@command("ask", "Ask you to fill in a form, or to visit a URL", shows="`elicitation/create`", hint="form or url")
async def ask(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a form, or a URL elicitation."""
    try:
        await (_ask_url(turn) if argument.strip() == "url" else _ask_form(turn))
    except RequestError as error:
        # Some clients advertise a capability that they do not have.
        await turn.say(f"I could not ask: {error.message}.\n")


async def _ask_form(turn: Turn[BuiltinSettings]) -> None:
    if not turn.client_capabilities.forms:
        await turn.say("Your client has no forms.\n")
        return
    order = await turn.elicit(Order, "What would you like to drink?")
    await turn.say(f"You ordered: `{order}`.\n" if order is not None else "You ordered nothing.\n")


async def _ask_url(turn: Turn[BuiltinSettings]) -> None:
    name = turn.session.new_id("ask")
    agreed = await turn.elicit_url("Please visit this page.", "https://example.com/login", elicitation_id=name)
    if agreed:
        await turn.session.complete_elicitation(name)
    await turn.say("You agreed, and I reported to your client that it is done.\n" if agreed else "You did not agree.\n")


COMMANDS = (permission, ask, withdraw, exit_plan)
