"""Encrypted ways to an agent: who is believed, and who is not."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect
from duologue.errors import ConnectError
from duologue.transports.remote.http_client import HttpClient
from duologue.transports.remote.url import RemoteEndpoint, TLSVerify
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, serve
from duologue.transports.server.tokens import single_token
from tests.transports.certificates import Authority

TOKEN = "token-of-the-tests"
HOUR = timedelta(hours=1)
SCHEMES = ["wss", "https"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def served(certificate: Path) -> AsyncGenerator[int]:
    """Serve an agent with this certificate; yield the port."""
    agent = Agent[Any]("secret")

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        await turn.say("hello")

    app = ServerApp(lambda _: agent, AccessControl(single_token(TOKEN), Limits()), Limits())
    async with asyncio.timeout(60), serve(app, ServerAddress(certificate=certificate)) as port:
        yield port


async def ask(url: str, cwd: Path, tls: TLSVerify) -> str:
    async with connect(url, token=TOKEN, tls=tls) as agent, agent.new_session(cwd) as session:
        return await session.ask("hi")


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_server_that_our_own_authority_vouches_for_is_believed(
    authority: Authority, scheme: str, tmp_path: Path
) -> None:
    context = ssl.create_default_context(cafile=authority.file)
    async with served(authority.sign("127.0.0.1")) as port:
        for trust in (authority.file, str(authority.file), context, False):
            assert await ask(f"{scheme}://127.0.0.1:{port}", tmp_path, trust) == "hello"


@pytest.mark.fault("HTT-20")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("case", "reason"),
    [("expired", "expired"), ("early", "not yet valid"), ("other name", "mismatch"), ("unknown", "local issuer")],
)
async def test_a_server_with_an_invalid_certificate_gets_no_token_unless_the_user_insists(
    authority: Authority, scheme: str, case: str, reason: str, tmp_path: Path
) -> None:
    certificate = {
        "expired": lambda: authority.sign("127.0.0.1", begins=-48 * HOUR, ends=-24 * HOUR),
        "early": lambda: authority.sign("127.0.0.1", begins=24 * HOUR, ends=48 * HOUR),
        "other name": lambda: authority.sign("localhost.example"),
        "unknown": lambda: authority.sign("127.0.0.1"),
    }[case]()
    async with served(certificate) as port:
        url = f"{scheme}://127.0.0.1:{port}"
        with pytest.raises(ConnectError, match=f"certificate of .* is not valid.*{reason}"):
            await ask(url, tmp_path, None if case == "unknown" else authority.file)
        assert await ask(url, tmp_path, False) == "hello"


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_server_that_speaks_tls_is_not_reached_in_the_clear(
    authority: Authority, scheme: str, tmp_path: Path
) -> None:
    async with served(authority.sign("127.0.0.1")) as port:
        with pytest.raises(ConnectError):
            await ask(f"{scheme}://127.0.0.1:{port}", tmp_path, None)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_server_that_speaks_no_tls_is_not_reached_with_it(scheme: str, tmp_path: Path) -> None:
    app = ServerApp(lambda _: Agent[Any]("open"), AccessControl(single_token(TOKEN), Limits()), Limits())
    async with serve(app, ServerAddress()) as port:
        with pytest.raises(ConnectError):
            await ask(f"{scheme}://127.0.0.1:{port}", tmp_path, None)


async def test_a_slow_upload_is_no_silence_of_the_server(authority: Authority) -> None:
    """The request takes longer than a server may be silent, but the server reads all the time."""
    size = 6 * 1024 * 1024
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.sign("127.0.0.1"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(size // 65536):
            await reader.readexactly(65536)
            await asyncio.sleep(0.05)  # the network
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.set()

    ended = asyncio.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # or the system would read for the server
    port = listening.getsockname()[1]
    async with (
        asyncio.timeout(120),
        await asyncio.start_server(serve, sock=listening, ssl=context, limit=65536),
    ):
        client = HttpClient(RemoteEndpoint.of(f"https://127.0.0.1:{port}", trust=authority.file), 1000)
        assert (await client.request("POST", {}, b"x" * size, seconds=2.5)).status == 200
        await client.aclose()
        await ended.wait()
