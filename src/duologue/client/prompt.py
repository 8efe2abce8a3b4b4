"""Building a prompt from text, files, directories, selections, images and audio."""

from __future__ import annotations

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

MAX_EMBEDDED_BYTES = 4 * 1024 * 1024
"""Larger files are linked instead of embedded: no model reads more, and the agent can fetch what it needs."""


class Selection(Struct, frozen=True):
    """Lines of a file, from `first` to `last` inclusive, counted from 1."""

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
    capabilities: AgentCapabilities,
) -> list[Content]:
    """Return the content blocks of a prompt.

    Raises:
        InvalidParams: The agent does not support such content, a file does not exist, or the prompt is empty.
    """
    given = [prompt] if isinstance(prompt, str) or not isinstance(prompt, Iterable) else list(prompt)
    blocks = [as_content(block) for block in given]
    blocks += [_attached(attachment, cwd, capabilities) for attachment in files]
    blocks += [_image(cwd / path) for path in images]
    blocks += [_audio(cwd / path) for path in audio]
    if not blocks:
        raise InvalidParams("the prompt is empty")
    for block in blocks:
        _check(block, capabilities)
    return blocks


def _check(block: Content, capabilities: AgentCapabilities) -> None:
    unsupported = (
        "images"
        if isinstance(block, ImageContent) and not capabilities.image
        else "audio"
        if isinstance(block, AudioContent) and not capabilities.audio
        else "embedded resources"
        if isinstance(block, Resource) and not capabilities.embedded
        else None
    )
    if unsupported is not None:
        raise InvalidParams(f"this agent does not support {unsupported} in prompts; send a link instead")


def _attached(attachment: Attachment, cwd: Path, capabilities: AgentCapabilities) -> Content:
    path = cwd / (attachment.path if isinstance(attachment, Selection) else attachment)
    if not path.exists():
        raise InvalidParams(f"no such file: {path}")
    text = _text_of(path) if capabilities.embedded and path.is_file() else None
    if isinstance(attachment, Selection):
        return _selected(path, attachment, text)
    kind = _guess_type(path)
    if text is not None:
        return Resource(uri=path.as_uri(), text=text, mime_type=kind)
    size = path.stat().st_size if path.is_file() else None
    return ResourceLink(uri=path.as_uri(), name=path.name, mime_type=kind, size=size)


def _selected(path: Path, selection: Selection, text: str | None) -> Content:
    uri = f"{path.as_uri()}#L{selection.first}-L{selection.last}"
    if text is None:
        return ResourceLink(uri=uri, name=f"{path.name}:{selection.first}-{selection.last}")
    lines = text.splitlines(keepends=True)[max(selection.first - 1, 0) : selection.last]
    return Resource(uri=uri, text="".join(lines), mime_type=_guess_type(path))


def _text_of(path: Path) -> str | None:
    if path.stat().st_size > MAX_EMBEDDED_BYTES:
        return None
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return None


def _image(path: Path) -> Content:
    return ImageContent(_encoded(path), _media_type(path, "image", "png"), path.as_uri())


def _audio(path: Path) -> Content:
    return AudioContent(_encoded(path), _media_type(path, "audio", "wav"))


def _media_type(path: Path, family: str, usual: str) -> str:
    """Return the media type by the file's extension; without an extension, the usual one."""
    kind = _guess_type(path) or ("unknown" if path.suffix else f"{family}/{usual}")
    if not kind.startswith(f"{family}/"):
        raise InvalidParams(f"{path} has the media type {kind}, not {family}; attach it as a file")
    return kind


def _guess_type(path: Path) -> str | None:
    import mimetypes  # most prompts are text

    return mimetypes.guess_type(path.name)[0]


def _encoded(path: Path) -> str:
    import base64

    try:
        return base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise InvalidParams(f"cannot read {path}: {error.strerror}") from None
