"""What a tool call shows: content, changes to files, terminals; and where it works."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from duologue.conversation.content import Content, JsonObject

__all__ = ["ContentPart", "FileChange", "Location", "TerminalPart", "ToolContent", "UnknownPart"]


class Location(Struct, frozen=True, omit_defaults=True):
    """A place in a file that a tool works on; lines count from 1."""

    path: str
    line: int | None = None
    meta: JsonObject | None = None


class ContentPart(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="content"):
    """Content a tool produced."""

    content: Content
    meta: JsonObject | None = None


class FileChange(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="change"):
    """A change to one file, whole texts where they are known.

    `old_text` is `None` for a file that did not exist, `new_text` is `None` for one that is gone. `operation` is
    `add`, `delete`, `modify`, `move` or `copy`; the last two carry `old_path`. With a `patch` and no texts, the patch
    is all that is known of what changed.
    """

    path: str
    old_text: str | None = None
    new_text: str | None = None
    operation: str | None = None
    old_path: str | None = None
    file_type: str | None = None
    mime_type: str | None = None
    patch: str | None = None
    """The same change as a git patch, where the peer speaks in patches."""
    meta: JsonObject | None = None
    patch_format: str | None = None
    """The format of the patch, if it is not git's."""
    diff_meta: JsonObject | None = None
    """What is attached to the diff that this change is one of, as `meta` is to the change."""
    other: JsonObject | None = None
    """A kind of change this version does not know, as it came."""

    @property
    def kind(self) -> str:
        """The operation, inferred from the texts when it was not said."""
        if self.operation is not None:
            return self.operation
        if self.new_text is None:
            return "delete"
        return "add" if self.old_text is None else "modify"


class TerminalPart(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="terminal"):
    """The live output of a terminal, shown inside the tool call."""

    terminal_id: str
    meta: JsonObject | None = None


class UnknownPart(Struct, frozen=True, tag_field="part", tag="?"):
    """A kind of tool content this version does not know, as it came."""

    fields: JsonObject


ToolContent: TypeAlias = ContentPart | FileChange | TerminalPart | UnknownPart
