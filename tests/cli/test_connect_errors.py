"""The errors of remote agents on the command line: the cause, its code, and what to do next."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from duologue import connect
from duologue.errors import ConnectError
from duologue.transports.remote import websocket_connect
from tests.cli.program import duologue
from tests.transports.certificates import Authority

TLS_HELLO = b"\x16\x03\x01"
PAGE = b"<html>Welcome</html>"


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    head = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(head).encode() + body


@asynccontextmanager
async def listener(
    response: bytes | None, tls: ssl.SSLContext | None = None, *, after: bytes = b"\r\n\r\n"
) -> AsyncGenerator[int]:
    """Answer each request with these bytes after its head, or with nothing at all; yield the port."""

    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(after)
            writer.write(response or b"")
            await writer.drain()
            if response is None:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.ensure_future(serve(reader, writer)))

    async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*served)


async def shown(home: Path, url: str, proxy: str = "") -> list[str]:
    """Return what `duologue run` writes to stderr."""
    ended = await asyncio.to_thread(
        lambda: duologue(home, "run", "hi", "--agent", url, http_proxy=proxy, https_proxy=proxy)
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    return [line.strip() for line in ended.stderr.splitlines()]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


CASES: list[tuple[str, list[str], bytes, str, str]] = [
    ("401 Unauthorized", [], b"", "rejects the client: HTTP 401", "pass a valid token (`--token`"),
    ("403 Forbidden", [], b"", "rejects the client: HTTP 403", "ask the owner of the server for access"),
    ("404 Not Found", [], b"", "rejects the client: HTTP 404", "correct the path of the URL"),
    ("429 Too Many Requests", [], b"", "rejects the client: HTTP 429", "wait a minute"),
    ("503 Service Unavailable", [], b"", "rejects the client: HTTP 503", "try again later"),
    ("302 Found", ["Location: https://else.example/"], b"", "HTTP 302", "it redirects to https://else.example/"),
    ("200 OK", ["Content-Type: text/html"], PAGE, "answers with a web page: HTTP 200", "check the URL"),
    ("400 Bad Request", ["Content-Type: text/html"], PAGE, "answers with a web page: HTTP 400", "check the URL"),
    ("426 Upgrade Required", [], b"", "answers with something else than ACP: HTTP 426", "check the URL"),
]


@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.parametrize(("status", "headers", "body", "cause", "step"), CASES, ids=[case[0][:3] for case in CASES])
async def test_a_server_that_rejects_the_client_is_reported_with_the_next_step(
    tmp_path: Path, scheme: str, status: str, headers: list[str], body: bytes, cause: str, step: str
) -> None:
    async with listener(answer(status, *headers, body=body)) as port:
        lines = await shown(tmp_path, f"{scheme}://127.0.0.1:{port}")

    assert len(lines) == 2
    assert lines[0].startswith(f"duologue: {scheme}://127.0.0.1:{port}/acp ")
    assert cause in lines[0]
    assert step in lines[1]


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_server_that_cannot_be_reached_is_reported_with_the_next_step(tmp_path: Path, scheme: str) -> None:
    refused = await shown(tmp_path, f"{scheme}://127.0.0.1:1")
    unknown = await shown(tmp_path, f"{scheme}://no-such-host.invalid")

    assert refused == [
        f"duologue: cannot reach {scheme}://127.0.0.1:1/acp: connection refused (ECONNREFUSED)",
        "start the server, or correct the port: `duologue serve` prints its URL",
    ]
    assert unknown[0].startswith(f"duologue: cannot reach {scheme}://no-such-host.invalid/acp: ")
    assert "(code -" in unknown[0]
    assert unknown[1:] == ["correct the host name, or check the network"]


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_server_that_closes_the_connection_or_speaks_no_http_is_reported(tmp_path: Path, scheme: str) -> None:
    for response in (b"", b"SSH-2.0-OpenSSH_9.9\r\n"):
        async with listener(response) as port:
            lines = await shown(tmp_path, f"{scheme}://127.0.0.1:{port}")
        assert len(lines) == 2
        assert lines[0].startswith(f"duologue: cannot reach {scheme}://127.0.0.1:{port}/acp: ")
        assert lines[1].startswith("check the ")


@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_a_failure_of_tls_is_reported_with_the_next_step(
    tmp_path: Path, authority: Authority, scheme: str
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.sign("127.0.0.1"))
    async with listener(answer("200 OK"), context) as port:
        untrusted = await shown(tmp_path, f"{scheme}://127.0.0.1:{port}")
    async with listener(answer("400 Bad Request"), after=TLS_HELLO) as port:
        plain = await shown(tmp_path, f"{scheme}://127.0.0.1:{port}")

    assert "is not valid: " in untrusted[0]
    assert "(code " in untrusted[0]
    assert untrusted[1:] == ["if you trust it, pass the certificate of its authority (`--ca FILE`, `tls=`)"]
    assert "no TLS connection (" in plain[0]
    assert plain[1:] == ["a server without TLS needs ws:// or http://"]


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_proxy_that_cannot_be_reached_is_named_without_its_password(tmp_path: Path, scheme: str) -> None:
    proxy = "http://me:secret@127.0.0.1:1"
    lines = await shown(tmp_path, f"{scheme}://agents.example", proxy)

    assert lines[0].startswith(f"duologue: cannot reach {scheme}://agents.example/acp through the proxy 127.0.0.1:1: ")
    assert lines[1:] == ["correct http_proxy, https_proxy or all_proxy, or name the host in no_proxy"]


async def test_a_server_that_never_answers_is_reported_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_connect, "OPEN_SECONDS", 0.1)
    async with listener(None) as port:
        with pytest.raises(ConnectError) as raised:
            async with connect(f"ws://127.0.0.1:{port}"):
                pass

    assert raised.value.message == f"cannot reach ws://127.0.0.1:{port}/acp: no answer in time (ETIMEDOUT)"
    assert raised.value.next_step == "check the host, the port and the firewall"


def test_the_text_of_the_error_has_the_next_step_for_programs() -> None:
    error = ConnectError("no server (X)", status=1, next_step="start it")

    assert (str(error), error.message, error.next_step, error.status) == (
        "no server (X); start it",
        "no server (X)",
        "start it",
        1,
    )
