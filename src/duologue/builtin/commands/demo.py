"""The main features in one turn: a plan, a thought, edits of a file, a command and usage."""

from __future__ import annotations

import asyncio
import re
from contextvars import ContextVar

from duologue import Turn
from duologue.builtin.commands.files import EXAMPLE, edit, write
from duologue.builtin.commands.terminal import run
from duologue.builtin.settings import BuiltinSettings, acts_done
from duologue.builtin.slash_command import command
from duologue.conversation.updates import PlanEntry
from duologue.conversation.work_state import TokenUsage

STEPS = (
    ("Write a file", write, f"{EXAMPLE} Hello, I was written by an agent."),
    ("Change it", edit, f"{EXAMPLE} 'written by' 'changed by'"),
    ("Run a command on it", run, f"cat {EXAMPLE}"),
)
"""Title, command and argument of each step."""


pace: ContextVar[float] = ContextVar("pace", default=0.0)
"""Seconds between the steps, so that a person can follow; the words of a text come thirty times as fast."""


@command("tour", "Show the main things in one turn", shows="a plan, a thought, diffs, a command, usage")
async def tour(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Show the main features; asks before each change in the default mode."""
    await _say(
        turn, "This is the **Agent Client Protocol** at work: an agent and its client, two processes that talk.\n"
    )
    await turn.think("I have no model, so this thought is made up. All the rest is real.")
    done = list[bool]()
    for _, act, given in STEPS:
        await asyncio.sleep(pace.get())
        await turn.plan(*_plan(done))
        await asyncio.sleep(pace.get())
        count = acts_done.get()
        await act.handler(turn, given)
        done.append(acts_done.get() > count)
    await asyncio.sleep(pace.get())
    await turn.plan(*_plan(done))
    await turn.report_usage(used=2_100, size=200_000, cost=0.002, currency="USD")
    turn.tokens = TokenUsage(total=2_100, input=1_800, output=300)
    await _say(turn, "Every client that speaks the protocol shows the same. `/help` lists what else I can do.\n")


COMMANDS = (tour,)


async def _say(turn: Turn[BuiltinSettings], text: str) -> None:
    """Send a text at once, or word by word."""
    seconds = pace.get()
    for word in [text] if not seconds else re.findall(r"\S+\s*", text):
        await turn.say(word)
        await asyncio.sleep(seconds / 30)


def _plan(done: list[bool]) -> list[PlanEntry]:
    """Return the plan after some steps, for each of which `done` tells whether it was carried out."""
    states = ["completed" if is_done else "pending" for is_done in done]
    states += ["in_progress", "pending", "pending"][: len(STEPS) - len(done)]
    return [PlanEntry(title, state) for (title, _, _), state in zip(STEPS, states, strict=True)]
