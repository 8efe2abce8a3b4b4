"""Put the items of a conversation in the order in which they began, with the chunks of a message in one item."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from duologue.conversation.tool_content import FileChange
from duologue.conversation.updates import PlanEntry, Role

ItemKind: TypeAlias = Literal[
    "connection", "session", "prompt", "message", "tool_call", "permission", "permission_answer", "plan", "update",
    "request", "stop", "error", "invalid", "stderr", "exit", "gap",
]  # fmt: skip

MAX_TEXT = 64 * 1024
"""Characters of a message in one item; a longer one continues in the next."""
MAX_WAITING = 1000
"""Items that wait for the end of a message that began before them."""


class ConversationItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened in a recorded conversation.

    Attributes:
        number: Number of the frame that it began with.
        t: Seconds since the start of the recording.
        kind: What it is.
        session: Session that it is about.
        role: Author of a message.
        text: Text of a prompt, message, error or stderr; output of a tool; chosen option of a permission answer.
        continues: True if it goes on with the text of the message of this role and session before it.
        title: Title of a tool call, or of what a permission is asked for; method of a request; name of an update.
        tool_call_id: Id of the tool call.
        tool_kind: Kind of the tool call.
        status: Status of a tool call; stop reason; kind of the chosen option.
        options: Options of a permission request.
        changes: Files that a tool call changed.
        entries: Steps of a plan.
        seconds: How long it took: a tool call, a turn, the answer to a request.
    """

    number: int
    t: float
    kind: ItemKind
    session: str = ""
    role: Role | Literal[""] = ""
    text: str = ""
    continues: bool = False
    title: str = ""
    tool_call_id: str = ""
    tool_kind: str = ""
    status: str = ""
    options: list[str] = []
    changes: list[FileChange] = []
    entries: list[PlanEntry] = []
    seconds: float | None = None


class _OpenText:
    """A message or a part of stderr that may still grow."""

    def __init__(self, item: ConversationItem, message_id: str | None) -> None:
        self.item = item
        self.message_id = message_id
        self.parts = [item.text]
        self.size = len(item.text)
        self.is_open = True

    def finished(self) -> ConversationItem:
        return structs.replace(self.item, text="".join(self.parts))


class ItemQueue:
    """Keeps items until those that began before them are complete."""

    def __init__(self) -> None:
        self._items: deque[ConversationItem | _OpenText] = deque()
        self._open: dict[str, _OpenText] = {}
        self._last: dict[str, tuple[str, str | None]] = {}
        """Role and id of the last message of each session, if nothing has followed it."""

    def add(self, item: ConversationItem) -> None:
        """Add an item, which ends the message of its session."""
        self._end(item.session)
        self._last.pop(item.session, None)
        self._items.append(item)

    def add_text(self, item: ConversationItem, message_id: str | None = None, *, replaces: bool = False) -> None:
        """Add a chunk of a message, or a whole message that replaces what is known of it."""
        current = self._open.get(item.session)
        is_same = current is not None and (current.item.role, current.message_id) == (item.role, message_id)
        if current is not None and is_same and replaces:
            current.parts, current.size = [item.text], len(item.text)
        elif current is not None and is_same and current.size < MAX_TEXT:
            current.parts.append(item.text)
            current.size += len(item.text)
        else:
            self._end(item.session)
            continues = not replaces and self._last.get(item.session) == (item.role, message_id)
            opened = _OpenText(structs.replace(item, continues=continues), message_id)
            self._open[item.session] = opened
            self._items.append(opened)
            if len(self._last) >= MAX_WAITING:
                self._last.clear()
            self._last[item.session] = (item.role, message_id)

    def ready(self) -> Iterator[ConversationItem]:
        """Yield the items that are complete and that nothing incomplete precedes."""
        while self._items:
            first = self._items[0]
            if isinstance(first, ConversationItem):
                yield first
            elif first.is_open and len(self._items) < MAX_WAITING:
                return
            else:
                if first.is_open:
                    self._end(first.item.session)
                yield first.finished()
            self._items.popleft()

    def rest(self) -> Iterator[ConversationItem]:
        """Yield all items; what follows continues them."""
        for session in list(self._open):
            self._end(session)
        yield from self.ready()

    def _end(self, session: str) -> None:
        if session in self._open:
            self._open.pop(session).is_open = False
