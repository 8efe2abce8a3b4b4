"""An agent on the preview of version 2 in the official Python SDK: it repeats the prompt, or waits if asked to."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
from typing import Any

from acp.experimental.v2 import run_agent, schema


class Agent:
    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()

    def on_connect(self, client: Any) -> None:
        self.client = client

    async def initialize(self, protocol_version: int, info: Any, capabilities: Any = None, **others: Any) -> Any:
        return schema.InitializeResponse.model_validate(
            {"protocolVersion": 2, "info": {"name": "preview", "version": "1"}, "capabilities": {"session": {}}}
        )

    async def new_session(self, cwd: str, **others: Any) -> Any:
        return schema.NewSessionResponse.model_validate({"sessionId": "one"})

    async def close_session(self, session_id: str, **others: Any) -> Any:
        return schema.CloseSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **others: Any) -> Any:
        task = asyncio.create_task(self.work(session_id, prompt))
        self.tasks.add(task)
        return schema.PromptResponse.model_validate({"messageId": "user-1"})

    async def work(self, session_id: str, prompt: list[Any]) -> None:
        async def send_update(kind: str, **fields: Any) -> None:
            params = {"sessionId": session_id, "update": {"sessionUpdate": kind, **fields}}
            update = schema.UpdateSessionNotification.model_validate(params).update
            await self.client.session_update(session_id=session_id, update=update)

        text = prompt[0].text
        await send_update("user_message", messageId="user-1", content=[{"type": "text", "text": text}])
        await send_update("state_update", state="running")
        await send_update("agent_message_chunk", messageId="a", content={"type": "text", "text": text})
        if text == "wait":
            await self.cancelled.wait()
        await send_update("state_update", state="idle", stopReason="cancelled" if text == "wait" else "end_turn")

    async def cancel_session(self, session_id: str, **others: Any) -> None:
        self.cancelled.set()


asyncio.run(run_agent(Agent()))
