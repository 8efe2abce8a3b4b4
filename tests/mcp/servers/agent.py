"""A stand-in for an agent: runs the small server with a family, says which processes there are, and waits."""

from __future__ import annotations

import asyncio
import sys

from duologue.conversation.session_setup import StdioMcpServer
from duologue.mcp.servers import McpServers


async def main() -> None:
    server = StdioMcpServer(name="small", command=sys.executable, args=["-I", *sys.argv[1:]])
    async with McpServers([server]) as servers:
        child = await servers.call("small", "family")
        print(child.text, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
