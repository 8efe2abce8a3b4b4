"""After every test of the runtime: nothing it started is still running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest


@pytest.fixture(autouse=True)
async def no_task_left() -> AsyncGenerator[None]:
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)  # what was just told to end
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert [str(task.get_coro()) for task in left] == []
