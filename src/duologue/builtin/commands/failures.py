"""Commands that do what a client must survive: errors, lost agents, unknown variants, stray output."""

from __future__ import annotations

import os
import re
import signal
from contextvars import ContextVar

from duologue import Turn
from duologue.builtin.settings import BuiltinSettings
from duologue.builtin.slash_command import command
from duologue.conversation.updates import TerminalPart, ToolCallUpdate, UnknownPart, UnrecognizedUpdate
from duologue.errors import RequestError
from duologue.transports.base import Servable, Transport

ODD_PIECES = (
    "\u2028\u2029\x85",
    "\0",
    "👩\u200d👩\u200d👧 \U0001f9e8",
    "\u202eright to left\u202c",
    "\x1b[31mred\x1b[0m",
    "",
    "\ud800",
)
"""Line separators, NUL, joined emoji, direction marks, escape codes, nothing, half a character."""

NOISE = (
    b"Loading the model ... done in 0.3 s",
    b"\x1b[33mWARNING\x1b[0m: something prints to stdout",
    b"",
    b"{",
    b'{"jsonrpc":"2.0","method":"session/upd',
    b"[]",
    b'"a string"',
    b"{\xff\xfe}",
    b'{"jsonrpc":"2.0","id":"nobody-asked","result":{}}',
    b'{"jsonrpc":"2.0","method":"unheard/of","params":{"without":"an underscore"}}',
)
"""Lines that are not messages, and messages that answer no request."""

_own_wire: ContextVar[Transport | None] = ContextVar("own_wire", default=None)
"""The transport on stdin and stdout, if the agent is alone in its process; `/noise` and `/crash` need it."""

SURVIVED = "If you can read this, your client survived.\n"


class OwnProcess:
    """An agent that is alone in its process."""

    def __init__(self, agent: Servable) -> None:
        self._agent = agent

    async def serve(self, transport: Transport) -> None:
        """Serve the agent, with the transport known to its commands."""
        _own_wire.set(transport)
        await self._agent.serve(transport)


@command("refuse", "Refuse to answer", shows="stop reason `refusal`")
async def refuse(turn: Turn[BuiltinSettings], argument: str) -> str:
    """Refuse; the prompt is left out of the history."""
    await turn.say("I would rather not.\n")
    return "refusal"


@command("max-tokens", "Run out of tokens", shows="stop reason `max_tokens`")
async def max_tokens(turn: Turn[BuiltinSettings], argument: str) -> str:
    """Stop in the middle of a sentence."""
    await turn.say("And the most important thing to know is that")
    return "max_tokens"


@command("max-requests", "Run out of model requests", shows="stop reason `max_turn_requests`")
async def max_requests(turn: Turn[BuiltinSettings], argument: str) -> str:
    """Stop after too many requests."""
    await turn.say("I have asked the model too often in this turn.\n")
    return "max_turn_requests"


@command("error", "End the prompt with an error", shows="JSON-RPC errors", hint="[code]")
async def error(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Answer with an error; the connection stays open."""
    code = int(argument) if re.fullmatch(r"-?\d{1,9}", argument) else RequestError.code
    raise RequestError("this error was asked for", code=code, data={"asked": True})


@command("exception", "Fail with an unexpected exception", shows="internal errors")
async def exception(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Raise: the client receives the exception's class and a reference to the log only."""
    raise ValueError("this text must stay inside the agent")


@command("crash", "End the agent's process at once", shows="a lost agent", hint="[exit code]")
async def crash(turn: Turn[BuiltinSettings], argument: str) -> None:
    """End the process in the middle of a turn: by SIGKILL, or with an exit code."""
    if _own_wire.get() is None:
        await turn.say("I am an object inside another program, which I will not take down with me.\n")
        return
    await turn.say("Goodbye.")
    await turn.session.commit()
    if argument.isdecimal():
        os._exit(int(argument) & 0xFF)
    os.kill(os.getpid(), signal.SIGKILL)


@command("unknown-update", "Send an update of an unknown kind", shows="unknown variants")
async def unknown_update(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send an unknown update, and a tool call of an unknown kind and status."""
    fields = {"sessionUpdate": "from_the_future", "answer": 42}
    await turn.update(UnrecognizedUpdate(tag="from_the_future", fields=fields))
    await turn.update(
        ToolCallUpdate(is_new=True, tool_call_id="strange", title="Read your mind", kind="telepathy", status="dreaming")
    )
    await turn.say(SURVIVED)


@command("odd-tools", "Send tool calls that break the rules", shows="tool calls as some agents send them")
async def odd_tools(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send tool calls never announced, announced twice, never finished, and with unknown content."""
    await turn.update(ToolCallUpdate(tool_call_id="never-announced", status="completed"))
    for title in ("Announced once", "Announced twice"):
        await turn.update(ToolCallUpdate(is_new=True, tool_call_id="twice", title=title, status="completed"))
    strange = UnknownPart({"type": "hologram", "of": "a cat"})
    terminal = TerminalPart("a-terminal-nobody-made")
    await turn.update(
        ToolCallUpdate(
            is_new=True,
            tool_call_id=turn.session.new_id("call"),
            title="Never finished",
            status="in_progress",
            content=[strange, terminal],
            raw_input="not an object",
            raw_output=[1, None, "two"],
        )
    )
    await turn.say(SURVIVED)


@command("odd-text", "Send text that breaks careless clients", shows="odd characters")
async def odd_text(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Line separators, NUL, emoji, direction marks, escape codes, an empty chunk."""
    for piece in ODD_PIECES:
        await turn.say(piece)
    await turn.say(f"\n{SURVIVED}")


@command("noise", "Write lines to stdout that are not the protocol", shows="a noisy agent")
async def noise(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Write stray lines to the wire; what is printed goes to stderr."""
    wire = _own_wire.get()
    if wire is None:
        await turn.say("I am an object inside another program: there is no stdout of mine to be noisy on.\n")
        return
    print("this line was printed in the middle of a turn")  # noqa: T201  # what this command is there to show
    os.write(1, b"and this one was written to descriptor 1\n")
    for line in NOISE:
        wire.send(line)
    await turn.say(f"I wrote {len(NOISE)} lines to stdout that you should ignore. {SURVIVED}")


COMMANDS = (
    refuse,
    max_tokens,
    max_requests,
    error,
    exception,
    crash,
    noise,
    unknown_update,
    odd_tools,
    odd_text,
)
