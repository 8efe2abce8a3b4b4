"""The client on the official Python SDK, any version of it."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from acp import connect_to_agent, spawn_agent_process
from acp.schema import TextContentBlock

from benchmarks.network import WIRE, server
from benchmarks.script import MAX_MESSAGE_BYTES, Seen, Side, arguments, play


class Client:
    def __init__(self) -> None:
        self.seen = Seen()

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **others: Any) -> None:
        if self.seen.is_busy:
            await self.seen.time_found()
        self.seen.count(update.content.text)


@asynccontextmanager
async def agent_process(client: Client) -> AsyncGenerator[tuple[Any, int]]:
    _, _, command = arguments()
    if WIRE:
        from acp.http import create_http_stream
        from acp.ws import create_websocket_stream

        with server(command) as (pid, url):
            transport = await create_websocket_stream(url) if WIRE == "ws" else create_http_stream(url)
            agent = connect_to_agent(client, transport)
            yield agent, pid
            await agent.close()
        return
    # By default it drains nothing from stderr and passes on a few variables only.
    options: dict[str, Any] = {"stderr": None}
    if MAX_MESSAGE_BYTES:
        options["limit"] = MAX_MESSAGE_BYTES
    async with spawn_agent_process(client, *command, env=dict(os.environ), transport_kwargs=options) as (agent, child):
        yield agent, child.pid


async def main() -> None:
    client = Client()
    started = time.perf_counter()
    async with agent_process(client) as (agent, pid):

        async def new_session() -> str:
            return str((await agent.new_session(cwd="/tmp", mcp_servers=[])).session_id)

        await play(
            Side(
                initialize=lambda: agent.initialize(protocol_version=1),
                new_session=new_session,
                set_mode=lambda id: agent.set_session_mode(session_id=id, mode_id="ask"),
                prompt=lambda id, text: agent.prompt(session_id=id, prompt=[TextContentBlock(type="text", text=text)]),
                agent_pid=pid,
                started=started,
                seen=client.seen,
            )
        )


asyncio.run(main())
