"""After every test here: no process, descriptor or thread is left."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from duologue.transports.process import process_tree as tree
from duologue.transports.process.environment import OWNER
from tests.transports.waiting import until


def open_descriptors() -> dict[int, str]:
    found: dict[int, str] = {}
    for entry in list(Path("/proc/self/fd").iterdir()):
        # The descriptor that read the directory is closed by now.
        with suppress(FileNotFoundError):
            found[int(entry.name)] = str(entry.readlink())
    return found


def descriptors_left() -> object:
    """Return what must be the same before and after a test: the open descriptors.

    On uvloop their kinds are counted: whenever its loop begins to run, it opens another pair of sockets to be woken by,
    and libuv keeps one of `/dev/null` in reserve from the first listening socket or child on.
    """
    found = open_descriptors()
    if not type(asyncio.get_running_loop()).__module__.startswith("uvloop"):
        return found
    return Counter(link.partition("[")[0] for link in found.values() if link != os.devnull)


@pytest.fixture(autouse=True)
async def nothing_left(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Mark every process that a test starts, and check at the end that none is left; yield the marker."""
    mark = f"test-{secrets.token_hex(8)}"
    monkeypatch.setenv(OWNER, mark)
    descriptors = descriptors_left()
    threads = set(threading.enumerate())
    children = tree.descendants(os.getpid())
    yield mark
    # A test may leave it to the guard to end what it killed.
    await until(lambda: tree.find_by_marker(mark) == [])
    assert tree.descendants(os.getpid()) == children
    assert descriptors_left() == descriptors
    await until(lambda: set(threading.enumerate()) <= threads)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
