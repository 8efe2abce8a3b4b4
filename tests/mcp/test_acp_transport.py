"""MCP over ACP on the agent's side: requests, and every kind of response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import AcpMcpServer, Implementation
from duologue.errors import (
    ConnectionLost,
    McpBackendFailed,
    McpLimitReached,
    McpServerUnavailable,
    ProtocolViolation,
    RequestError,
)
from duologue.mcp.servers import McpServers

Answer: TypeAlias = Callable[["Client", str, JsonObject], Awaitable[JsonObject]]

CONFIG = AcpMcpServer(name="inside", server_id="srv-1")
UNCACHED: JsonObject = {"ttlMs": 0, "cacheScope": "private"}


def _complete(**fields: Any) -> JsonObject:
    return {"result": {"resultType": "complete", **fields}}


DONE = _complete(content=[{"type": "text", "text": "done"}])


class Client:
    """The client's end: knows one tool and nothing else, and answers a call as the test says."""

    def __init__(self, answer: Answer) -> None:
        self.seen: list[tuple[str, str, str, JsonObject]] = []
        self.servers: McpServers | None = None
        self.tool = "act"
        self.is_listened_to = False
        self.changed = asyncio.Event()
        self._answer = answer

    async def send(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject:
        self.seen.append((server_id, request_id, method, params or {}))
        if method == "tools/call":
            return await self._answer(self, request_id, params or {})
        if method == "tools/list":
            return _complete(tools=[{"name": self.tool, "inputSchema": {"type": "object"}}], **UNCACHED)
        if method == "server/discover" and self.is_listened_to:
            return _complete(
                supportedVersions=["2026-07-28"], capabilities={"tools": {"listChanged": True}}, **UNCACHED
            )
        if method == "subscriptions/listen":
            return await self._notify_changes(request_id)
        return {"error": {"code": -32601, "message": "no such method"}}

    async def _notify_changes(self, request_id: str) -> JsonObject:
        meta = {"io.modelcontextprotocol/subscriptionId": request_id}
        honoured = {"toolsListChanged": True}
        self.notify(request_id, "notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta})
        await self.changed.wait()
        self.changed.clear()
        self.tool = "react"
        self.notify(request_id, "notifications/tools/list_changed", {"_meta": meta})
        await asyncio.Event().wait()
        return _complete()

    def notify(self, request_id: str, method: str, params: JsonObject) -> None:
        assert self.servers is not None
        self.servers.on_message("srv-1", request_id, method, params)


@asynccontextmanager
async def _session(answer: Answer, **more: Any) -> AsyncGenerator[tuple[Client, McpServers]]:
    client = Client(answer)
    us = Implementation("duologue-test", "9")
    async with asyncio.timeout(60), McpServers([CONFIG], send=client.send, client=us, **more) as servers:
        client.servers = servers
        yield client, servers


async def _done(client: Client, request_id: str, params: JsonObject) -> JsonObject:
    return DONE


async def test_every_request_says_which_version_it_speaks_and_what_we_can() -> None:
    async with _session(_done) as (client, servers):
        assert (await servers.call("inside", "act", {"a": 1})).text == "done"

    assert [method for _, _, method, _ in client.seen] == ["server/discover", "tools/list", "tools/call"]
    assert {server_id for server_id, *_ in client.seen} == {"srv-1"}
    assert len({request_id for _, request_id, *_ in client.seen}) == 3
    for *_, params in client.seen:
        meta = params["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
        assert meta["io.modelcontextprotocol/clientInfo"] == {"name": "duologue-test", "version": "9"}
    assert client.seen[-1][3] == {"name": "act", "arguments": {"a": 1}, "_meta": client.seen[-1][3]["_meta"]}


async def test_where_there_is_a_result_it_counts() -> None:
    async def both(client: Client, request_id: str, params: JsonObject) -> JsonObject:
        return {**DONE, "error": {"code": 1, "message": "no"}}

    async with _session(both) as (_, servers):
        assert (await servers.call("inside", "act")).text == "done"


async def test_notifications_about_a_request_reach_its_caller() -> None:
    async def with_progress(client: Client, request_id: str, params: JsonObject) -> JsonObject:
        token = params["_meta"]["progressToken"]
        client.notify("mcp-0", "notifications/progress", {"progressToken": token, "progress": 9})
        client.notify(request_id, "notifications/progress", {"progressToken": token, "progress": 1, "total": 2})
        await received.wait()
        return DONE

    received = asyncio.Event()
    steps: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))
        received.set()

    async with _session(with_progress) as (client, servers):
        await servers.call("inside", "act", on_progress=on_progress)
        client.notify("mcp-0", "notifications/progress", {"progressToken": 1, "progress": 2})
        servers.on_message("another", "mcp-0", "notifications/message", None)

    assert steps == [(1, 2)]


async def test_a_server_in_the_client_reports_new_tools_to_subscribers() -> None:
    client = Client(_done)
    client.is_listened_to = True
    changes: asyncio.Queue[str] = asyncio.Queue()

    async with asyncio.timeout(60):
        async with McpServers([CONFIG], send=client.send, on_change=changes.put_nowait) as servers:
            client.servers = servers
            await changes.get()
            assert [tool.name for tool in servers.tools] == ["act"]
            client.changed.set()
            await changes.get()
            assert [tool.name for tool in servers.tools] == ["react"]


@pytest.mark.parametrize(
    ("carrier", "message"),
    [
        ({"error": {"code": -32602, "message": "bad argument", "data": {"at": "a"}}}, "bad argument"),
        ({}, "neither a result nor an error"),
        ({"result": None}, "neither a result nor an error"),
        ({"error": "no"}, "neither a result nor an error"),
        ({"result": {"resultType": "input_required", "inputRequests": {}}}, "MCP server 'inside'"),
        ({"result": {"resultType": "later"}}, "MCP server 'inside'"),
    ],
)
async def test_an_inner_error_is_an_error_of_the_server(carrier: JsonObject, message: str) -> None:
    async def answer(client: Client, request_id: str, params: JsonObject) -> JsonObject:
        return carrier

    async with _session(answer) as (_, servers):
        with pytest.raises(McpBackendFailed, match=message):
            await servers.call("inside", "act")

        assert servers.states == {"inside": "ready"}


@pytest.mark.parametrize("error", [McpLimitReached("full"), McpServerUnavailable("gone"), McpBackendFailed("broken")])
async def test_an_error_of_the_carrier_keeps_its_kind(error: RequestError) -> None:
    async def answer(client: Client, request_id: str, params: JsonObject) -> JsonObject:
        raise error

    async with _session(answer) as (_, servers):
        with pytest.raises(type(error), match=str(error)):
            await servers.call("inside", "act")


async def test_an_answer_that_makes_no_sense_to_the_connection_fails_the_call_only() -> None:
    async def answer(client: Client, request_id: str, params: JsonObject) -> JsonObject:
        raise ProtocolViolation("not even JSON")

    async with _session(answer) as (_, servers):
        with pytest.raises(McpBackendFailed, match="not even JSON"):
            await servers.call("inside", "act")

        assert servers.states == {"inside": "ready"}


async def test_when_the_connection_is_lost_so_is_the_server() -> None:
    async def answer(client: Client, request_id: str, params: JsonObject) -> JsonObject:
        raise ConnectionLost("the client is gone")

    async with _session(answer, restart_pauses=[]) as (_, servers):
        with pytest.raises(McpServerUnavailable, match="ended before it answered"):
            await servers.call("inside", "act")
        with pytest.raises(McpServerUnavailable, match="is failed"):
            await servers.call("inside", "act")
