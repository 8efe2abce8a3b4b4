"""MCP servers to test with, and the processes they leave."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

from duologue.conversation.session_setup import StdioMcpServer

SERVERS = Path(__file__).with_name("servers")


def small(*behaviours: str, name: str = "small", env: dict[str, str] | None = None) -> StdioMcpServer:
    """Return the server that misbehaves on demand."""
    return StdioMcpServer(
        name=name, command=sys.executable, args=["-I", str(SERVERS / "small.py"), *behaviours], env=env or {}
    )


def real(name: str = "real") -> StdioMcpServer:
    """Return the server made with the SDK."""
    return StdioMcpServer(name=name, command=sys.executable, args=["-I", str(SERVERS / "real.py")])


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
    """Return True if a process has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]
    return True
