"""Content of prompts and tools of MCP servers, in the form that pydantic-ai takes."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic_ai import BinaryContent
from pydantic_ai import Tool as PydanticTool
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import UserContent

from duologue.conversation.content import AudioContent, Content, ImageContent, Resource, ResourceLink, TextContent
from duologue.errors import RequestError

if TYPE_CHECKING:
    from duologue.mcp.tools import McpTool


def to_user_content(blocks: Iterable[Content]) -> list[UserContent]:
    """Return the blocks of a prompt as the library's content."""
    return [_block(block) for block in blocks]


def _block(block: Content) -> UserContent:
    match block:
        case TextContent(text=text):
            return text
        case ImageContent(data=data, mime_type=kind) | AudioContent(data=data, mime_type=kind):
            return BinaryContent(base64.b64decode(data), media_type=kind)
        case Resource(text=str(text), uri=uri):
            return f"<resource uri={uri!r}>\n{text}\n</resource>"
        case Resource(blob=str(blob), mime_type=kind):
            return BinaryContent(base64.b64decode(blob), media_type=kind or "application/octet-stream")
        case ResourceLink(uri=uri, name=name):
            return f"[{name}]({uri})"
        case _:
            return str(block)


def mcp_tool(tool: McpTool) -> PydanticTool[Any]:
    """Return a tool of an MCP server as a tool of the library that needs approval."""

    async def call(**arguments: Any) -> str:
        try:
            result = await tool(**arguments)
        except RequestError as error:  # the server is gone, or answered with an error: the model may go on without it
            raise ModelRetry(error.message) from error
        if result.is_error:
            raise ModelRetry(result.text)
        return result.text

    made: PydanticTool[Any] = PydanticTool.from_schema(call, tool.function_name, tool.description, tool.input_schema)
    made.requires_approval = True
    return made
