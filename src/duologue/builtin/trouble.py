"""Commands that end badly, on purpose: what a client must survive."""

from __future__ import annotations

import os
import signal

from duologue import Turn
from duologue.builtin.knobs import Knobs
from duologue.builtin.registry import command
from duologue.conversation.updates import ToolCallChanged, UnknownUpdate
from duologue.errors import RequestError

__all__: list[str] = []


@command("refuse", "Refuse to answer", shows="stop reason refusal")
async def refuse(turn: Turn[Knobs], argument: str) -> str:
    """What was asked does not count for the next prompt."""
    await turn.say("I would rather not.\n")
    return "refusal"


@command("max-tokens", "Run out of tokens", shows="stop reason max_tokens")
async def max_tokens(turn: Turn[Knobs], argument: str) -> str:
    """In the middle of a sentence."""
    await turn.say("And the most important thing to know is that")
    return "max_tokens"


@command("max-requests", "Run out of model requests", shows="stop reason max_turn_requests")
async def max_requests(turn: Turn[Knobs], argument: str) -> str:
    """After too many of them."""
    await turn.say("I have asked the model too often in this turn.\n")
    return "max_turn_requests"


@command("error", "End the prompt with an error", shows="JSON-RPC errors", hint="[code]")
async def error(turn: Turn[Knobs], argument: str) -> None:
    """The connection lives on."""
    code = int(argument) if argument.lstrip("-").isdigit() else -32603
    raise RequestError("this error was asked for", code=code, data={"asked": True})


@command("exception", "Fail in a way nobody expected", shows="internal errors")
async def exception(turn: Turn[Knobs], argument: str) -> None:
    """The client hears the exception's class and a reference, no more."""
    raise ValueError("nobody outside should read this")


@command("crash", "End the agent's process at once", shows="a lost agent")
async def crash(turn: Turn[Knobs], argument: str) -> None:
    """With SIGKILL, in the middle of a turn."""
    await turn.say("Goodbye.")
    await turn.session.commit()
    os.kill(os.getpid(), signal.SIGKILL)


@command("unknown-update", "Send an update nobody knows", shows="unknown variants")
async def unknown_update(turn: Turn[Knobs], argument: str) -> None:
    """And a tool call nobody announced, of a kind and status nobody knows."""
    await turn.update(UnknownUpdate(tag="from_the_future", fields={"sessionUpdate": "from_the_future", "answer": 42}))
    await turn.update(ToolCallChanged(tool_call_id="never-announced", kind="telepathy", status="dreaming"))
    await turn.say("If you can read this, your client survived.\n")


@command("noise", "Print things that are not the protocol", shows="a noisy agent")
async def noise(turn: Turn[Knobs], argument: str) -> None:
    """`print` goes to stderr: nothing of it may reach the wire."""
    print("this line was printed in the middle of a turn")  # noqa: T201  # what this command is there to show
    os.write(1, b"and this one was written to descriptor 1\n")
    await turn.say("I printed two lines; the wire has none of them.\n")


ODD_PIECES = (
    "\u2028\u2029\x85",
    "\0",
    "👩\u200d👩\u200d👧 \U0001f9e8",
    "\u202eright to left\u202c",
    "\x1b[31mred\x1b[0m",
    "",
    "\ud800",
)


@command("odd-text", "Send text that breaks careless clients", shows="odd characters")
async def odd_text(turn: Turn[Knobs], argument: str) -> None:
    """Line separators, NUL, emoji, right-to-left marks, escape codes, an empty chunk."""
    for piece in ODD_PIECES:
        await turn.say(piece)
