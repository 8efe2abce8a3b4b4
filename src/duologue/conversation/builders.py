"""What grows piece by piece: messages and the output of terminals, put together only when somebody looks.

A message of ten thousand chunks must not be put together ten thousand times.
"""

from __future__ import annotations

from collections import deque
from sys import getsizeof
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType, structs

from duologue.conversation.content import Content, JsonObject, TextContent, merge_text
from duologue.conversation.items import Message, Terminal
from duologue.conversation.memory_size import memory_size
from duologue.conversation.tool_content import ToolContent
from duologue.conversation.updates import MessageChunk, MessageUpdate, Role, TerminalUpdate

__all__ = ["TERMINAL_BYTES", "MessageBuilder", "TerminalBuffer", "cut_content", "patched_meta", "size_of"]

C = TypeVar("C", Content, ToolContent)

PIECE_BYTES = 80
"""What a piece of a message takes beside its text, until the pieces are put together."""

GROUP = 1024
"""Pieces of a message that are put together at once."""

TERMINAL_BYTES = 1024 * 1024
"""Output kept per terminal: more than anybody scrolls back, and little enough for a hundred of them."""


class MessageBuilder:
    """A message that is still being written."""

    def __init__(self, first: MessageChunk | MessageUpdate) -> None:
        self.role: Role = first.role
        self.message_id = first.message_id
        self._meta: JsonObject | None = None
        self._is_refused = False
        self._is_truncated = False
        self._blocks: list[Content] = []
        self._fresh: list[Content] = []
        self._message: Message | None = None
        self._weight: int | None = None

    def append(self, chunk: MessageChunk) -> None:
        """Go on with this."""
        self._fresh.append(chunk.content)
        self._message = self._weight = None
        if isinstance(chunk.meta, dict):
            self._meta = {**(self._meta or {}), **chunk.meta}

    def change(self, change: MessageUpdate) -> None:
        """Be this instead, as far as it says."""
        if change.content is not UNSET:
            self._blocks, self._fresh = [], list(change.content or [])
        self._meta = patched_meta(self._meta, change.meta)
        self._message = self._weight = None

    def refuse(self) -> None:
        """It does not count any more."""
        self._is_refused = True
        self._message = None

    def compact(self) -> int:
        """Put small pieces together; the bytes it takes then."""
        if self._weight is not None:
            return self._weight
        if len(self._fresh) > GROUP:
            pieces = deque(self._fresh)
            self._fresh = []
            while pieces:  # in groups, so that it is never here twice
                self._fresh += merge_text([pieces.popleft() for _ in range(min(GROUP, len(pieces)))])
        self._weight = memory_size(self._blocks) + memory_size(self._fresh) + memory_size(self._meta)
        return self._weight

    def cut(self, keep: int) -> None:
        """Drop the oldest of its content and what is attached, so that about `keep` bytes stay."""
        kept = cut_content([*self._blocks, *self._fresh], keep)
        self._blocks, self._fresh, self._meta = [], kept, None
        self._message = self._weight = None
        self._is_truncated = True

    @property
    def message(self) -> Message:
        """All of it so far."""
        if self._message is None:
            self._blocks = merge_text([*self._blocks, *self._fresh])
            self._fresh = []
            self._message = Message(
                role=self.role,
                content=self._blocks,
                message_id=self.message_id,
                is_refused=self._is_refused,
                is_truncated=self._is_truncated,
                meta=self._meta,
            )
        return self._message


class TerminalBuffer:
    """A terminal whose command may still print; the end of its output is kept."""

    def __init__(self, terminal_id: str, limit: int = TERMINAL_BYTES) -> None:
        self._fresh = self._known = Terminal(terminal_id=terminal_id)
        self._limit = limit
        self._output = bytearray()
        self._is_truncated = False

    def append(self, data: bytes) -> None:
        """The command has printed this."""
        self._output += data
        self._cut()

    def change(self, change: TerminalUpdate) -> None:
        """Take over what is said of it."""
        fields: dict[str, Any] = {}
        for name in ("command", "cwd", "exit", "size", "can_cancel"):
            value = getattr(change, name)
            if value is not UNSET:
                fields[name] = getattr(self._fresh, name) if value is None else value
        fields["meta"] = patched_meta(self._known.meta, change.meta)
        self._known = structs.replace(self._known, **fields)
        if change.output is not UNSET:
            self._output = bytearray(change.output or b"")
            self._is_truncated = False
            self._cut()

    def compact(self) -> int:
        """The bytes it takes."""
        return len(self._output) + memory_size(self._known)

    @property
    def terminal(self) -> Terminal:
        """All that is known of it."""
        return structs.replace(self._known, output=bytes(self._output), is_truncated=self._is_truncated)

    def _cut(self) -> None:
        """Forget the oldest output, up to the beginning of a character."""
        excess = len(self._output) - self._limit
        if excess <= 0:
            return
        self._is_truncated = True
        last = min(excess + 3, len(self._output))
        while excess < last and self._output[excess] & 0xC0 == 0x80:
            excess += 1
        del self._output[:excess]


def patched_meta(before: JsonObject | None, patch: JsonObject | None | UnsetType) -> JsonObject | None:
    """What is attached, patched key by key: a key that is `None` goes away, and `None` takes all of it away."""
    if isinstance(patch, UnsetType):
        return before
    if patch is None:
        return None
    return {key: value for key, value in {**(before or {}), **patch}.items() if value is not None}


def cut_content(parts: list[C], keep: int) -> list[C]:
    """The newest of these parts that take `keep` bytes together; of a text that is longer by itself, its end."""
    kept: list[C] = []
    for part in reversed(parts):
        size = memory_size(part)
        if size > keep:
            if not kept and isinstance(part, TextContent):
                characters = keep * len(part.text) // size
                kept.append(structs.replace(part, text=part.text[len(part.text) - characters :]))
            break
        keep -= size
        kept.append(part)
    return kept[::-1]


def size_of(chunk: MessageChunk) -> int:
    """The bytes that a piece of a message takes."""
    content = chunk.content
    if type(content) is TextContent and not (content.annotations or content.meta or chunk.meta):
        return PIECE_BYTES + getsizeof(content.text)
    return memory_size(chunk)
