"""Content blocks and the content of tool calls, to version 1 and back."""

from __future__ import annotations

from duologue.conversation import content as c
from duologue.conversation import updates as u
from duologue.errors import InvalidParams
from duologue.protocol.shared.content import block_from_wire, block_to_wire
from duologue.schema import v1
from duologue.schema.base import Other
from duologue.schema.codec import decode, encode


def to_wire(block: c.Content) -> v1.ContentBlock:
    """Write one block; plain text, which is most of what is sent, takes the fast path."""
    if type(block) is c.TextContent and block.annotations is None:
        return v1.TextContent(text=block.text, meta=block.meta)
    wire: v1.ContentBlock = block_to_wire(v1, block)
    return wire


def from_wire(block: v1.ContentBlock) -> c.Content:
    """Read one block; plain text, which is most of what is received, takes the fast path."""
    if type(block) is v1.TextContent and block.annotations is None:
        return c.TextContent(block.text, None, block.meta)
    return block_from_wire(v1, block)


def blocks_to_wire(blocks: list[c.Content]) -> list[v1.ContentBlock]:
    return [to_wire(block) for block in blocks]


def blocks_from_wire(blocks: list[v1.ContentBlock]) -> list[c.Content]:
    return [from_wire(block) for block in blocks]


def part_to_wire(part: u.ToolContent) -> v1.ToolCallContent:
    """Write one part of a tool call's content."""
    match part:
        case u.ContentPart():
            return v1.Content(content=to_wire(part.content), meta=part.meta)
        case u.FileChange():
            return _change_to_wire(part)
        case u.TerminalPart():
            return v1.Terminal(terminal_id=part.terminal_id, meta=part.meta)
        case u.UnknownPart():
            return Other(part.fields.get("type"), part.fields)


def part_from_wire(part: v1.ToolCallContent) -> u.ToolContent:
    """Read one part of a tool call's content."""
    match part:
        case v1.Content():
            return u.ContentPart(from_wire(part.content), part.meta)
        case v1.Diff():
            return u.FileChange(part.path, part.old_text, part.new_text, meta=part.meta)
        case v1.Terminal():
            return u.TerminalPart(part.terminal_id, part.meta)
        case Other():
            return _bare_block(part) or u.UnknownPart(dict(part))


def _bare_block(part: Other) -> u.ContentPart | None:
    """Read a content block that is not wrapped in `content`, as an example in the documentation has it."""
    if part.tag not in c.BLOCK_TYPES:
        return None
    try:
        return u.ContentPart(from_wire(decode(v1.Content, encode({"type": "content", "content": part})).content))
    except InvalidParams:
        return None


def _change_to_wire(change: u.FileChange) -> v1.Diff | v1.Content:
    """Write a change by its texts, or by those in its patch, or else as text.

    Version 1 has no form for a deletion but an empty new text.
    """
    old, new = change.old_text, change.new_text
    if old is None and new is None and change.patch is not None and change.patch_format is None:
        from duologue.conversation.git_patch import texts_of_patch

        old, new = texts_of_patch(change.patch)
    if old is None and new is None and change.operation not in (None, "delete"):
        source = "" if change.old_path is None else f"{change.old_path} → "
        return v1.Content(content=v1.TextContent(text=f"{change.operation}: {source}{change.path}"), meta=change.meta)
    return v1.Diff(path=change.path, new_text=new or "", old_text=old, meta=change.meta)
