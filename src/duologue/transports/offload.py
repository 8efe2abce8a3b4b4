"""Examine long messages in a thread: a peer that sends one must not delay others on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LONG_BYTES = 256 * 1024
"""A shorter message is examined in less time than a thread takes to answer on a busy machine."""


async def run_offloaded(function: Callable[[bytes], T], frame: bytes) -> T:
    """Return `function(frame)`, called in a thread where the frame is long."""
    if len(frame) < LONG_BYTES:
        return function(frame)
    return await asyncio.to_thread(function, frame)
