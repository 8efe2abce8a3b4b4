"""Tools of ours, offered in all three ways and used through the agent's side and the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import McpServer
from duologue.errors import InvalidParams, McpBackendFailed, McpLimitReached, McpServerUnavailable
from duologue.mcp.servers import McpServers
from duologue.mcp.tool_server.server import CAPABILITIES_KEY, VERSION, VERSION_KEY, OfferedServers, ToolServer
from duologue.mcp.tool_server.transports import serve_http, serve_stdio
from tests.mcp.server_processes import is_gone

ENVELOPE: JsonObject = {VERSION_KEY: VERSION, CAPABILITIES_KEY: {}}


async def greet(name: str, times: int = 1) -> str:
    """Greet a person."""
    return " ".join([f"hello {name}"] * times)


def weigh(things: list[str]) -> dict[str, int]:
    """Weigh things."""
    return {thing: len(thing) for thing in things}


def make_tools() -> ToolServer:
    return ToolServer([greet, weigh], name="ours", instructions="Be polite.")


@asynccontextmanager
async def _over_acp(tools: ToolServer) -> AsyncGenerator[tuple[McpServer, OfferedServers | None]]:
    offered = OfferedServers()
    yield offered.offer(tools), offered


@asynccontextmanager
async def _over_http(tools: ToolServer) -> AsyncGenerator[tuple[McpServer, OfferedServers | None]]:
    async with serve_http(tools) as config:
        yield config, None


@asynccontextmanager
async def _over_stdio(tools: ToolServer) -> AsyncGenerator[tuple[McpServer, OfferedServers | None]]:
    async with serve_stdio(tools) as config:
        yield config, None


@pytest.mark.parametrize("offer", [_over_acp, _over_http, _over_stdio], ids=["acp", "http", "stdio"])
async def test_an_agent_lists_and_calls_the_tools_of_a_client(offer: Any) -> None:
    opened: AbstractAsyncContextManager[tuple[McpServer, OfferedServers | None]] = offer(make_tools())

    async with asyncio.timeout(60), opened as (config, offered):
        async with McpServers([config], send=None if offered is None else offered.answer) as servers:
            await servers.ready()
            assert servers.errors == {}
            assert [(tool.name, tool.description) for tool in servers.tools] == [
                ("greet", "Greet a person."),
                ("weigh", "Weigh things."),
            ]
            greet, weigh = servers.tools
            assert (await greet(name="you", times=2)).text == "hello you hello you"
            assert (await weigh(things=["a", "bcd"])).structured_content == {"a": 1, "bcd": 3}
            assert (await greet(name=5)).is_error
            with pytest.raises(McpBackendFailed, match="no tool is called 'nothing'") as caught:
                await servers.call("ours", "nothing")
            assert caught.value.data["code"] == InvalidParams.code


def _answer(method: str, params: JsonObject | None) -> Any:
    return make_tools().answer(method, params)


async def test_every_answer_says_who_gives_it_and_that_it_is_complete() -> None:
    answer = await _answer("server/discover", {"_meta": ENVELOPE})

    assert answer == {
        "result": {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "instructions": "Be polite.",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "ours", "version": "1"}},
        }
    }


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/list", None, -32602),
        ("tools/list", {}, -32602),
        ("tools/list", {"_meta": {VERSION_KEY: VERSION}}, -32602),
        ("tools/list", {"_meta": {CAPABILITIES_KEY: {}}}, -32602),
        ("tools/list", {"_meta": {VERSION_KEY: "2025-11-25", CAPABILITIES_KEY: {}}}, -32022),
        ("tools/call", {"_meta": ENVELOPE}, -32602),
        ("tools/call", {"_meta": ENVELOPE, "name": "nothing"}, -32602),
        ("prompts/list", {"_meta": ENVELOPE}, -32601),
        ("initialize", {"_meta": ENVELOPE}, -32601),
    ],
)
async def test_an_invalid_request_is_answered_with_an_error(method: str, params: JsonObject | None, code: int) -> None:
    answer = await _answer(method, params)

    assert answer["error"]["code"] == code
    assert "result" not in answer


async def test_an_unsupported_version_is_answered_with_the_supported_one() -> None:
    answer = await _answer("tools/list", {"_meta": {**ENVELOPE, VERSION_KEY: "2027-01-01"}})

    assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2027-01-01"}


def test_two_tools_with_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are called 'greet'"):
        ToolServer([greet, greet])


async def test_a_server_that_is_not_offered_is_unavailable() -> None:
    offered = OfferedServers()
    config = offered.offer(make_tools())
    offered.withdraw(config)

    for server_id in (config.server_id, "ghost"):
        with pytest.raises(McpServerUnavailable):
            await offered.answer(server_id, "1", "tools/list", {"_meta": ENVELOPE})


def test_an_id_is_never_used_twice() -> None:
    offered = OfferedServers()
    tools = make_tools()

    assert len({offered.offer(tools).server_id for _ in range(1000)}) == 1000


class Slow:
    """A tool that waits until the test releases it."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.was_cancelled = asyncio.Event()

    async def wait(self) -> str:
        self.started.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise
        return "done"


async def test_a_request_id_is_active_once_and_free_again_after_its_answer() -> None:
    slow, offered = Slow(), OfferedServers(max_active=2)
    server_id = offered.offer(ToolServer([slow.wait])).server_id
    call = {"name": "wait", "_meta": ENVELOPE}

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        first = group.create_task(offered.answer(server_id, "1", "tools/call", call))
        await slow.started.wait()
        with pytest.raises(InvalidParams, match="request '1' is still active"):
            await offered.answer(server_id, "1", "tools/list", {"_meta": ENVELOPE})
        slow.started.clear()
        second = group.create_task(offered.answer(server_id, "2", "tools/call", call))
        await slow.started.wait()
        with pytest.raises(McpLimitReached):
            await offered.answer(server_id, "3", "tools/list", {"_meta": ENVELOPE})
        slow.may_end.set()

    assert "result" in first.result()
    assert "result" in second.result()
    assert "result" in await offered.answer(server_id, "1", "tools/list", {"_meta": ENVELOPE})


async def test_a_cancelled_call_cancels_the_function() -> None:
    slow, offered = Slow(), OfferedServers()
    config = offered.offer(ToolServer([slow.wait], name="slow"))

    async with asyncio.timeout(60), McpServers([config], send=offered.answer) as servers:
        async with asyncio.TaskGroup() as group:
            call = group.create_task(servers.call("slow", "wait"))
            await slow.started.wait()
            call.cancel()
        await slow.was_cancelled.wait()

        assert servers.states == {"slow": "ready"}


async def test_the_url_needs_the_token_and_rejects_web_pages() -> None:
    async with asyncio.timeout(60), serve_http(make_tools()) as config, httpx2.AsyncClient() as web:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
        common = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
        known = {**common, **config.headers, "Mcp-Method": "tools/list"}

        async def status(headers: dict[str, str]) -> int:
            return (await web.post(config.url, json=message, headers=headers)).status_code

        assert await status(known) == 200
        assert await status(common) == 401
        assert await status({**known, "Authorization": "Bearer guess"}) == 401
        assert await status({**known, "Origin": "http://evil.example"}) == 403
        assert await status({**known, "Origin": config.url.removesuffix("/mcp")}) == 403
        assert await status({**known, "Host": "evil.example"}) == 421


async def test_the_command_ends_with_the_context_that_offers_it() -> None:
    async with asyncio.timeout(60):
        async with serve_stdio(make_tools()) as config:
            process = await asyncio.create_subprocess_exec(
                config.command, *config.args, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            assert b'"id":1' in await process.stdout.readline()
        await process.wait()

    assert is_gone(process.pid)
