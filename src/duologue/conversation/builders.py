"""Messages and terminal output that grow chunk by chunk; chunks are joined only when the result is read.

A message of ten thousand chunks must not be joined ten thousand times.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType, structs

from duologue.conversation.content import Content, JsonObject, TextContent, merge_text
from duologue.conversation.items import Message, Terminal
from duologue.conversation.memory_size import memory_size
from duologue.conversation.tool_content import ToolContent
from duologue.conversation.updates import MessageChunk, MessageUpdate, Role, TerminalUpdate

C = TypeVar("C", Content, ToolContent)

CHUNK_BYTES = 64
"""Memory of a chunk of plain text in addition to its characters, until the chunks are joined."""

GROUP_BYTES = 1024
"""Chunks of a message are joined until they have this size: longer ones may be shared with events, and stay."""

TERMINAL_BYTES = 1024 * 1024
"""Output kept per terminal: more than a user scrolls back, and small enough for a hundred terminals."""


class MessageBuilder:
    """A message that is still being received.

    Attributes:
        role: The author.
        message_id: The id of the message, if it has one.
        fresh: Chunks that are not joined yet; a string stands for a block of plain text. Append to it to add a chunk.
    """

    def __init__(self, role: Role, message_id: str | None) -> None:
        self.role: Role = role
        self.message_id = message_id
        self.fresh: list[Content | str] = []
        self._meta: JsonObject | None = None
        self._is_refused = False
        self._is_truncated = False
        self._blocks: list[Content] = []
        self._message: Message | None = None
        self._size: int | None = None

    def append(self, chunk: MessageChunk) -> None:
        """Append a chunk with its metadata."""
        self.fresh.append(chunk.content)
        if isinstance(chunk.meta, dict):
            self._meta = {**(self._meta or {}), **chunk.meta}

    def change(self, change: MessageUpdate) -> None:
        """Apply an update that replaces the content or patches the metadata."""
        if change.content is not UNSET:
            self._blocks, self.fresh = [], list(change.content or [])
        self._meta = patched_meta(self._meta, change.meta)
        self._message = self._size = None

    def mark_refused(self) -> None:
        """Mark the message as refused by the agent."""
        self._is_refused = True
        self._message = None

    def compact(self) -> int:
        """Join small chunks; return the memory the message takes then."""
        if self._size is not None and not self.fresh:
            return self._size
        chunks, blocks = deque(self.fresh), [*self._blocks]
        self.fresh = []
        while chunks:
            group, size = list[Content | str](), 0
            while chunks and size < GROUP_BYTES:
                size += memory_size(chunks[0])
                group.append(chunks.popleft())
            blocks += _joined(group)
        self._blocks, self._message = blocks, None
        self._size = memory_size(blocks) + memory_size(self._meta)
        return self._size

    def cut(self, keep: int) -> None:
        """Drop the oldest content and the metadata, so that about `keep` bytes stay."""
        fresh = [TextContent(chunk) if isinstance(chunk, str) else chunk for chunk in self.fresh]
        self._blocks, self.fresh, self._meta = cut_content([*self._blocks, *fresh], keep), [], None
        self._message = self._size = None
        self._is_truncated = True

    @property
    def message(self) -> Message:
        """The message as received so far."""
        if self._message is None or self.fresh:
            self._blocks = merge_text([*self._blocks, *_joined(self.fresh)])
            self.fresh = []
            self._size = None
            self._message = Message(
                role=self.role,
                content=self._blocks,
                message_id=self.message_id,
                is_refused=self._is_refused,
                is_truncated=self._is_truncated,
                meta=self._meta,
            )
        return self._message


def _joined(chunks: list[Content | str]) -> list[Content]:
    """Join neighbouring chunks of text."""
    texts = [chunk for chunk in chunks if isinstance(chunk, str)]
    if len(texts) == len(chunks):
        return [TextContent("".join(texts))] if texts else []
    return merge_text([TextContent(chunk) if isinstance(chunk, str) else chunk for chunk in chunks])


class TerminalBuffer:
    """A terminal whose command may still print; only the end of its output is kept."""

    def __init__(self, terminal_id: str, limit: int = TERMINAL_BYTES) -> None:
        self._fresh = self._terminal = Terminal(terminal_id=terminal_id)
        self._limit = limit
        self._output = bytearray()
        self._is_truncated = False

    def append(self, data: bytes) -> None:
        """Append output of the command."""
        self._output += data
        self._cut()

    def change(self, change: TerminalUpdate) -> None:
        """Apply an update; fields that it does not set stay."""
        fields: dict[str, Any] = {}
        for name in ("command", "cwd", "exit", "size", "can_cancel"):
            value = getattr(change, name)
            if value is not UNSET:
                fields[name] = getattr(self._fresh, name) if value is None else value
        fields["meta"] = patched_meta(self._terminal.meta, change.meta)
        self._terminal = structs.replace(self._terminal, **fields)
        if change.output is not UNSET:
            self._output = bytearray(change.output or b"")
            self._is_truncated = False
            self._cut()

    def compact(self) -> int:
        """Return the memory the terminal takes."""
        return len(self._output) + memory_size(self._terminal)

    @property
    def terminal(self) -> Terminal:
        """The terminal with the output kept so far."""
        return structs.replace(self._terminal, output=bytes(self._output), is_truncated=self._is_truncated)

    def _cut(self) -> None:
        """Drop the oldest output, up to the beginning of a character."""
        excess = len(self._output) - self._limit
        if excess <= 0:
            return
        self._is_truncated = True
        last = min(excess + 3, len(self._output))
        while excess < last and self._output[excess] & 0xC0 == 0x80:
            excess += 1
        del self._output[:excess]


def patched_meta(before: JsonObject | None, patch: JsonObject | None | UnsetType) -> JsonObject | None:
    """Patch metadata key by key: a key with the value `None` is removed, and a patch of `None` removes everything."""
    if isinstance(patch, UnsetType):
        return before
    if patch is None:
        return None
    return {key: value for key, value in {**(before or {}), **patch}.items() if value is not None}


def cut_content(parts: list[C], keep: int) -> list[C]:
    """Return the newest parts that take at most `keep` bytes; of a longer text, its end."""
    remaining: list[C] = []
    for part in reversed(parts):
        size = memory_size(part)
        if size > keep:
            if not remaining and isinstance(part, TextContent):
                characters = keep * len(part.text) // size
                remaining.append(structs.replace(part, text=part.text[len(part.text) - characters :]))
            break
        keep -= size
        remaining.append(part)
    return remaining[::-1]
