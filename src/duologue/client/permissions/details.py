"""Details of a tool call in addition to its actions: text, input and locations that are neither a file nor a command.

The user sees them with the request, and a remembered decision covers them: the same actions with other details are
asked about again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from duologue.client.permissions.actions import MOST_PATHS, file_actions, has_locations
from duologue.client.permissions.tool_input import read_input
from duologue.conversation.content import Content, Resource, ResourceLink, TextContent
from duologue.conversation.items import ToolCall
from duologue.conversation.tool_content import ContentPart, FileChange, ToolContent
from duologue.sanitize import escape_line

MOST_CHARACTERS = 65_536
"""Text that is shown with one request; a request with more cannot be allowed by a user who has not seen all of it."""


@dataclass(frozen=True)
class ToolCallDetails:
    """Details of a tool call that its actions do not show.

    Attributes:
        lines: The details as a user reads them, without control characters.
        digest: Digest of all of them; empty if there are none.
        hidden_characters: Number of characters that are not in `lines`.
        hidden_files: Number of files that the tool call names beyond those that are checked.
        has_media: There is content that a line of text cannot show.
    """

    lines: tuple[str, ...] = ()
    digest: str = ""
    hidden_characters: int = 0
    hidden_files: int = 0
    has_media: bool = False


def details_of(tool: ToolCall) -> ToolCallDetails:
    """Collect the details of a tool call that its actions do not show."""
    given = read_input(tool)
    locations = [] if has_locations(tool, given) else tool.locations
    parts = [part for part in tool.content if not isinstance(part, FileChange) or part.other is not None]
    texts = [f"location: {each.path}" for each in locations]
    if given.rest is not None:
        texts.append(f"input: {_json(given.rest)}")
    texts += [_text_of(part) for part in parts]
    rest = [tool.kind, tool.name, tool.title, given.rest, locations, parts]
    return ToolCallDetails(
        lines=tuple(_lines(texts)),
        digest=hashlib.sha256(_json(rest).encode()).hexdigest() if texts else "",
        hidden_characters=max(0, sum(map(len, texts)) - MOST_CHARACTERS),
        hidden_files=max(0, len(file_actions(tool)) - MOST_PATHS),
        has_media=any(isinstance(part, ContentPart) and not _is_text(part.content) for part in parts),
    )


def _text_of(part: ToolContent) -> str:
    match part:
        case ContentPart(content=TextContent(text=text)):
            return text
        case ContentPart(content=Resource(uri=uri, text=str(text))):
            return f"{uri}:\n{text}"
        case ContentPart(content=ResourceLink(uri=uri, name=name)):
            return f"{name}: {uri}"
        case ContentPart(content=content):
            return f"({type(content).__name__}, which cannot be shown as text)"
        case _:
            return _json(part)


def _is_text(content: Content) -> bool:
    return isinstance(content, TextContent | ResourceLink) or (isinstance(content, Resource) and content.blob is None)


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts line by line, up to the limit."""
    left = MOST_CHARACTERS
    for text in texts:
        yield from (escape_line(line, None) for line in text[:left].split("\n") if line)
        left = max(0, left - len(text))


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
