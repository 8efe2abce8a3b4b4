"""After every test here: no task, thread or descriptor is left."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator

import pytest

from tests.transports.conftest import open_descriptors
from tests.transports.waiting import until


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncGenerator[None]:
    descriptors = set(open_descriptors().values())
    threads = {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}
    yield
    # The pool of threads that asyncio keeps for later is no leftover.
    await until(
        lambda: {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")} <= threads
    )
    if not set(open_descriptors().values()) <= descriptors:
        gc.collect()  # what a test let go of in a circle closes its files only now
    assert set(open_descriptors().values()) <= descriptors
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
