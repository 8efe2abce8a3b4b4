"""The client on duologue's connection and schema."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any

from benchmarks.programs.reaching import agent_process
from benchmarks.script import IS_SAME, Seen, Side, play, run
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1

handlers = Handlers()
seen = Seen()


@handlers.on(v1.SESSION_UPDATE)
async def update(context: Context, params: v1.SessionNotification) -> None:
    if seen.is_busy:
        await seen.time_found()
    chunk: Any = params.update  # the agent sends nothing but chunks of text
    seen.count(chunk.content.text)


async def main() -> None:
    started = time.perf_counter()
    async with (
        agent_process() as (transport, pid),
        Connection(transport, handlers, ignore_stray_output=True) as connection,
    ):
        ask = connection.request

        async def new_session() -> str:
            return (await ask(v1.SESSION_NEW, v1.NewSessionRequest(cwd="/tmp", mcp_servers=[]))).session_id

        def set_mode(id: str) -> Awaitable[object]:
            if IS_SAME:
                option = v1.SetSessionConfigOptionId(session_id=id, config_id="mode", value="ask")
                return ask(v1.SESSION_SET_CONFIG_OPTION, option)
            return ask(v1.SESSION_SET_MODE, v1.SetSessionModeRequest(session_id=id, mode_id="ask"))

        await play(
            Side(
                initialize=lambda: ask(v1.INITIALIZE, v1.InitializeRequest(protocol_version=1)),
                new_session=new_session,
                set_mode=set_mode,
                prompt=lambda id, text: ask(
                    v1.SESSION_PROMPT, v1.PromptRequest(session_id=id, prompt=[v1.TextContent(text=text)])
                ),
                agent_pid=pid(),
                started=started,
                seen=seen,
            )
        )


run(main())
