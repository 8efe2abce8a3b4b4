"""An agent that keeps to itself in which ways it takes MCP servers."""

from __future__ import annotations

from typing import Any

import msgspec

from duologue.transports.base import Servable, Transport

__all__ = ["ModestAgent"]


class ModestAgent:
    """Another agent that says it takes MCP servers in these ways only (`http`, `sse`, `acp`), and as commands."""

    def __init__(self, agent: Servable, *mcp_transports: str) -> None:
        self._agent = agent
        self._mcp_transports = mcp_transports

    async def serve(self, transport: Transport) -> None:
        await self._agent.serve(_Hiding(transport, self._mcp_transports))


class _Hiding(Transport):
    def __init__(self, inner: Transport, mcp_transports: tuple[str, ...]) -> None:
        self._inner = inner
        self._mcp_transports = mcp_transports

    @property
    def pending_bytes(self) -> int:
        return self._inner.pending_bytes

    async def receive(self) -> list[bytes]:
        return await self._inner.receive()

    def send(self, frame: bytes) -> None:
        if b'"agentCapabilities"' in frame:
            message: dict[str, Any] = msgspec.json.decode(frame)
            message["result"]["agentCapabilities"]["mcpCapabilities"] = dict.fromkeys(self._mcp_transports, True)
            frame = msgspec.json.encode(message)
        self._inner.send(frame)

    async def drain(self) -> None:
        await self._inner.drain()

    async def aclose(self) -> None:
        await self._inner.aclose()
