"""A client and an agent in memory, with a proxy between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from duologue.proxy import Proxy, ProxyRelay
from duologue.transports.base import Transport
from duologue.transports.memory import memory_pair

SECONDS = 60.0


class End:
    """One end of the chain, which sends and receives messages as JSON."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._frames: list[bytes] = []

    def send(self, **members: Any) -> None:
        self.transport.send(json.dumps({"jsonrpc": "2.0", **members}).encode())

    async def receive_frame(self) -> bytes:
        if not self._frames:
            self._frames = await self.transport.receive()
            assert self._frames, "the connection has ended"
        return self._frames.pop(0)

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self.receive_frame())
        return message


class Chain:
    """A client's end and an agent's end."""

    def __init__(self, client: Transport, agent: Transport) -> None:
        self.client, self.agent = End(client), End(agent)

    async def initialize(self, version: int = 1) -> None:
        """Agree on a version of the protocol."""
        self.client.send(id="init", method="initialize", params={"protocolVersion": version})
        assert (await self.agent.receive())["method"] == "initialize"
        self.agent.send(id="init", result={"protocolVersion": version})
        assert (await self.client.receive())["result"] == {"protocolVersion": version}

    async def open_session(self, cwd: str, session_id: str = "s") -> None:
        """Open a session."""
        self.client.send(id="new", method="session/new", params={"cwd": cwd, "mcpServers": []})
        assert (await self.agent.receive())["method"] == "session/new"
        self.agent.send(id="new", result={"sessionId": session_id})
        assert (await self.client.receive())["result"] == {"sessionId": session_id}


@asynccontextmanager
async def chained(proxy: Proxy) -> AsyncGenerator[Chain]:
    """Serve a client through a proxy; after the block the client disconnects."""
    client, ours = memory_pair()
    near, agent = memory_pair()
    relay = ProxyRelay(proxy, lambda: near)
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        serving = group.create_task(relay.serve(ours))
        yield Chain(client, agent)
        await client.aclose()
        await serving


def prompt(text: str, **more: Any) -> dict[str, Any]:
    """Return a request `session/prompt`, without its id."""
    content = [{"type": "text", "text": text}]
    return {"method": "session/prompt", "params": {"sessionId": "s", "prompt": content, **more}}


def text_chunk(text: str, version: int = 1) -> dict[str, Any]:
    """Return an update with text of the agent."""
    chunk: dict[str, Any] = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    if version == 2:
        chunk["messageId"] = "m"
    return {"method": "session/update", "params": {"sessionId": "s", "update": chunk}}
