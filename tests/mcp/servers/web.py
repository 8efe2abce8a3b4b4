"""The server made with the SDK behind an address on loopback, which it prints: `-m tests.mcp.servers.web http|sse`."""

from __future__ import annotations

import asyncio
import sys

from duologue.mcp.tool_server.http import serve_on_loopback
from tests.mcp.servers.real import make_server


async def main() -> None:
    server = make_server()
    app = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
    async with serve_on_loopback(app) as base:
        print(base, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
