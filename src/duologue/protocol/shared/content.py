"""Content blocks, to the wire and back: the same in every version, apart from icons and limits of version 2.

Each function is given the package of one version's shapes, `duologue.schema.v1` or `duologue.schema.v2`.
"""

from __future__ import annotations

from typing import Any

from duologue.conversation import content as c
from duologue.conversation.fields import convert_fields
from duologue.schema.base import Other


def block_to_wire(schema: Any, block: c.Content, **changes: Any) -> Any:
    """Write a block of any type; `changes` replace and complete its fields."""
    if isinstance(block, c.UnknownContent):
        return Other(block.fields.get("type"), block.fields)
    hints = block.annotations
    annotations = None if hints is None else convert_fields(hints, schema.Annotations)
    if isinstance(block, c.Resource):
        resource = _contents_to_wire(schema, block)
        return schema.EmbeddedResource(resource=resource, annotations=annotations, meta=block.meta)
    # The other classes have the same names in `conversation` and in the schemas.
    kind = getattr(schema, type(block).__name__)
    return convert_fields(block, kind, annotations=annotations, **changes)


def block_from_wire(schema: Any, block: Any, **changes: Any) -> c.Content:
    """Read a block of any type; `changes` replace and complete its fields."""
    if isinstance(block, Other):
        return c.UnknownContent(dict(block))
    hints = block.annotations
    annotations = None if hints is None else convert_fields(hints, c.Annotations)
    if isinstance(block, schema.EmbeddedResource):
        contents = block.resource
        return convert_fields(
            contents, c.Resource, annotations=annotations, resource_meta=contents.meta, meta=block.meta
        )
    kind: type[c.Content] = getattr(c, type(block).__name__)
    return convert_fields(block, kind, annotations=annotations, **changes)


def _contents_to_wire(schema: Any, block: c.Resource) -> Any:
    if block.text is not None:
        return convert_fields(block, schema.TextResourceContents, meta=block.resource_meta)
    return convert_fields(block, schema.BlobResourceContents, blob=block.blob or "", meta=block.resource_meta)
