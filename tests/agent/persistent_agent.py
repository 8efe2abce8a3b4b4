"""An agent that stores its sessions, and what it replays of them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from duologue.agent.agent import Agent
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.schema import v1
from duologue.store.base import Store
from duologue.store.memory import MemoryStore
from tests.agent.wire_client import agent_with


async def send_updates(turn: Turn[Settings]) -> str | None:
    """Send a bit of everything, and end as requested."""
    if turn.text == "wait":
        async with turn.tool("Wait"):
            await asyncio.Event().wait()
    if turn.text.startswith("title "):
        await turn.set_title(turn.text.removeprefix("title "))
    await turn.think("hm")
    for piece in ("You said: ", turn.text):
        await turn.say(piece)
    await turn.notify("Only now")
    async with turn.tool("Read", kind="read") as read:
        await read.show("text")
    return "refusal" if turn.text == "refuse" else None


def persistent_agent(store: Store | None = None, **options: Any) -> Agent[Any]:
    agent = agent_with(send_updates, **options)
    agent.persist_sessions(store if store is not None else MemoryStore())
    return agent


REPLAYED = [
    v1.UserMessageChunk(content=v1.TextContent(text="hi")),
    v1.AgentThoughtChunk(content=v1.TextContent(text="hm")),
    v1.AgentMessageChunk(content=v1.TextContent(text="You said: hi")),
    v1.ToolCall(
        tool_call_id="",
        title="Read",
        kind="read",
        status="completed",
        content=[v1.Content(content=v1.TextContent(text="text"))],
    ),
]
"""The updates that a replay of the turn "hi" sends, without the ids; a notice is not replayed."""


def without_ids(updates: list[Any]) -> list[Any]:
    known: list[Any] = []
    for update in updates:
        if isinstance(update, v1.ToolCall):
            known.append(msgspec.structs.replace(update, tool_call_id=""))
        else:
            known.append(type(update)(content=update.content))
    return known
