"""Ids for messages without one, so that a client that needs ids joins the same chunks as a transcript does."""

from __future__ import annotations

import secrets

from duologue.conversation.updates import MessageChunk, MessageUpdate, Role, Update


class MessageIds:
    """The ids of one session's messages.

    A chunk without an id continues the message before it, unless another message, tool call, compaction or message
    between sessions began since.

    Args:
        prefix: The beginning of the ids. It must differ whenever the session is opened again, because the client may
            remember the ids of the last time.
    """

    def __init__(self, prefix: str | None = None) -> None:
        self._prefix = secrets.token_hex(4) if prefix is None else prefix
        self._count = 0
        self._seen: set[tuple[str, str]] = set()
        self._open_role: Role | None = None
        self._open_id = ""

    def new(self, role: Role) -> str:
        """Return the id of a new message; chunks without an id do not continue it."""
        self._open_role = None
        while True:
            self._count += 1
            message_id = f"{self._prefix}-{self._count}"
            if (role, message_id) not in self._seen:
                self._seen.add((role, message_id))
                return message_id

    def fill(self, update: Update) -> Update:
        """Return the update, with an id if it is a message chunk without one."""
        if isinstance(update, MessageChunk):  # almost every update of a long answer
            return self._chunk(update)
        if isinstance(update, MessageUpdate):
            self._note(update.role, update.message_id)
        elif update.is_item:
            self._note(update.entity[0], getattr(update, update.entity[1]))
        return update

    def _chunk(self, chunk: MessageChunk) -> MessageChunk:
        if chunk.message_id is not None:
            self._note(chunk.role, chunk.message_id)
            return chunk
        message_id = self._open_message(chunk.role)
        return MessageChunk(role=chunk.role, content=chunk.content, message_id=message_id, meta=chunk.meta)

    def _open_message(self, role: Role) -> str:
        if role != self._open_role:
            self._open_id = self.new(role)
            self._open_role = role
        return self._open_id

    def _note(self, kind: str, item_id: str) -> None:
        """Note an item; if it is new, later chunks without an id begin a new message."""
        if (kind, item_id) not in self._seen:
            self._seen.add((kind, item_id))
            self._open_role = None
