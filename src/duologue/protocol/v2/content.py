"""Content blocks, to version 2 and back."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from duologue.conversation import content as c
from duologue.conversation.fields import convert_fields
from duologue.protocol.shared.content import block_from_wire, block_to_wire
from duologue.schema import v2


def to_wire(block: c.Content) -> v2.ContentBlock:
    """Write one block; plain text, which is most of what is sent, takes the fast path."""
    if type(block) is c.TextContent and block.annotations is None:
        return v2.TextContent(text=block.text, meta=block.meta)
    changes: dict[str, Any] = {}
    if isinstance(block, c.ResourceLink) and block.icons is not None:
        changes["icons"] = [convert_fields(icon, v2.Icon) for icon in block.icons]
    wire: v2.ContentBlock = block_to_wire(v2, _within_limits(block), **changes)
    return wire


def from_wire(block: v2.ContentBlock) -> c.Content:
    """Read one block; plain text, which is most of what is received, takes the fast path."""
    if type(block) is v2.TextContent and block.annotations is None:
        return c.TextContent(block.text, None, block.meta)
    if isinstance(block, v2.ResourceLink) and block.icons is not None:
        return block_from_wire(v2, block, icons=[convert_fields(icon, c.Icon) for icon in block.icons])
    return block_from_wire(v2, block)


def blocks_to_wire(blocks: list[c.Content]) -> list[v2.ContentBlock]:
    return [to_wire(block) for block in blocks]


def blocks_from_wire(blocks: list[v2.ContentBlock]) -> list[c.Content]:
    return [from_wire(block) for block in blocks]


def _within_limits(block: c.Content) -> c.Content:
    """Fit what version 1 allows and version 2 does not: priorities outside 0 to 1, and negative sizes."""
    if isinstance(block, c.UnknownContent):
        return block
    if block.annotations is not None and block.annotations.priority is not None:
        priority = max(0, min(1, block.annotations.priority))
        block = structs.replace(block, annotations=structs.replace(block.annotations, priority=priority))
    if isinstance(block, c.ResourceLink) and block.size is not None and block.size < 0:
        block = structs.replace(block, size=None)
    return block
