"""Subagents as sessions of their own, for clients that show them; their tool calls are shown to every client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

from duologue.coder.turn import CodeTurn
from duologue.conversation.content import TextContent
from duologue.conversation.updates import MessageChunk, SubagentUpdate
from duologue.sanitize import shorten

MOST_OF_TITLE = 60


@asynccontextmanager
async def subagent_session(ctx: RunContext[CodeTurn]) -> AsyncGenerator[None]:
    """Announce the session of a subagent while its run goes on."""
    turn, child = ctx.deps.turn, _session_id(ctx)
    title = shorten(str(ctx.prompt or "Subagent").strip().splitlines()[0], MOST_OF_TITLE)
    await turn.update(SubagentUpdate(session_id=child, title=title, state={"state": "running"}, cwd=str(turn.cwd)))
    reason = "cancelled"
    try:
        yield
        reason = "end_turn"
    finally:
        await turn.send_final_update(SubagentUpdate(session_id=child, state={"state": "idle", "stopReason": reason}))


async def show_subagent(ctx: RunContext[CodeTurn], events: AsyncIterable[Any]) -> None:
    """Send the text of one answer of a subagent in its session."""
    session, child = ctx.deps.turn.session, _session_id(ctx)
    message = session.new_id("msg")
    async for event in events:
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                if text:
                    chunk = MessageChunk(role="agent", content=TextContent(text), message_id=message)
                    await session.update_subagent(child, chunk)
            case _:
                pass


def _session_id(ctx: RunContext[CodeTurn]) -> str:
    return f"{ctx.deps.turn.session.id}.{ctx.run_id}"
