"""MCP servers behind an address: streamable HTTP and the older SSE, on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from duologue.conversation.session_setup import HttpMcpServer, McpServer, SseMcpServer
from duologue.errors import McpBackendFailed, McpServerUnavailable
from duologue.mcp.servers import McpServers
from duologue.mcp.tool_server.http import serve_on_loopback
from tests.mcp.servers.real import make_server

HEADERS = {"Authorization": "Bearer secret", "X-Team": "blue"}


class Recorder:
    """An application that remembers the headers of every request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.seen: list[dict[str, str]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self._app(scope, receive, send)


def _http(base: str, **more: Any) -> McpServer:
    return HttpMcpServer(name="web", url=f"{base}/mcp", **more)


def _sse(base: str, **more: Any) -> McpServer:
    return SseMcpServer(name="web", url=f"{base}/sse", **more)


KINDS = [
    pytest.param(lambda: make_server().streamable_http_app(), _http, id="http"),
    pytest.param(lambda: make_server().streamable_http_app(json_response=True), _http, id="http-json"),
    pytest.param(lambda: make_server().sse_app(), _sse, id="sse"),
]


@pytest.mark.parametrize(("make_app", "config"), KINDS)
async def test_a_server_behind_an_address_is_listed_and_called(
    make_app: Callable[[], ASGIApp], config: Callable[..., McpServer]
) -> None:
    app = Recorder(make_app())

    async with asyncio.timeout(60), serve_on_loopback(app) as base:
        async with McpServers([config(base, headers=HEADERS)]) as servers:
            await servers.ready()
            assert servers.errors == {}
            tools = {tool.name: tool for tool in servers.tools}

            assert (await tools["add"](a=1, b=2)).structured_content == {"result": 3}
            assert [type(block).__name__ for block in (await tools["show"]()).content] == [
                "TextContent",
                "ImageContent",
                "AudioContent",
                "ResourceLink",
                "Resource",
            ]
            assert (await tools["fail"](reason="because")).is_error

    assert {(headers["authorization"], headers["x-team"]) for headers in app.seen} == {("Bearer secret", "blue")}


@pytest.mark.fault("MCP-07")
@pytest.mark.parametrize("status", [302, 307, 308])
@pytest.mark.parametrize("config", [_http, _sse], ids=["http", "sse"])
async def test_a_redirect_to_another_host_is_not_followed_and_gets_no_headers(
    status: int, config: Callable[..., McpServer]
) -> None:
    elsewhere = Recorder(make_server().streamable_http_app())

    async with asyncio.timeout(60), serve_on_loopback(elsewhere) as target:

        async def redirect(request: Request) -> Response:
            return RedirectResponse(f"{target}{request.url.path}", status)

        async with serve_on_loopback(Starlette(routes=[Route("/{path}", redirect, methods=["GET", "POST"])])) as base:
            async with McpServers([config(base, headers=HEADERS)]) as servers:
                await servers.ready()

                assert target in servers.errors["web"] or "Redirect" in servers.errors["web"]

    assert elsewhere.seen == []


@pytest.mark.fault("MCP-07")
@pytest.mark.parametrize("config", [_http, _sse], ids=["http", "sse"])
async def test_with_a_list_of_hosts_only_those_are_reached(config: Callable[..., McpServer]) -> None:
    app = make_server().sse_app() if config is _sse else make_server().streamable_http_app()

    async with asyncio.timeout(60), serve_on_loopback(app) as base:
        async with McpServers([config(base)], allow_hosts=["example.org"]) as servers:
            await servers.ready()
            assert "a private address; add the host" in servers.errors["web"]

        async with McpServers([config(base)], allow_hosts=["127.0.0.1"]) as servers:
            assert (await servers.call("web", "add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.fault("MCP-07")
async def test_a_file_is_no_server() -> None:
    files: list[McpServer] = [
        HttpMcpServer(name="h", url="file:///etc/passwd"),
        SseMcpServer(name="s", url="file:///etc/passwd"),
    ]

    async with asyncio.timeout(60), McpServers(files) as servers:
        await servers.ready()

        assert set(servers.errors.values()) == {"not an http or https URL: 'file:///etc/passwd'"}


@pytest.mark.fault("MCP-01")
@pytest.mark.parametrize("config", [_http, _sse], ids=["http", "sse"])
async def test_a_url_where_no_server_listens_is_reported(config: Callable[..., McpServer]) -> None:
    async with asyncio.timeout(60):
        async with serve_on_loopback(Starlette()) as base:
            pass
        async with McpServers([config(base)]) as servers:
            await servers.ready()

            assert "Connect" in servers.errors["web"]


@pytest.mark.fault("MCP-01")
async def test_a_server_that_wants_another_key_is_reported_with_its_status() -> None:
    async def refuse(request: Request) -> Response:
        return Response("who are you?", 401)

    async with (
        asyncio.timeout(60),
        serve_on_loopback(Starlette(routes=[Route("/mcp", refuse, methods=["POST"])])) as base,
    ):
        async with McpServers([_http(base)]) as servers:
            await servers.ready()

            assert "HTTP 401" in servers.errors["web"]


@pytest.mark.fault("MCP-04")
@pytest.mark.parametrize("config", [_http, _sse], ids=["http", "sse"])
async def test_a_server_that_is_killed_fails_its_calls_and_is_called_again(config: Callable[..., McpServer]) -> None:
    kind = "sse" if config is _sse else "http"
    async with asyncio.timeout(60):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.mcp.servers.web", kind, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        base = (await process.stdout.readline()).decode().strip()
        async with McpServers([config(base)], restart_pauses=[0.01, 0.02]) as servers:
            assert (await servers.call("web", "add", {"a": 1, "b": 2})).text == "3"
            process.kill()
            await process.wait()
            for _ in range(2):
                with pytest.raises(McpServerUnavailable):
                    await servers.call("web", "add", {"a": 1, "b": 2})

            assert servers.states == {"web": "failed"}
            assert "Connect" in servers.errors["web"]


class Refusing:
    """An application that rejects messages on demand, while its streams go on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.is_refusing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.is_refusing and scope["type"] == "http" and scope["method"] == "POST":
            await Response("later", 503)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@pytest.mark.fault("MCP-04")
@pytest.mark.parametrize(("make_app", "config"), KINDS)
async def test_a_server_that_takes_no_messages_fails_the_call_and_works_again_later(
    make_app: Callable[[], ASGIApp], config: Callable[..., McpServer]
) -> None:
    app = Refusing(make_app())

    async with asyncio.timeout(60), serve_on_loopback(app) as base:
        async with McpServers([config(base)], restart_pauses=[0.1]) as servers:
            await servers.ready()
            app.is_refusing = True
            with pytest.raises((McpServerUnavailable, McpBackendFailed), match="HTTP 503"):
                await servers.call("web", "add", {"a": 1, "b": 2})
            app.is_refusing = False

            assert (await servers.call("web", "add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.fault("MCP-01")
@pytest.mark.parametrize(("make_app", "config"), KINDS)
async def test_a_server_that_takes_no_messages_at_all_is_reported_at_once(
    make_app: Callable[[], ASGIApp], config: Callable[..., McpServer]
) -> None:
    app = Refusing(make_app())
    app.is_refusing = True

    async with asyncio.timeout(60), serve_on_loopback(app) as base:
        async with McpServers([config(base)]) as servers:
            await servers.ready()

            assert "HTTP 503" in servers.errors["web"]


class Forgetful:
    """A server of the older kind, which gives out sessions and forgets them all on demand."""

    def __init__(self, answer: Callable[[Any], Response] | None = None) -> None:
        self.sessions: set[str] = set()
        self.app = Starlette(routes=[Route("/mcp", self._post, methods=["POST"])])
        self._answer = answer

    async def _post(self, request: Request) -> Response:
        message = await request.json()
        if message["method"] == "initialize":
            session = f"s{len(self.sessions)}-{id(message)}"
            self.sessions.add(session)
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "forgetful", "version": "1"},
            }
            return JSONResponse(_result(message, result), headers={"mcp-session-id": session})
        if message["method"] == "server/discover":
            return Response(status_code=400)
        if request.headers.get("mcp-session-id") not in self.sessions:
            return Response(status_code=404)
        if "id" not in message:
            return Response(status_code=202)
        if message["method"] == "tools/call" and self._answer is not None:
            return self._answer(message)
        return JSONResponse(_result(message, {"tools": [], "content": [{"type": "text", "text": "still here"}]}))


def _result(message: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


@asynccontextmanager
async def _forgetful(
    answer: Callable[[Any], Response] | None = None, **more: Any
) -> AsyncGenerator[tuple[Forgetful, McpServers]]:
    server = Forgetful(answer)
    async with asyncio.timeout(60), serve_on_loopback(server.app) as base:
        async with McpServers([_http(base)], restart_pauses=[0.01], **more) as servers:
            yield server, servers


@pytest.mark.fault("MCP-04")
async def test_a_server_that_has_forgotten_us_is_met_anew() -> None:
    async with _forgetful() as (server, servers):
        assert (await servers.call("web", "any")).text == "still here"
        server.sessions.clear()
        with pytest.raises(McpServerUnavailable, match="no longer knows this session"):
            await servers.call("web", "any")

        assert (await servers.call("web", "any")).text == "still here"


@pytest.mark.fault("MCP-02")
async def test_an_answer_over_the_limit_fails_its_call_and_the_connection_lives_on() -> None:
    sizes = [2_000_000, 10]

    def answer(message: Any) -> Response:
        return JSONResponse(_result(message, {"content": [{"type": "text", "text": "x" * sizes.pop(0)}]}))

    async with _forgetful(answer, max_message_bytes=1_000_000) as (_, servers):
        with pytest.raises(McpBackendFailed, match="over the limit of 1000000 bytes"):
            await servers.call("web", "any")

        assert (await servers.call("web", "any")).text == "x" * 10


@pytest.mark.fault("MCP-02")
async def test_a_compressed_answer_that_could_be_of_any_size_is_refused() -> None:
    def answer(message: Any) -> Response:
        body = json.dumps(_result(message, {"content": []})).encode()
        return Response(gzip.compress(body), headers={"content-encoding": "gzip", "content-type": "application/json"})

    async with _forgetful(answer) as (_, servers):
        with pytest.raises(McpServerUnavailable):
            await servers.call("web", "any")
        await servers.ready()

        assert servers.states == {"web": "ready"}
