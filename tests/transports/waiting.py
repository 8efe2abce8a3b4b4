"""Waiting for what the kernel or another process does, never longer than a test may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

WAIT_SECONDS = 60.0


async def until(is_so: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Poll until the condition holds; other processes report nothing."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
