"""Stores to test: each kind in turn, and directories that are quick to sync."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from duologue.store.base import Store
from duologue.store.memory import MemoryStore
from duologue.store.sqlite.store import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Whatever holds for one store holds for the other."""
    async with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store") as store:
        yield store


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory, in memory if possible, for tests that open and close a store hundreds of times."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        yield Path(directory)
