"""Clients that use up every file descriptor. The promise: the server logs it in a few lines, and works afterwards.

Before, a full table of descriptors gave tens of thousands of tracebacks a minute, and the server did not recover.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import WebSocketException

from tests.cli.program import PROGRAM, environment
from tests.cli.test_serve import Server
from tests.hostile.test_unanswered import SILENT
from tests.transports.server.servers import RunningServer, socket_to

SECONDS = 60.0


@asynccontextmanager
async def limited_server(home: Path, descriptors: int) -> AsyncGenerator[Server]:
    """Start a server that may open only so many files."""
    limited = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"]
    process = await asyncio.create_subprocess_exec(
        *limited,
        *(*PROGRAM, "serve", "--", sys.executable, "-c", SILENT),
        stdout=PIPE,
        stderr=PIPE,
        cwd=home,
        env=environment(home),
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            yield Server((await process.stdout.readline()).decode().strip(), process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def until_healthy(base: str) -> None:
    async with asyncio.timeout(SECONDS), httpx2.AsyncClient(trust_env=False, timeout=1) as client:
        while True:
            try:
                assert (await client.get(f"{base}/health")).text == "ok\n"
                return
            except httpx2.TransportError:
                pass


@pytest.mark.fault("HTT-25")
async def test_after_connections_used_every_descriptor_the_server_works_and_logged_one_line(tmp_path: Path) -> None:
    async with limited_server(tmp_path, 40) as server:
        url, _, token = server.url.partition("#token=")
        base = url.replace("ws:", "http:").removesuffix("/acp")
        address = RunningServer(None, int(base.rpartition(":")[2]))  # type: ignore[arg-type]  # another process
        for _ in range(2):
            with ExitStack() as stack:
                for _ in range(100):
                    stack.enter_context(socket.create_connection(("127.0.0.1", address.port)))
                with pytest.raises(httpx2.TransportError):
                    async with httpx2.AsyncClient(trust_env=False, timeout=2) as client:
                        await client.get(f"{base}/health")
            await until_healthy(base)
        async with socket_to(address, token) as client:
            await client.initialize()
        _, stderr = await server.stop()
    assert stderr.count("\n") == stderr.count("cannot accept connections") == 1


@pytest.mark.fault("HTT-25")
async def test_agents_without_free_descriptors_are_rejected_with_one_log_line_each(tmp_path: Path) -> None:
    async with limited_server(tmp_path, 40) as server:
        url, _, token = server.url.partition("#token=")
        address = RunningServer(None, int(url.removesuffix("/acp").rpartition(":")[2]))  # type: ignore[arg-type]
        refused = 0
        opened: list[asyncio.Task[None]] = []
        stop = asyncio.Event()

        async def take(begun: asyncio.Event) -> None:
            try:
                async with socket_to(address, token, open_timeout=3) as client:
                    await client.initialize()
                    begun.set()
                    await stop.wait()
            finally:
                begun.set()

        for _ in range(20):
            begun = asyncio.Event()
            opened.append(asyncio.create_task(take(begun)))
            await begun.wait()
            if opened[-1].done() and opened[-1].exception() is not None:
                refused += 1
                if refused == 2:
                    break
        stop.set()
        for result in await asyncio.gather(*opened, return_exceptions=True):
            assert result is None or isinstance(result, (OSError, WebSocketException, TimeoutError, KeyError))
        await until_healthy(url.replace("ws:", "http:").removesuffix("/acp"))
        async with socket_to(address, token) as client:
            await client.initialize()
        _, stderr = await server.stop()
    assert refused > 0
    assert "Traceback" not in stderr
    assert stderr.count("\n") <= refused + 1, stderr
