"""Check after every test of the runtime that no task is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest


@pytest.fixture(autouse=True)
async def no_task_left() -> AsyncGenerator[None]:
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)  # let tasks that were just cancelled end
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert [str(task.get_coro()) for task in left] == []
