"""The past of a session as version 2 tells it: each message in one piece.

A client that has heard it before replaces what it knows; pieces it would append.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.updates import UNSET, MessageChunk, MessageUpdate, Role, Update

__all__ = ["in_whole_messages"]


async def in_whole_messages(updates: AsyncIterator[Update]) -> AsyncIterator[Update]:
    """The same updates, with the pieces of a message put together; what is said of it after something else stays so."""
    pieces: list[MessageChunk] = []
    begun: set[tuple[Role, str]] = set()
    async for update in updates:
        if pieces and not _goes_on(pieces[0], update):
            yield _whole(pieces)
            pieces = []
        if isinstance(update, MessageChunk) and update.message_id is not None:
            name = (update.role, update.message_id)
            if pieces or name not in begun:
                begun.add(name)
                pieces.append(update)
                continue
        yield update
    if pieces:
        yield _whole(pieces)


def _goes_on(first: MessageChunk, update: Update) -> bool:
    return isinstance(update, MessageChunk) and (update.role, update.message_id) == (first.role, first.message_id)


def _whole(pieces: list[MessageChunk]) -> Update:
    first = pieces[0]
    content: list[Content] = [piece.content for piece in pieces]
    meta: JsonObject = {}
    for piece in pieces:
        meta |= piece.meta if isinstance(piece.meta, dict) else {}
    return MessageUpdate(role=first.role, message_id=first.message_id or "", content=content, meta=meta or UNSET)
