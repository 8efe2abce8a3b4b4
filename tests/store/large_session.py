"""Write or replay a session of many events, and say how much memory that took. A test runs this in a fresh process."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from duologue.conversation.content import TextContent
from duologue.conversation.updates import (
    ContentPart,
    MessageChunk,
    PlanEntry,
    PlanUpdate,
    ToolCallUpdate,
    ToolContent,
)
from duologue.store.sqlite.store import SqliteStore
from tests.memory import peak_bytes
from tests.store.messages import info

EVENTS_OF_A_ROUND = 100


async def write(path: Path, events: int, size: int) -> None:
    """Yield rounds of a conversation: chunks of this size, a tool call in five steps, a plan."""
    text = TextContent("x" * size)
    async with SqliteStore(path) as store, await store.create(info("s")) as log:
        for number in range(events // EVENTS_OF_A_ROUND):
            for _ in range(EVENTS_OF_A_ROUND - 6):
                log.append(MessageChunk(role="agent", content=text, message_id=f"m{number}"))
            for step in range(5):
                status = "completed" if step == 4 else "in_progress"
                content: list[ToolContent] = [ContentPart(text)] * step
                log.append(ToolCallUpdate(tool_call_id=f"t{number}", status=status, content=content, is_new=not step))
            log.append(PlanUpdate(entries=[PlanEntry(f"step {number}")]))
            await log.commit()


async def replay(path: Path) -> None:
    """Print how many characters, tool calls and plans came, the seconds, and the most memory used in KiB."""
    characters = tool_calls = plans = 0
    started = time.monotonic()
    async with SqliteStore(path) as store:
        session = store.replay("s")
        async for update in session:
            match update:
                case MessageChunk(content=TextContent(text=text)):
                    characters += len(text)
                case ToolCallUpdate(status="completed"):
                    tool_calls += 1
                case PlanUpdate():
                    plans += 1
                case _:
                    raise AssertionError(update)
        assert not session.damage
    seconds = time.monotonic() - started
    print(characters, tool_calls, plans, f"{seconds:.2f}", peak_bytes() // 1024)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        asyncio.run(write(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
    else:
        asyncio.run(replay(Path(sys.argv[2])))
