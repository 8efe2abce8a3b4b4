"""Content blocks of messages: text, images, audio, links and embedded resources.

The fields are those that both protocol versions have; `meta` is the protocol's `_meta`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, structs

JsonObject: TypeAlias = dict[str, Any]

B = TypeVar("B")

BLOCK_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})
"""The types of content blocks that the protocol defines."""


class Annotations(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hints for the reader: audience (`user`, `assistant`), priority (0 to 1), time of the last change."""

    audience: list[str] | None = None
    priority: float | None = None
    last_modified: str | None = None
    meta: JsonObject | None = None


class TextContent(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="text"):
    """Plain text or Markdown."""

    text: str
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class ImageContent(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="image"):
    """An image, base64-encoded, and the URI it came from, if any."""

    data: str
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class AudioContent(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="audio"):
    """Audio, base64-encoded."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class Icon(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An icon to show next to a link: `theme` is `light` or `dark`, sizes are like `48x48` or `any`."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: str | None = None
    meta: JsonObject | None = None


class ResourceLink(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="resource_link"):
    """A link to a resource that the reader can fetch."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None
    icons: list[Icon] | None = None


class Resource(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="resource"):
    """An embedded resource: `text`, or base64 in `blob`; exactly one of the two is set."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    resource_meta: JsonObject | None = None
    """Metadata of the embedded contents; `meta` is that of the block around them."""
    meta: JsonObject | None = None


class UnknownContent(Struct, frozen=True, tag_field="type", tag="?"):
    """A kind of content that this version does not know, unchanged."""

    fields: JsonObject


Content: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | Resource | UnknownContent


def as_content(value: str | Content) -> Content:
    """Return content unchanged, and a string as a text block.

    Raises:
        TypeError: The value is neither content nor a string.
    """
    if isinstance(value, str):
        return TextContent(value)
    if not isinstance(value, Content):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not check types
        raise TypeError(f"expected a string or content, got {type(value).__name__}")
    return value


def text_of(content: list[Content] | tuple[Content, ...]) -> str:
    """Join the text blocks; leave everything else out."""
    return "".join(block.text for block in content if isinstance(block, TextContent))


def merge_neighbours(blocks: Iterable[B], key: Callable[[B], object | None], merge: Callable[[list[B]], B]) -> list[B]:
    """Replace each run of neighbouring blocks with the same key by one block; blocks with the key `None` stay."""
    merged: list[B] = []
    for found, group in groupby(blocks, key):
        run = list(group)
        if found is None or len(run) == 1:
            merged += run
        else:
            merged.append(merge(run))
    return merged


def _annotated_text(block: Content) -> object | None:
    return block.annotations or True if type(block) is TextContent else None


def _one_text(run: list[Content]) -> Content:
    return structs.replace(run[0], text="".join([block.text for block in run if isinstance(block, TextContent)]))


def merge_text(content: Iterable[Content], key: Callable[[Content], object | None] = _annotated_text) -> list[Content]:
    """Merge neighbouring text blocks with the same annotations (or the same `key`) into one block."""
    return merge_neighbours(content, key, _one_text)
