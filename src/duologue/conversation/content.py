"""What a message is made of: text, images, sound, links and embedded resources.

The fields are those both versions of the protocol agree on; `meta` carries what peers attach for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, structs

__all__ = [
    "Annotations",
    "AudioContent",
    "Content",
    "Icon",
    "ImageContent",
    "JsonObject",
    "Resource",
    "ResourceLink",
    "TextContent",
    "UnknownContent",
    "as_content",
    "merge_neighbours",
    "merge_text",
    "text_of",
]

JsonObject: TypeAlias = dict[str, Any]

B = TypeVar("B")


class Annotations(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hints on who content is for (`user`, `assistant`), how much it matters (0 to 1), and how old it is."""

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
    """A picture, base64-encoded, and where it came from if it has an address."""

    data: str
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class AudioContent(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="audio"):
    """Sound, base64-encoded."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class Icon(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A picture to show beside a link: `theme` is `light` or `dark`, sizes are like `48x48` or `any`."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: str | None = None
    meta: JsonObject | None = None


class ResourceLink(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="resource_link"):
    """A resource the reader can fetch by itself."""

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
    """A resource whose contents come along: `text`, or base64 in `blob`; exactly one of the two is set."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    resource_meta: JsonObject | None = None
    """What is attached to the contents, as `meta` is to the block around them."""
    meta: JsonObject | None = None


class UnknownContent(Struct, frozen=True, tag_field="type", tag="?"):
    """A kind of content this version does not know, as it came."""

    fields: JsonObject


Content: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | Resource | UnknownContent


def as_content(value: str | Content) -> Content:
    """A string stands for a text block wherever content is taken.

    Raises:
        TypeError: This is neither.
    """
    if isinstance(value, str):
        return TextContent(value)
    if not isinstance(value, Content):  # pyright: ignore[reportUnnecessaryIsInstance]  # not everybody checks types
        raise TypeError(f"a text or content was expected, not {type(value).__name__}")
    return value


def text_of(content: list[Content] | tuple[Content, ...]) -> str:
    """The text blocks run together; everything else is left out."""
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
    return (block.annotations or ()) if isinstance(block, TextContent) else None


def _one_text(run: list[Content]) -> Content:
    return structs.replace(run[0], text=text_of(run))


def merge_text(content: Iterable[Content], key: Callable[[Content], object | None] = _annotated_text) -> list[Content]:
    """Merge neighbouring text blocks with the same annotations (or the same `key`) into one block."""
    return merge_neighbours(content, key, _one_text)
