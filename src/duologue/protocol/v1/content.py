"""Content blocks and what tool calls hold, to version 1 and back."""

from __future__ import annotations

from duologue.conversation import content as c
from duologue.conversation import updates as u
from duologue.conversation.git_patch import texts_of_patch
from duologue.errors import InvalidParams
from duologue.schema import v1
from duologue.schema.base import Other
from duologue.schema.codec import decode, encode

__all__ = ["blocks_from_wire", "blocks_to_wire", "from_wire", "part_from_wire", "part_to_wire", "to_wire"]

BLOCK_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})


def to_wire(block: c.Content) -> v1.ContentBlock:
    """One block as it is written."""
    match block:
        case c.TextContent(text=text, annotations=None, meta=meta):
            return v1.TextContent(text=text, meta=meta)
        case c.TextContent():
            return v1.TextContent(text=block.text, annotations=_hints_to_wire(block.annotations), meta=block.meta)
        case c.ImageContent():
            return v1.ImageContent(
                data=block.data,
                mime_type=block.mime_type,
                uri=block.uri,
                annotations=_hints_to_wire(block.annotations),
                meta=block.meta,
            )
        case c.AudioContent():
            return v1.AudioContent(
                data=block.data,
                mime_type=block.mime_type,
                annotations=_hints_to_wire(block.annotations),
                meta=block.meta,
            )
        case c.ResourceLink():
            return v1.ResourceLink(
                name=block.name,
                uri=block.uri,
                title=block.title,
                description=block.description,
                mime_type=block.mime_type,
                size=block.size,
                annotations=_hints_to_wire(block.annotations),
                meta=block.meta,
            )
        case c.Resource():
            return v1.EmbeddedResource(
                resource=_contents_to_wire(block), annotations=_hints_to_wire(block.annotations), meta=block.meta
            )
        case c.UnknownContent():
            return Other(block.fields.get("type"), block.fields)


def from_wire(block: v1.ContentBlock) -> c.Content:
    """One block as it was read."""
    match block:
        case v1.TextContent():
            return c.TextContent(block.text, _hints_from_wire(block.annotations), block.meta)
        case v1.ImageContent():
            return c.ImageContent(
                block.data, block.mime_type, block.uri, _hints_from_wire(block.annotations), block.meta
            )
        case v1.AudioContent():
            return c.AudioContent(block.data, block.mime_type, _hints_from_wire(block.annotations), block.meta)
        case v1.ResourceLink():
            return c.ResourceLink(
                block.uri,
                block.name,
                block.title,
                block.description,
                block.mime_type,
                block.size,
                _hints_from_wire(block.annotations),
                block.meta,
            )
        case v1.EmbeddedResource():
            contents = block.resource
            return c.Resource(
                contents.uri,
                contents.text if isinstance(contents, v1.TextResourceContents) else None,
                contents.blob if isinstance(contents, v1.BlobResourceContents) else None,
                contents.mime_type,
                _hints_from_wire(block.annotations),
                contents.meta,
                block.meta,
            )
        case Other():
            return c.UnknownContent(dict(block))


def blocks_to_wire(blocks: list[c.Content]) -> list[v1.ContentBlock]:
    return [to_wire(block) for block in blocks]


def blocks_from_wire(blocks: list[v1.ContentBlock]) -> list[c.Content]:
    return [from_wire(block) for block in blocks]


def part_to_wire(part: u.ToolContent) -> v1.ToolCallContent:
    """One piece of a tool call's content as it is written."""
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
    """One piece of a tool call's content as it was read."""
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
    """A block that stands in a tool call's content by itself, as an example of the documentation has it."""
    if part.tag not in BLOCK_TYPES:
        return None
    try:
        return u.ContentPart(from_wire(decode(v1.Content, encode({"type": "content", "content": part})).content))
    except InvalidParams:
        return None


def _change_to_wire(change: u.FileChange) -> v1.Diff | v1.Content:
    """A change by its texts, or by those a patch shows, or else in words.

    A deletion has no other form here than an empty new text.
    """
    old, new = change.old_text, change.new_text
    if old is None and new is None and change.patch is not None and change.patch_format is None:
        old, new = texts_of_patch(change.patch)
    if old is None and new is None and change.operation not in (None, "delete"):
        source = "" if change.old_path is None else f"{change.old_path} → "
        return v1.Content(content=v1.TextContent(text=f"{change.operation}: {source}{change.path}"), meta=change.meta)
    return v1.Diff(path=change.path, new_text=new or "", old_text=old, meta=change.meta)


def _contents_to_wire(block: c.Resource) -> v1.TextResourceContents | v1.BlobResourceContents:
    if block.text is not None:
        return v1.TextResourceContents(
            text=block.text, uri=block.uri, mime_type=block.mime_type, meta=block.resource_meta
        )
    return v1.BlobResourceContents(
        blob=block.blob or "", uri=block.uri, mime_type=block.mime_type, meta=block.resource_meta
    )


def _hints_to_wire(hints: c.Annotations | None) -> v1.Annotations | None:
    if hints is None:
        return None
    return v1.Annotations(
        audience=hints.audience, priority=hints.priority, last_modified=hints.last_modified, meta=hints.meta
    )


def _hints_from_wire(hints: v1.Annotations | None) -> c.Annotations | None:
    if hints is None:
        return None
    return c.Annotations(
        audience=hints.audience, priority=hints.priority, last_modified=hints.last_modified, meta=hints.meta
    )
