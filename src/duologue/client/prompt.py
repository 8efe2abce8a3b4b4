"""A prompt from what a person has at hand: text, files, directories, selections, pictures, sound."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from duologue.conversation.content import (
    AudioContent,
    Content,
    ImageContent,
    Resource,
    ResourceLink,
    as_content,
)
from duologue.errors import InvalidParams
from duologue.protocol.values import AgentCapabilities

__all__ = ["Attachment", "Selection", "build_prompt"]

MAX_EMBEDDED_BYTES = 4 * 1024 * 1024
"""Larger files are linked: no model reads more than this, and the agent can fetch what it needs."""


class Selection(Struct, frozen=True):
    """Some lines of a file; lines count from 1, and both ends belong to it."""

    path: str | Path
    first: int
    last: int


Attachment: TypeAlias = str | Path | Selection


def build_prompt(
    prompt: str | Content | Iterable[str | Content],
    *,
    files: Iterable[Attachment],
    images: Iterable[str | Path],
    audio: Iterable[str | Path],
    cwd: Path,
    features: AgentCapabilities,
) -> list[Content]:
    """The blocks to send.

    Raises:
        InvalidParams: The agent does not take such content, or there is nothing to send.
    """
    said = [prompt] if isinstance(prompt, str) or not isinstance(prompt, Iterable) else list(prompt)
    blocks = [as_content(block) for block in said]
    blocks += [_attached(attachment, cwd, features) for attachment in files]
    blocks += [_image(cwd / path) for path in images]
    blocks += [_audio(cwd / path) for path in audio]
    if not blocks:
        raise InvalidParams("there is nothing to send")
    for block in blocks:
        _check(block, features)
    return blocks


def _check(block: Content, features: AgentCapabilities) -> None:
    refused = (
        "pictures"
        if isinstance(block, ImageContent) and not features.image
        else "sound"
        if isinstance(block, AudioContent) and not features.audio
        else "embedded resources"
        if isinstance(block, Resource) and not features.embedded
        else None
    )
    if refused is not None:
        raise InvalidParams(f"this agent takes no {refused}; send a link instead")


def _attached(attachment: Attachment, cwd: Path, features: AgentCapabilities) -> Content:
    path = cwd / (attachment.path if isinstance(attachment, Selection) else attachment)
    if not path.exists():
        raise InvalidParams(f"there is no such file: {path}")
    text = _text_of(path) if features.embedded and path.is_file() else None
    if isinstance(attachment, Selection):
        return _selected(path, attachment, text)
    kind = mimetypes.guess_type(path.name)[0]
    if text is not None:
        return Resource(uri=path.as_uri(), text=text, mime_type=kind)
    size = path.stat().st_size if path.is_file() else None
    return ResourceLink(uri=path.as_uri(), name=path.name, mime_type=kind, size=size)


def _selected(path: Path, selection: Selection, text: str | None) -> Content:
    uri = f"{path.as_uri()}#L{selection.first}-L{selection.last}"
    if text is None:
        return ResourceLink(uri=uri, name=f"{path.name}:{selection.first}-{selection.last}")
    lines = text.splitlines(keepends=True)[max(selection.first - 1, 0) : selection.last]
    return Resource(uri=uri, text="".join(lines), mime_type=mimetypes.guess_type(path.name)[0])


def _text_of(path: Path) -> str | None:
    if path.stat().st_size > MAX_EMBEDDED_BYTES:
        return None
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return None


def _image(path: Path) -> Content:
    return ImageContent(_encoded(path), _kind(path, "image", "png"), path.as_uri())


def _audio(path: Path) -> Content:
    return AudioContent(_encoded(path), _kind(path, "audio", "wav"))


def _kind(path: Path, family: str, usual: str) -> str:
    """What its name says it is; a name that says nothing at all is taken for the usual."""
    kind = mimetypes.guess_type(path.name)[0] or ("unknown" if path.suffix else f"{family}/{usual}")
    if not kind.startswith(f"{family}/"):
        raise InvalidParams(f"{path} is {kind} by its name, not {family}; attach it as a file")
    return kind


def _encoded(path: Path) -> str:
    try:
        return base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise InvalidParams(f"cannot read {path}: {error.strerror}") from None
