"""Short words for what the tests of the store tell and hear again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from duologue.conversation.content import TextContent
from duologue.conversation.session_setup import SessionInfo
from duologue.conversation.updates import MessageChunk, Role, ToolCallUpdate, Update
from duologue.store.base import Store
from duologue.store.sqlite.database import FILE_NAME

__all__ = ["chunk", "execute", "info", "numbered", "replayed", "replayed_numbers", "tool"]


def info(session_id: str, cwd: str = "/work", *, title: str | None = None, archived: bool = False) -> SessionInfo:
    return SessionInfo(session_id=session_id, cwd=cwd, title=title, archived=archived)


def chunk(text: str, message_id: str | None = None, role: Role = "agent") -> MessageChunk:
    return MessageChunk(role=role, content=TextContent(text), message_id=message_id)


def numbered(number: int) -> MessageChunk:
    """Return an update that is not merged with its neighbours and can be recognized."""
    return chunk(f"event {number}: ü€🦊", message_id=str(number))


def tool(tool_call_id: str, status: str, *, is_new: bool = False) -> ToolCallUpdate:
    return ToolCallUpdate(tool_call_id=tool_call_id, status=status, is_new=is_new)


async def replayed(store: Store, session_id: str) -> list[Update]:
    """Return a replay, which must have no damage."""
    replay = store.replay(session_id)
    updates = [update async for update in replay]
    assert replay.damage == []
    return updates


async def replayed_numbers(store: Store, session_id: str) -> list[int]:
    """Return the numbers of a session's `numbered` updates; each must be what was written."""
    numbers: list[int] = []
    async for update in store.replay(session_id):
        assert isinstance(update, MessageChunk)
        numbers.append(int(update.message_id or 0))
        assert update == numbered(numbers[-1])
    return numbers


def execute(directory: Path, *statements: str) -> None:
    """Do something to the file of a store that no store would do."""
    connection = sqlite3.connect(directory / FILE_NAME, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
