"""Convert results of tools between MCP's JSON and version-free content without loss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, cast

from msgspec import Struct

from duologue.conversation.content import (
    Annotations,
    AudioContent,
    Content,
    ImageContent,
    JsonObject,
    Resource,
    ResourceLink,
    TextContent,
    UnknownContent,
    text_of,
)
from duologue.conversation.updates import ContentPart, ToolContent


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
    def status(self) -> str:
        """The final status of the tool call: `completed` or `failed`."""
        return "failed" if self.is_error else "completed"

    @property
    def parts(self) -> list[ToolContent]:
        """The content as parts of a tool call."""
        return [ContentPart(block) for block in self.content]


def read_result(raw: JsonObject) -> McpResult:
    """Convert the result of `tools/call`; invalid parts are kept, not rejected."""
    return McpResult(
        content=[read_content(block) for block in _list(raw, "content")],
        structured_content=raw.get("structuredContent"),
        is_error=raw.get("isError") is True,
        meta=_object(raw, "_meta"),
        raw=raw,
    )


def read_content(block: Any) -> Content:
    """Convert one block of MCP content; an unknown or malformed one becomes an `UnknownContent`."""
    match block:
        case {"type": "text", "text": str(text)}:
            return TextContent(text, **_attached(block))
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return ImageContent(data, mime_type, _text(block, "uri"), **_attached(block))
        case {"type": "audio", "data": str(data), "mimeType": str(mime_type)}:
            return AudioContent(data, mime_type, **_attached(block))
        case {"type": "resource_link", "uri": str(uri), "name": str(name)}:
            return _read_link(uri, name, block)
        case {"type": "resource", "resource": {"uri": str(uri)} as resource}:
            return _read_resource(uri, resource, block)
        case dict():
            return UnknownContent(cast("JsonObject", block))
        case _:
            return UnknownContent({"value": block})


def _read_link(uri: str, name: str, block: JsonObject) -> Content:
    size = block.get("size")
    return ResourceLink(
        uri,
        name,
        title=_text(block, "title"),
        description=_text(block, "description"),
        mime_type=_text(block, "mimeType"),
        size=size if isinstance(size, int) and not isinstance(size, bool) else None,
        **_attached(block),
    )


def _read_resource(uri: str, resource: JsonObject, block: JsonObject) -> Content:
    text, blob = _text(resource, "text"), _text(resource, "blob")
    if (text is None) == (blob is None):
        return UnknownContent(block)
    return Resource(
        uri,
        text=text,
        blob=blob,
        mime_type=_text(resource, "mimeType"),
        resource_meta=_object(resource, "_meta"),
        **_attached(block),
    )


class _Attached(TypedDict):
    annotations: Annotations | None
    meta: JsonObject | None


def _attached(block: JsonObject) -> _Attached:
    return {"annotations": _read_annotations(_object(block, "annotations")), "meta": _object(block, "_meta")}


def _read_annotations(raw: JsonObject | None) -> Annotations | None:
    if raw is None:
        return None
    priority = raw.get("priority")
    return Annotations(
        audience=[str(role) for role in _list(raw, "audience")] or None,
        priority=float(priority) if isinstance(priority, int | float) and not isinstance(priority, bool) else None,
        last_modified=_text(raw, "lastModified"),
        meta=_object(raw, "_meta"),
    )


def _text(block: JsonObject, key: str) -> str | None:
    value = block.get(key)
    return value if isinstance(value, str) else None


def _list(block: JsonObject, key: str) -> list[Any]:
    match block.get(key):
        case [*items]:
            return items
        case _:
            return []


def _object(block: JsonObject, key: str) -> JsonObject | None:
    value = block.get(key)
    return cast("JsonObject", value) if isinstance(value, dict) else None


def write_content(content: Content) -> JsonObject:
    """Convert one block of content to MCP's JSON."""
    match content:
        case TextContent():
            own: JsonObject = {"type": "text", "text": content.text}
        case ImageContent():
            own = {"type": "image", "data": content.data, "mimeType": content.mime_type, "uri": content.uri}
        case AudioContent():
            own = {"type": "audio", "data": content.data, "mimeType": content.mime_type}
        case ResourceLink():
            own = {
                "type": "resource_link",
                "uri": content.uri,
                "name": content.name,
                "title": content.title,
                "description": content.description,
                "mimeType": content.mime_type,
                "size": content.size,
            }
        case Resource():
            own = {"type": "resource", "resource": _write_resource(content)}
        case UnknownContent():
            return content.fields
    annotations = None if content.annotations is None else _write_annotations(content.annotations)
    return _without_none([*own.items(), ("annotations", annotations), ("_meta", content.meta)])


def _write_resource(content: Resource) -> JsonObject:
    return _without_none(
        [
            ("uri", content.uri),
            ("mimeType", content.mime_type),
            ("text", content.text),
            ("blob", content.blob),
            ("_meta", content.resource_meta),
        ]
    )


def _write_annotations(annotations: Annotations) -> JsonObject:
    return _without_none(
        [
            ("audience", annotations.audience),
            ("priority", annotations.priority),
            ("lastModified", annotations.last_modified),
            ("_meta", annotations.meta),
        ]
    )


def _without_none(items: Iterable[tuple[str, Any]]) -> JsonObject:
    return {key: value for key, value in items if value is not None}
