"""Commands about time and amount: many updates, large ones, slow ones, and what happens between turns."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

from duologue import Turn
from duologue.agent.background_task import BackgroundTaskHandle
from duologue.builtin.settings import BuiltinSettings
from duologue.builtin.slash_command import command, number_in, seconds_in
from duologue.conversation.content import TextContent
from duologue.conversation.updates import MessageChunk
from duologue.conversation.work_state import TOOL_KINDS
from duologue.errors import ConnectionLost

SLOW_SECONDS = 10.0
"""How long `/slow` lasts unless the user says otherwise."""

STEER_SECONDS = 60.0
"""How long `/steer` waits for text."""

WAIT_SECONDS = 600.0
"""Seconds that `/cancel-me` waits to be cancelled."""

STUBBORN_SECONDS = 2.0
"""How long `/stubborn` goes on after it was cancelled."""


@command("stream", "Send N message chunks", shows="message chunks, back-pressure", hint="N")
async def stream(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send exactly N chunks, as fast as the client reads them."""
    for number in range(number_in(argument, 100, 10_000_000)):
        await turn.say(f"{number} ")


@command("tools", "Show N tool calls of every kind and status", shows="tool calls", hint="N")
async def tools(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Show all kinds of tool calls; every fourth fails."""
    count = number_in(argument, len(TOOL_KINDS), 100_000)
    for number in range(count):
        kind = TOOL_KINDS[number % len(TOOL_KINDS)]
        async with turn.tool(f"Example {number + 1}: {kind}", kind=kind, raw_input={"number": number}) as tool:
            await tool.show(f"This is what a tool of kind `{kind}` shows.")
            if number % 4 == 3:
                await tool.fail("And this one fails, for you to see.")
            else:
                await tool.update(status="completed", raw_output={"ok": True})
    await turn.say(f"Those were {count:,} tool calls.\n")


@command("big", "Send one chunk of N bytes", shows="large messages", hint="N")
async def big(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send one large chunk; this library rejects more than 32 MiB by default."""
    await turn.say("x" * number_in(argument, 1_000_000, 60_000_000))


@command("slow", "Take ten seconds, or as many as you say", shows="cancellation", hint="[seconds]")
async def slow(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Take ten seconds, or as many as the user says, unless cancelled."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds_in(argument, SLOW_SECONDS, 86_400.0)
    while (left := until - loop.time()) > 0:
        await turn.say(f"{math.ceil(left)} … ")
        await asyncio.sleep(min(1.0, left))
    await turn.say("done.\n")


@command("steer", "Work until you say stop, and show what you send meanwhile", shows="steering", hint="[seconds]")
async def steer(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Take the text that the user sends into the turn; `stop` ends it, or the time."""
    await turn.say("Send me text while I work: I show it at once, and `stop` ends me.\n")
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds_in(argument, STEER_SECONDS, WAIT_SECONDS)):
            async for message in turn.steering():
                await turn.say(f"You sent: {message.text}\n")
                if message.text.strip() == "stop":
                    return
    await turn.say("You sent nothing more.\n")


@command("cancel-me", "Wait until you cancel, and say so", shows="cancellation, updates after the cancel")
async def cancel_me(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Wait to be cancelled, then send a final update: clients must accept updates until the response."""
    await turn.say("Cancel me. ")
    try:
        async with turn.tool("Wait to be cancelled", kind="other") as tool:
            await tool.update(status="in_progress")
            await asyncio.sleep(WAIT_SECONDS)
    except asyncio.CancelledError:
        await turn.send_final_update(MessageChunk(role="agent", content=TextContent("You cancelled me.\n")))
        raise
    await turn.say("You did not cancel me.\n")


@command("stubborn", "Go on for two seconds after you cancel", shows="a cancellation that takes a while")
async def stubborn(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Ignore a cancellation for a while; the turn still ends as cancelled."""
    await turn.say("I do not like to be cancelled. ")
    try:
        await asyncio.sleep(WAIT_SECONDS)
    except asyncio.CancelledError:
        await asyncio.sleep(STUBBORN_SECONDS)
        await turn.say("All right, then.\n")
        raise


@command(
    "background",
    "Say something after the turn has ended",
    shows="updates between turns, a background task (unstable)",
    hint="[seconds]",
)
async def background(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a message a moment after the turn has ended, from a background task that can be stopped."""
    session = turn.session
    seconds = seconds_in(argument, 0.2, 3600.0)

    async def send_later(task: BackgroundTaskHandle) -> str:
        await asyncio.sleep(seconds)
        with suppress(ConnectionLost):
            text = TextContent("This came between turns.\n")
            await session.update(MessageChunk(role="agent", content=text, message_id=session.new_id("msg")))
        return "said it"

    await session.run_in_background(f"Say something after {seconds:g} s", send_later)
    await turn.say("I go on after this turn.\n")


COMMANDS = (stream, tools, big, slow, steer, cancel_me, stubborn, background)
