"""An MCP server made with the official SDK, on stdio."""

from __future__ import annotations

import base64
from typing import Annotated

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import (
    Annotations,
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel


class Tea(BaseModel):
    kind: str
    sugar: bool = False


def which_tea() -> Elicit[Tea]:
    return Elicit("Which tea?", Tea)


DATA = base64.b64encode(b"\x89not really a picture").decode()


def make_server() -> MCPServer:
    server = MCPServer("real")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def fail(reason: str) -> str:
        """Fail with this reason."""
        raise ValueError(reason)

    @server.tool()
    async def count(to: int, context: Context) -> str:
        """Count aloud."""
        for number in range(1, to + 1):
            await context.report_progress(number, to, f"at {number}")
        return f"counted to {to}"

    @server.tool()
    def show() -> CallToolResult:
        """Answer with every kind of content."""
        return CallToolResult(
            content=[
                TextContent(text="words", annotations=Annotations(audience=["user"], priority=0.5)),
                ImageContent(data=DATA, mime_type="image/png", _meta={"camera": "none"}),
                AudioContent(data=DATA, mime_type="audio/wav"),
                ResourceLink(uri="file:///a.txt", name="a.txt", size=3, mime_type="text/plain"),
                EmbeddedResource(resource=TextResourceContents(uri="file:///b.txt", text="inside")),
            ],
            structured_content={"kinds": 5},
            _meta={"seen": True},
        )

    @server.tool()
    def order(tea: Annotated[ElicitationResult[Tea], Resolve(which_tea)]) -> str:
        """Ask the user which tea."""
        return tea.data.kind if isinstance(tea, AcceptedElicitation) else tea.action

    @server.tool()
    async def grow(context: Context) -> str:
        """Offer one more tool."""
        server.add_tool(lambda: "new", name="grown")
        await context.notify_tools_changed()
        return "grown"

    return server


if __name__ == "__main__":
    make_server().run("stdio")
