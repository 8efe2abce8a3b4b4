"""Items of a conversation as the inspector page shows them, each text within a bound."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from duologue.sanitize import replace_lone_surrogates, shorten
from duologue.trace.item_queue import ConversationItem

TEXT_CHARS = 20_000
"""Characters of a message, an output or a plan in the page; the frame has the rest."""
NAME_CHARS = 400
MAX_PARTS = 50
"""Options, changed files and steps of one item."""


class ConversationRow(Struct, kw_only=True, omit_defaults=True):
    """An item of a conversation. The members are those of `Item` in `web/src/source.ts`.

    Attributes:
        number: Number of the frame that it began with.
        t: Seconds since the start of the recording.
        kind: As for `ConversationItem`, like the members that are not listed here.
        characters: Length of the text, if it was cut.
        changes: Path of each changed file, and what happened to it.
        entries: Text and status of each step of a plan.
    """

    number: int
    t: float
    kind: str
    session: str = ""
    role: str = ""
    text: str = ""
    characters: int = 0
    continues: bool = False
    title: str = ""
    tool_kind: str = ""
    status: str = ""
    options: Sequence[str] = ()
    changes: Sequence[tuple[str, str]] = ()
    entries: Sequence[tuple[str, str]] = ()
    seconds: float | None = None


def conversation_row(item: ConversationItem) -> ConversationRow:
    """Return the row of an item."""
    return ConversationRow(
        number=item.number,
        t=item.t,
        kind=item.kind,
        session=_name(item.session),
        role=item.role,
        text=replace_lone_surrogates(item.text[:TEXT_CHARS]),
        characters=len(item.text) if len(item.text) > TEXT_CHARS else 0,
        continues=item.continues,
        title=_name(item.title),
        tool_kind=_name(item.tool_kind),
        status=_name(item.status),
        options=[_name(each) for each in item.options[:MAX_PARTS]],
        changes=[(_name(each.path), _name(each.operation or "")) for each in item.changes[:MAX_PARTS]],
        entries=[(_name(each.content), _name(each.status)) for each in item.entries[:MAX_PARTS]],
        seconds=item.seconds,
    )


def _name(text: str) -> str:
    return replace_lone_surrogates(shorten(text, NAME_CHARS))
