"""Content blocks, to version 2 and back."""

from __future__ import annotations

from duologue.conversation import content as c
from duologue.schema import v2
from duologue.schema.base import Other

__all__ = ["blocks_from_wire", "blocks_to_wire", "from_wire", "to_wire"]


def to_wire(block: c.Content) -> v2.ContentBlock:
    """One block as it is written."""
    match block:
        case c.TextContent():
            hints = block.annotations
            annotations = None if hints is None else _hints_to_wire(hints)
            return v2.TextContent(text=block.text, annotations=annotations, meta=block.meta)
        case c.ImageContent():
            return v2.ImageContent(
                data=block.data,
                mime_type=block.mime_type,
                uri=block.uri,
                annotations=_hints_to_wire(block.annotations),
                meta=block.meta,
            )
        case c.AudioContent():
            return v2.AudioContent(
                data=block.data,
                mime_type=block.mime_type,
                annotations=_hints_to_wire(block.annotations),
                meta=block.meta,
            )
        case c.ResourceLink():
            return v2.ResourceLink(
                name=block.name,
                uri=block.uri,
                title=block.title,
                description=block.description,
                icons=_icons_to_wire(block.icons),
                mime_type=block.mime_type,
                size=block.size if block.size is not None and block.size >= 0 else None,
                annotations=_hints_to_wire(block.annotations),
                meta=block.meta,
            )
        case c.Resource():
            return v2.EmbeddedResource(
                resource=_contents_to_wire(block), annotations=_hints_to_wire(block.annotations), meta=block.meta
            )
        case c.UnknownContent():
            return Other(block.fields.get("type"), block.fields)


def from_wire(block: v2.ContentBlock) -> c.Content:
    """One block as it was read."""
    match block:
        case v2.TextContent():
            return c.TextContent(block.text, _hints_from_wire(block.annotations), block.meta)
        case v2.ImageContent():
            return c.ImageContent(
                block.data, block.mime_type, block.uri, _hints_from_wire(block.annotations), block.meta
            )
        case v2.AudioContent():
            return c.AudioContent(block.data, block.mime_type, _hints_from_wire(block.annotations), block.meta)
        case v2.ResourceLink():
            return c.ResourceLink(
                block.uri,
                block.name,
                block.title,
                block.description,
                block.mime_type,
                block.size,
                _hints_from_wire(block.annotations),
                block.meta,
                _icons_from_wire(block.icons),
            )
        case v2.EmbeddedResource():
            contents = block.resource
            return c.Resource(
                contents.uri,
                contents.text if isinstance(contents, v2.TextResourceContents) else None,
                contents.blob if isinstance(contents, v2.BlobResourceContents) else None,
                contents.mime_type,
                _hints_from_wire(block.annotations),
                contents.meta,
                block.meta,
            )
        case Other():
            return c.UnknownContent(dict(block))


def blocks_to_wire(blocks: list[c.Content]) -> list[v2.ContentBlock]:
    return [to_wire(block) for block in blocks]


def blocks_from_wire(blocks: list[v2.ContentBlock]) -> list[c.Content]:
    return [from_wire(block) for block in blocks]


def _contents_to_wire(block: c.Resource) -> v2.TextResourceContents | v2.BlobResourceContents:
    if block.text is not None:
        return v2.TextResourceContents(
            text=block.text, uri=block.uri, mime_type=block.mime_type, meta=block.resource_meta
        )
    return v2.BlobResourceContents(
        blob=block.blob or "", uri=block.uri, mime_type=block.mime_type, meta=block.resource_meta
    )


def _icons_to_wire(icons: list[c.Icon] | None) -> list[v2.Icon] | None:
    if icons is None:
        return None
    return [
        v2.Icon(src=icon.src, mime_type=icon.mime_type, sizes=icon.sizes, theme=icon.theme, meta=icon.meta)
        for icon in icons
    ]


def _icons_from_wire(icons: list[v2.Icon] | None) -> list[c.Icon] | None:
    if icons is None:
        return None
    return [
        c.Icon(src=icon.src, mime_type=icon.mime_type, sizes=icon.sizes, theme=icon.theme, meta=icon.meta)
        for icon in icons
    ]


def _hints_to_wire(hints: c.Annotations | None) -> v2.Annotations | None:
    """Hints as they are written; version 1 knows priorities that are none here."""
    if hints is None:
        return None
    return v2.Annotations(
        audience=hints.audience,
        priority=None if hints.priority is None else max(0, min(1, hints.priority)),
        last_modified=hints.last_modified,
        meta=hints.meta,
    )


def _hints_from_wire(hints: v2.Annotations | None) -> c.Annotations | None:
    if hints is None:
        return None
    return c.Annotations(
        audience=hints.audience, priority=hints.priority, last_modified=hints.last_modified, meta=hints.meta
    )
