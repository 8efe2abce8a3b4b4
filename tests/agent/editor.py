"""An editor made of nothing but the wire of version 1, for tests of the agent's side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from duologue.agent.agent import Agent
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.runtime.tasks import TaskScope
from duologue.schema import v1
from duologue.transports.memory import memory_pair

__all__ = ["Editor", "editor_for"]


class Editor:
    """What a client sees of an agent: answers to its requests, and updates in the order they were handled."""

    def __init__(self, connection: Connection, handlers: Handlers, cwd: Path) -> None:
        self.connection = connection
        self.handlers = handlers
        self.cwd = cwd
        self.updates: list[Any] = []
        self.sessions: list[str] = []
        self.frames: list[tuple[str, bytes]] = []
        handlers.on(v1.SESSION_UPDATE)(self._update)

    async def _update(self, context: Context, params: v1.SessionNotification) -> None:
        self.updates.append(params.update)
        self.sessions.append(params.session_id)

    async def initialize(self, **capabilities: Any) -> v1.InitializeResponse:
        """The first exchange, with these client capabilities."""
        request = v1.InitializeRequest(protocol_version=1, client_capabilities=v1.ClientCapabilities(**capabilities))
        return await self.connection.request(v1.INITIALIZE, request)

    async def new(self, cwd: Path | None = None, **fields: Any) -> str:
        """A session in this directory."""
        fields.setdefault("mcp_servers", [])
        request = v1.NewSessionRequest(cwd=str(cwd or self.cwd), **fields)
        return (await self.connection.request(v1.SESSION_NEW, request)).session_id

    async def prompt(self, session_id: str, *blocks: str | v1.ContentBlock) -> v1.PromptResponse:
        """One turn."""
        content = [v1.TextContent(text=block) if isinstance(block, str) else block for block in blocks]
        return await self.connection.request(v1.SESSION_PROMPT, v1.PromptRequest(session_id=session_id, prompt=content))

    async def cancel(self, session_id: str) -> None:
        """End the running turn."""
        await self.connection.notify(v1.SESSION_CANCEL, v1.CancelNotification(session_id=session_id))

    def of(self, kind: type[Any]) -> list[Any]:
        """The updates of one kind."""
        return [update for update in self.updates if isinstance(update, kind)]

    @property
    def text(self) -> str:
        """All the agent said."""
        said = [chunk.content for chunk in self.of(v1.AgentMessageChunk)]
        return "".join(content.text for content in said if isinstance(content, v1.TextContent))


@asynccontextmanager
async def editor_for(agent: Agent[Any], cwd: Path, **capabilities: Any) -> AsyncIterator[Editor]:
    """An editor in memory that has been through the first exchange."""
    near, far = memory_pair()
    handlers = Handlers()
    served = TaskScope()
    serving = served.start(agent.serve_on(far))
    async with Connection(near, handlers) as connection:
        editor = Editor(connection, handlers, cwd)
        await editor.initialize(**capabilities)
        yield editor
    await serving
