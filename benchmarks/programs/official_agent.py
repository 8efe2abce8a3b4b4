"""The agent on the official Python SDK, any version of it."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from acp import InitializeResponse, NewSessionResponse, PromptResponse, SetSessionModeResponse, run_agent
from acp.schema import AgentMessageChunk, TextContentBlock

from benchmarks.network import WIRE
from benchmarks.script import MAX_MESSAGE_BYTES
from benchmarks.wire import CHUNK_TEXTS, text


class Agent:
    def __init__(self) -> None:
        self.numbers = count(1)

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **others: Any) -> Any:
        return InitializeResponse(protocol_version=1)

    async def new_session(self, cwd: str, **others: Any) -> Any:
        return NewSessionResponse(session_id=f"session-{next(self.numbers)}")

    async def set_session_mode(self, session_id: str, mode_id: str, **others: Any) -> Any:
        return SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **others: Any) -> Any:
        asked = prompt[0].text
        word, _, argument = asked[:32].partition(" ")
        texts = {"stream": CHUNK_TEXTS, "flood": [text(2000)], "echo": [asked]}[word]
        for i in range(1 if word == "echo" else int(argument)):
            content = TextContentBlock(type="text", text=texts[i % len(texts)])
            update = AgentMessageChunk(session_update="agent_message_chunk", content=content)
            await self.client.session_update(session_id, update)
        return PromptResponse(stop_reason="end_turn")


def listen() -> None:
    import socket

    import uvicorn
    from acp.http.asgi import create_asgi_app

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    # The settings that our own server has, as far as it has any.
    config = uvicorn.Config(
        create_asgi_app(lambda connection: Agent()),
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        access_log=False,
        log_level="warning",
    )
    uvicorn.Server(config).run(sockets=[listener])


if WIRE:
    listen()
else:
    limit = {"stdio_buffer_limit_bytes": MAX_MESSAGE_BYTES} if MAX_MESSAGE_BYTES else {}
    asyncio.run(run_agent(Agent(), **limit))
