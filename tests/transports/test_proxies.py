"""Proxies from the environment are used, for WebSocket and HTTP alike, and left out where the user says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect
from duologue.errors import ConnectError
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, serve
from duologue.transports.server.tokens import single_token
from tests.transports.certificates import Authority

TOKEN = "token-of-the-tests"
VARIABLES = ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "ws_proxy", "wss_proxy", "socks_proxy"]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Proxy:
    """Carries CONNECT and plain requests, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.port = 0
        self.refuses = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Proxy]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            self.requests.append(f"{method} {target}")
            if self.refuses:
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
            else:
                await self._carry(method, target, head, reader, writer)
        writer.close()

    async def _carry(
        self, method: str, target: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        authority = target if method == "CONNECT" else target.partition("://")[2].partition("/")[0]
        host, _, port = authority.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            path = "/" + target.partition("://")[2].partition("/")[2]
            head = head.replace(target.encode(), path.encode(), 1)
            back.write(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))  # one request each will do
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(reader, back))
            group.create_task(_copy(there, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def served(certificate: Path | None = None) -> AsyncGenerator[int]:
    agent = Agent[Any]("behind")

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        await turn.say("hello")

    app = ServerApp(lambda _: agent, AccessControl(single_token(TOKEN), Limits()), Limits())
    async with asyncio.timeout(60), serve(app, ServerAddress(certificate=certificate)) as port:
        yield port


async def ask(url: str, cwd: Path, **options: Any) -> str:
    async with connect(url, token=TOKEN, **options) as agent, agent.new_session(cwd) as session:
        return await session.ask("hi")


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_proxy_of_the_environment_carries_the_connection(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served() as port, Proxy().running() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        assert await ask(f"{scheme}://127.0.0.1:{port}", tmp_path) == "hello"
        assert proxy.requests
        assert all(f"127.0.0.1:{port}" in each for each in proxy.requests)


@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_a_proxy_sees_no_token_of_an_encrypted_connection(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    async with served(authority.sign("127.0.0.1")) as port, Proxy().running() as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        assert await ask(f"{scheme}://127.0.0.1:{port}", tmp_path, tls=authority.file) == "hello"
        assert set(proxy.requests) == {f"CONNECT 127.0.0.1:{port}"}


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_hosts_that_the_user_excepts_are_reached_directly(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served() as port, Proxy().running() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert await ask(f"{scheme}://127.0.0.1:{port}", tmp_path) == "hello"
        assert proxy.requests == []


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_proxy_that_refuses_is_named_as_the_reason(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served() as port, Proxy().running() as proxy:
        proxy.refuses = True
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(ConnectError, match=r"403|proxy"):
            await ask(f"{scheme}://127.0.0.1:{port}", tmp_path)


@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "nonsense://127.0.0.1:1", "http://127.0.0.1:1"])
async def test_a_proxy_that_makes_no_sense_or_is_not_there_is_an_error_that_says_so(
    scheme: str, proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(ConnectError, match="cannot reach"):
        await ask(f"{scheme}://127.0.0.1:1", tmp_path)
