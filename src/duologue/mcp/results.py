"""Convert results of tools between MCP's JSON and version-free content without loss."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from duologue.conversation.content import Content, JsonObject, UnknownContent, text_of
from duologue.conversation.updates import ContentPart, ToolContent
from duologue.conversation.work_state import ToolStatus
from duologue.protocol.v1.content import from_wire, to_wire
from duologue.schema import v1
from duologue.schema.base import JsonValue
from duologue.schema.lenient import reader_for
from duologue.schema.lenient_errors import Rejected, is_array, is_object

_read_block = reader_for(v1.ContentBlock)


class McpResult(Struct, frozen=True, kw_only=True):
    """The result of a call of an MCP tool.

    Attributes:
        content: The content blocks; an unknown one is an `UnknownContent`.
        structured_content: The same as JSON, if the tool has an output schema; otherwise `None`.
        is_error: True if the tool ran and failed; `content` says why, for the model to read.
        meta: The `_meta` that the server attached.
        raw: The result as received.
    """

    content: list[Content]
    structured_content: Any = None
    is_error: bool = False
    meta: JsonObject | None = None
    raw: JsonObject

    @property
    def text(self) -> str:
        """The text blocks of the result, joined."""
        return text_of(self.content)

    @property
    def status(self) -> ToolStatus:
        """The final status of the tool call: `completed` or `failed`."""
        return "failed" if self.is_error else "completed"

    @property
    def parts(self) -> list[ToolContent]:
        """The content as parts of a tool call."""
        return [ContentPart(block) for block in self.content]


def read_result(raw: JsonObject) -> McpResult:
    """Convert the result of `tools/call`; invalid parts are kept, not rejected."""
    content, meta = raw.get("content"), raw.get("_meta")
    return McpResult(
        content=[read_content(block) for block in content] if is_array(content) else [],
        structured_content=raw.get("structuredContent"),
        is_error=raw.get("isError") is True,
        meta=meta if is_object(meta) else None,
        raw=raw,
    )


def read_content(block: JsonValue) -> Content:
    """Convert one block of MCP, which ACP has adopted; an unknown or malformed one becomes an `UnknownContent`."""
    if not is_object(block):
        return UnknownContent({"value": block})
    resource = block.get("resource")
    if is_object(resource) and "text" in resource and "blob" in resource:
        return UnknownContent(block)  # reading it as one of the two would lose the other
    try:
        return from_wire(_read_block(block, None, []))
    except Rejected:
        return UnknownContent(block)


def write_content(content: Content) -> JsonObject:
    """Convert one block of content to MCP's JSON."""
    written: JsonObject = msgspec.to_builtins(to_wire(content))
    return written
