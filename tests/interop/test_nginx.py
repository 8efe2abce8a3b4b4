"""The configuration of the page on nginx, run by nginx."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from duologue import connect

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]

CONFIGURATION = Path(__file__).parents[2] / "examples" / "nginx.conf"
TOKEN = "a-token-for-the-tests"
SECONDS = 60.0


@dataclass
class Front:
    """nginx with a server behind it."""

    port: int
    certificate: Path
    nginx: Process
    server: Process

    def url(self, scheme: str) -> str:
        return f"{scheme}://localhost:{self.port}/acp"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def configure(folder: Path, port: int, server_port: int, *, http2: bool) -> Path:
    """Return the documented file with the paths and ports of this test."""
    text = CONFIGURATION.read_text()
    for line, other in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl{' http2' if http2 else ''};"),
        ("/etc/ssl/agents.pem", str(folder / "agents.pem")),
        ("/etc/ssl/agents.key", str(folder / "agents.key")),
        ("127.0.0.1:8765", f"127.0.0.1:{server_port}"),
        ("server_name agents.example;", "server_name agents.example localhost;"),
    ):
        assert line in text
        text = text.replace(line, other)
    (folder / "site.conf").write_text(text)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = folder / "nginx.conf"
    main.write_text(
        f"daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log {folder}/access.log;\n{temporary}include {folder}/site.conf;\n}}\n"
    )
    return main


def make_certificate(folder: Path) -> Path:
    """Make a self-signed certificate for the names of this test."""
    certificate = folder / "agents.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,DNS:agents.example"),
            *("-keyout", str(folder / "agents.key"), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate


@asynccontextmanager
async def front(folder: Path, *, http2: bool = False) -> AsyncGenerator[Front]:
    port, server_port = free_port(), free_port()
    certificate = make_certificate(folder)
    options = ["--port", str(server_port), "--behind-tls-proxy", "--behind-proxy", "127.0.0.1", "--access-log"]
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "duologue.cli.main", "serve", *options, "--allow-host", "agents.example"),
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "DUOLOGUE_TOKEN": TOKEN, "XDG_DATA_HOME": str(folder)},
    )
    nginx = await asyncio.create_subprocess_exec(
        "nginx", "-c", str(configure(folder, port, server_port, http2=http2)), "-e", str(folder / "error.log")
    )
    try:
        async with asyncio.timeout(SECONDS):
            assert server.stdout is not None
            await server.stdout.readline()
            while not await _answers(port):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield Front(port, certificate, nginx, server)
    finally:
        for process in (nginx, server):
            if process.returncode is None:
                process.terminate()
                await process.communicate()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_a_client_speaks_http_2_with_an_nginx_that_does(tmp_path: Path) -> None:
    async with front(tmp_path, http2=True) as front_server:
        async with connect(front_server.url("https"), token=TOKEN, tls=front_server.certificate) as agent:
            session = await agent.new_session(tmp_path)
            turns = [await session.prompt("hello"), await session.prompt("x" * 2_000_000)]

    assert [turn.stop_reason for turn in turns] == ["end_turn", "end_turn"]
    requests = (tmp_path / "access.log").read_text().splitlines()
    assert requests
    assert all('/acp HTTP/2.0"' in request for request in requests)


@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_a_client_talks_through_nginx(tmp_path: Path, scheme: str) -> None:
    async with front(tmp_path) as front_server:
        async with connect(front_server.url(scheme), token=TOKEN, tls=front_server.certificate) as agent:
            session = await agent.new_session(tmp_path)
            small = await session.prompt("hello")
            large = await session.prompt("x" * 2_000_000)

    assert (small.stop_reason, large.stop_reason) == ("end_turn", "end_turn")


@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_events_are_not_buffered(tmp_path: Path, scheme: str) -> None:
    """An update arrives while its turn still runs."""
    async with front(tmp_path) as front_server:
        async with connect(front_server.url(scheme), token=TOKEN, tls=front_server.certificate) as agent:
            turn = (await agent.new_session(tmp_path)).prompt("/cancel-me")
            async with asyncio.timeout(SECONDS):
                async for _ in turn:
                    break
            await turn.cancel()
            ended = await turn

    assert ended.stop_reason == "cancelled"


async def test_a_reload_of_nginx_is_not_noticed(tmp_path: Path) -> None:
    async with front(tmp_path) as front_server:
        async with connect(front_server.url("wss"), token=TOKEN, tls=front_server.certificate) as agent:
            session = await agent.new_session(tmp_path)
            turn = session.prompt("/stream 20000")
            async for _ in turn:
                break
            os.kill(_worker(tmp_path), signal.SIGKILL)
            ended = await turn

    assert ended.stop_reason == "end_turn"


def _worker(folder: Path) -> int:
    """Return the pid of a worker process, which the master replaces when it ends."""
    master = (folder / "pid").read_text().strip()
    return int(Path(f"/proc/{master}/task/{master}/children").read_text().split()[0])


async def test_the_server_knows_where_a_client_is_and_believes_nginx_alone(tmp_path: Path) -> None:
    async with front(tmp_path) as front_server:
        async with httpx2.AsyncClient(verify=_trust(front_server), trust_env=False) as client:
            refused = await client.post(
                front_server.url("https"), headers={"X-Forwarded-For": "6.6.6.6", "Host": "agents.example"}
            )
            foreign = await client.post(front_server.url("https"), headers={"Host": "evil.example"})
        front_server.server.send_signal(signal.SIGTERM)
        _, stderr = await front_server.server.communicate()

    assert (refused.status_code, foreign.status_code) == (401, 403)
    assert set(re.findall(r'"address":"([^"]+)"', stderr.decode())) == {"127.0.0.1"}


def _trust(front_server: Front) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=front_server.certificate)
