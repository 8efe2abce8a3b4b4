"""Agents made with the other SDKs behind their own servers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.interop.sdks import Sdk

START_SECONDS = 30.0
TOKEN = "the-token-of-the-remote-tests"


@asynccontextmanager
async def listening(sdk: Sdk) -> AsyncGenerator[int]:
    """The port of an agent made with this SDK, behind its own server, a gate and a load balancer."""
    env = {**os.environ, **sdk.variables, "INTEROP_TOKEN": TOKEN}
    process = await asyncio.create_subprocess_exec(
        *sdk.program("agent"), "--listen", stdout=asyncio.subprocess.PIPE, env=env
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            port = int(await process.stdout.readline())
        yield port
    finally:
        process.kill()
        await process.wait()
