"""The client on the official Python SDK, any version of it."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from acp import spawn_agent_process
from acp.schema import TextContentBlock

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


async def main() -> None:
    _, _, command = arguments()
    client = Client()
    started = time.perf_counter()
    # By default it drains nothing from stderr and passes on a few variables only.
    options: dict[str, Any] = {"stderr": None}
    if MAX_MESSAGE_BYTES:
        options["limit"] = MAX_MESSAGE_BYTES
    async with spawn_agent_process(client, *command, env=dict(os.environ), transport_kwargs=options) as (agent, child):

        async def new_session() -> str:
            return str((await agent.new_session(cwd="/tmp", mcp_servers=[])).session_id)

        await play(
            Side(
                initialize=lambda: agent.initialize(protocol_version=1),
                new_session=new_session,
                set_mode=lambda id: agent.set_session_mode(session_id=id, mode_id="ask"),
                prompt=lambda id, text: agent.prompt(session_id=id, prompt=[TextContentBlock(type="text", text=text)]),
                agent_pid=child.pid,
                started=started,
                seen=client.seen,
            )
        )


asyncio.run(main())
