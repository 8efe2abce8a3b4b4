"""MCP servers to test with: processes, and addresses on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from duologue.conversation.setup import StdioMcpServer

SERVERS = Path(__file__).with_name("servers")


def small(*behaviours: str, name: str = "small", env: dict[str, str] | None = None) -> StdioMcpServer:
    """The server that misbehaves on demand."""
    return StdioMcpServer(
        name=name, command=sys.executable, args=["-I", str(SERVERS / "small.py"), *behaviours], env=env or {}
    )


def real(name: str = "real") -> StdioMcpServer:
    """The server made with the SDK."""
    return StdioMcpServer(name=name, command=sys.executable, args=["-I", str(SERVERS / "real.py")])


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncGenerator[str]:
    """Serve an ASGI application on loopback; yields its address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        config = uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=0)
        server = uvicorn.Server(config)
        async with asyncio.TaskGroup() as group:
            # Not `serve`, which would take over the signals of the test run.
            task = group.create_task(server._serve(sockets=[listener]))
            host, port = listener.getsockname()
            yield f"http://{host}:{port}"
            server.should_exit = True
            await task


async def until_gone(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(pidfd, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]
    return True
