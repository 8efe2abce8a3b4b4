"""The items of a transcript by number and by id, and what is dropped of them when there is no room."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, TypeAlias

from msgspec import UNSET, structs

from duologue.conversation.builders import MessageBuilder, TerminalBuffer, cut_content
from duologue.conversation.items import Compaction, Item, SessionMessage, ToolCall
from duologue.conversation.memory_size import memory_size

__all__ = ["ITEM_BYTES", "ItemIndex", "Key", "drop_oldest"]

Key: TypeAlias = tuple[str, str]
"""What kind of item it is, and its id."""

ITEM_BYTES = 512
"""What an item takes beside its content: its own fields, and its place in the tables."""

MAX_TITLE_CHARS = 4096
MAX_LOCATIONS = 256
"""What is kept of a tool call that is too large: more than anybody reads."""


class ItemIndex:
    """Items in the order they first appeared. Their numbers stay the same when others are dropped.

    Attributes:
        count: How many there were so far: the number of the next one.
        by_number: Those that are still here.
        last: The newest.
    """

    def __init__(self) -> None:
        self.count = 0
        self.by_number: dict[int, Item | MessageBuilder] = {}
        self.last: Item | MessageBuilder | None = None
        self._numbers: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}
        self._weights: dict[int, int] = {}

    def add(self, item: Item | MessageBuilder, key: Key | None) -> None:
        """Begin a new item."""
        if key is not None:
            self._numbers[key] = self.count
            self._keys[self.count] = key
        self.by_number[self.count] = self.last = item
        self.count += 1

    def get(self, key: Key) -> Item | MessageBuilder | None:
        """The item of this kind and id."""
        number = self._numbers.get(key)
        return None if number is None else self.by_number[number]

    def put(self, key: Key, item: Item) -> None:
        """Replace the item of this kind and id."""
        self.replace(self._numbers[key], item)

    def replace(self, number: int, item: Item) -> None:
        """Replace the item of this number."""
        self.by_number[number] = item
        self._weights.pop(number, None)
        if number == self.count - 1:
            self.last = item

    def since(self, number: int) -> Iterator[tuple[int, Item | MessageBuilder]]:
        """The items from this number on that are still here."""
        for each in range(max(number, self.count - len(self.by_number)), self.count):
            yield each, self.by_number[each]

    def drop(self, number: int) -> None:
        """Forget the oldest item, which has this number; its id is unknown from now on."""
        del self.by_number[number]
        self._weights.pop(number, None)
        if (key := self._keys.pop(number, None)) is not None:
            del self._numbers[key]

    def sizes(self) -> list[tuple[int, int]]:
        """The number and the bytes of each item with its place, oldest first; only changed ones are looked at again."""
        for number, item in self.by_number.items():
            if isinstance(item, MessageBuilder):
                self._weights[number] = item.compact()
            elif number not in self._weights:
                self._weights[number] = memory_size(item)
        return [(number, ITEM_BYTES + self._weights[number]) for number in self.by_number]

    def cut_last(self, keep: int) -> None:
        """Drop the oldest content of the newest item, so that about `keep` bytes of it stay."""
        match item := self.last:
            case MessageBuilder():
                item.cut(keep)
                return
            case ToolCall():
                cut: Item = _cut_tool_call(item, keep)
            case Compaction():
                cut = structs.replace(item, summary=cut_content(item.summary, keep), meta=None, is_truncated=True)
            case SessionMessage():
                cut = structs.replace(item, content=cut_content(item.content, keep), meta=None, is_truncated=True)
            case _:
                return
        self.replace(self.count - 1, cut)


def _cut_tool_call(call: ToolCall, keep: int) -> ToolCall:
    """What a tool call is judged by stays as long as it can."""
    return ToolCall(
        tool_call_id=call.tool_call_id,
        title=call.title[:MAX_TITLE_CHARS],
        kind=call.kind,
        status=call.status,
        content=cut_content(call.content, keep),
        locations=call.locations[-MAX_LOCATIONS:],
        raw_input=call.raw_input if memory_size(call.raw_input) <= keep else UNSET,
        name=call.name,
        can_cancel=call.can_cancel,
        is_truncated=True,
    )


def drop_oldest(entries: ItemIndex, others: Sequence[MutableMapping[Any, Any]], limit: int) -> tuple[int, int]:
    """Drop the oldest of the heaviest kind until no more than three quarters of the limit are taken.

    Args:
        entries: The items of a transcript; the newest stays, and loses the beginning of its content if it must.
        others: What else it keeps by id, oldest first.
        limit: Bytes that all of it may take.

    Returns:
        The bytes that are taken now, and how many were dropped.
    """
    weights = [entries.sizes(), *([(key, _weight(value)) for key, value in kind.items()] for kind in others)]
    taken = [sum(weight for _, weight in kind) for kind in weights]
    if sum(taken) <= limit * 7 // 8:
        return sum(taken), 0
    oldest = [iter(kind) for kind in weights]
    dropped, goal = 0, limit * 3 // 4
    while sum(taken) > goal:
        heaviest = taken.index(max(taken))
        key, weight = next(oldest[heaviest])
        if heaviest == 0 and key == entries.count - 1:
            entries.cut_last(limit // 2)
            taken[0] = entries.sizes()[0][1]
            break
        if heaviest == 0:
            entries.drop(key)
        else:
            del others[heaviest - 1][key]
        taken[heaviest] -= weight
        dropped += 1
    return sum(taken), dropped


def _weight(value: Any) -> int:
    return value.compact() if isinstance(value, TerminalBuffer) else memory_size(value)
