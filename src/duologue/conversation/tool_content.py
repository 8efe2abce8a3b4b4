"""Content of tool calls: content blocks, file changes, terminals; and the locations they work on."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from duologue.conversation.content import Content, JsonObject


class Location(Struct, frozen=True, omit_defaults=True):
    """A location in a file that a tool works on; lines count from 1."""

    path: str
    line: int | None = None
    meta: JsonObject | None = None


class ContentPart(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="content"):
    """A content block that a tool produced."""

    content: Content
    meta: JsonObject | None = None


class FileChange(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="change"):
    """A change to one file, with whole texts where they are known.

    `old_text` is `None` for a file that did not exist, `new_text` is `None` for a deleted one. `operation` is `add`,
    `delete`, `modify`, `move` or `copy`; the last two have an `old_path`. With a `patch` and no texts, only the patch
    is known.
    """

    path: str
    old_text: str | None = None
    new_text: str | None = None
    operation: str | None = None
    old_path: str | None = None
    file_type: str | None = None
    mime_type: str | None = None
    patch: str | None = None
    """The change as a git patch, if the peer sent one."""
    meta: JsonObject | None = None
    patch_format: str | None = None
    """The format of the patch, if it is not a git patch."""
    diff_meta: JsonObject | None = None
    """Metadata of the diff that contains this change; `meta` is that of the change."""
    other: JsonObject | None = None
    """A kind of change that this version does not know, unchanged."""

    @property
    def kind(self) -> str:
        """The operation; inferred from the texts if it is not set."""
        if self.operation is not None:
            return self.operation
        if self.new_text is None:
            return "delete"
        return "add" if self.old_text is None else "modify"


class TerminalPart(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="terminal"):
    """A terminal whose live output is shown in the tool call."""

    terminal_id: str
    meta: JsonObject | None = None


class UnknownPart(Struct, frozen=True, tag_field="part", tag="?"):
    """A kind of tool content that this version does not know, unchanged."""

    fields: JsonObject


ToolContent: TypeAlias = ContentPart | FileChange | TerminalPart | UnknownPart
