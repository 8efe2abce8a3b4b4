"""Agents that are programs of their own, and how tests start them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from duologue.transports.process.transport import ProcessTransport
from tests.agent.wire_client import RecordingClient, client_on
from tests.agent.wire_validator import WireValidator

EXAMPLES = Path(__file__).parents[3] / "examples"
NOISY = Path(__file__).with_name("noisy.py")


@asynccontextmanager
async def program(
    path: Path, cwd: Path, *arguments: str, home: str | None = None, **capabilities: Any
) -> AsyncGenerator[tuple[RecordingClient, bytearray]]:
    """Run an agent's program with a validator; yield both and its stderr."""
    stderr = bytearray()
    env = {} if home is None else {"HOME": home}
    transport = ProcessTransport([sys.executable, str(path), *arguments], cwd=cwd, env=env, on_stderr=stderr.extend)
    async with asyncio.timeout(60), client_on(transport, cwd, validator=WireValidator(), **capabilities) as client:
        yield client, stderr
