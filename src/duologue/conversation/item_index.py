"""The items of a transcript by number and by id, and the rule by which the oldest are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, TypeAlias

from msgspec import UNSET, structs

from duologue.conversation.builders import MessageBuilder, TerminalBuffer, cut_content
from duologue.conversation.items import Compaction, Item, SessionMessage, ToolCall
from duologue.conversation.memory_size import memory_size

Key: TypeAlias = tuple[str, str]
"""The kind and the id of an item."""

ITEM_BYTES = 512
"""Memory of an item in addition to its content: its fields, and its entries in the tables."""

MAX_TITLE_CHARS = 4096
MAX_LOCATIONS = 256
"""Characters and locations kept of a tool call that is too large: more than a user reads."""


class ItemIndex:
    """Items in the order they first appeared. Their numbers stay the same when others are dropped.

    Attributes:
        count: How many items were added so far: the number of the next one.
        by_number: The items that were not dropped.
        last: The newest item.
    """

    def __init__(self) -> None:
        self.count = 0
        self.by_number: dict[int, Item | MessageBuilder] = {}
        self.last: Item | MessageBuilder | None = None
        self._numbers: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}
        self._sizes: dict[int, int] = {}

    def add(self, item: Item | MessageBuilder, key: Key | None) -> None:
        """Add a new item."""
        if key is not None:
            self._numbers[key] = self.count
            self._keys[self.count] = key
        self.by_number[self.count] = self.last = item
        self.count += 1

    def get(self, key: Key) -> Item | MessageBuilder | None:
        """Return the item of this kind and id."""
        number = self._numbers.get(key)
        return None if number is None else self.by_number[number]

    def put(self, key: Key, item: Item) -> None:
        """Replace the item of this kind and id."""
        self.replace(self._numbers[key], item)

    def replace(self, number: int, item: Item) -> None:
        """Replace the item of this number."""
        self.by_number[number] = item
        self._sizes.pop(number, None)
        if number == self.count - 1:
            self.last = item

    def since(self, number: int) -> Iterator[tuple[int, Item | MessageBuilder]]:
        """Yield the items from this number on that were not dropped."""
        for each in range(max(number, self.count - len(self.by_number)), self.count):
            yield each, self.by_number[each]

    def before(self, number: int, keys: Iterable[Key]) -> Iterator[tuple[int, Item | MessageBuilder]]:
        """Yield those of these items that are older than the one of this number."""
        for key in keys:
            if (found := self._numbers.get(key, number)) < number:
                yield found, self.by_number[found]

    def drop(self, number: int) -> None:
        """Drop the oldest item, which has this number; its id is unknown from now on."""
        del self.by_number[number]
        self._sizes.pop(number, None)
        if (key := self._keys.pop(number, None)) is not None:
            del self._numbers[key]

    def sizes(self) -> list[tuple[int, int]]:
        """Return the number and the size of each item, oldest first; only changed items are measured again."""
        for number, item in self.by_number.items():
            if isinstance(item, MessageBuilder):
                self._sizes[number] = item.compact()
            elif number not in self._sizes:
                self._sizes[number] = memory_size(item)
        return [(number, ITEM_BYTES + self._sizes[number]) for number in self.by_number]

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
    """Drop content of a tool call; keep the fields by which permission rules evaluate it as long as possible."""
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
    """Drop the oldest entries of the largest table until at most three quarters of the limit are used.

    Args:
        entries: The items of a transcript; the newest stays, and loses the beginning of its content if necessary.
        others: Further tables of the transcript by id, oldest first.
        limit: Bytes that all of it may take.

    Returns:
        The bytes used now, and how many entries were dropped.
    """
    sizes = [entries.sizes(), *([(key, _size_of(value)) for key, value in kind.items()] for kind in others)]
    used = [sum(size for _, size in kind) for kind in sizes]
    if sum(used) <= limit * 7 // 8:
        return sum(used), 0
    oldest = [iter(kind) for kind in sizes]
    dropped, goal = 0, limit * 3 // 4
    while sum(used) > goal:
        largest = used.index(max(used))
        key, size = next(oldest[largest])
        if largest == 0 and key == entries.count - 1:
            entries.cut_last(limit // 2)
            used[0] = entries.sizes()[0][1]
            break
        if largest == 0:
            entries.drop(key)
        else:
            del others[largest - 1][key]
        used[largest] -= size
        dropped += 1
    return sum(used), dropped


def _size_of(value: Any) -> int:
    return value.compact() if isinstance(value, TerminalBuffer) else memory_size(value)
