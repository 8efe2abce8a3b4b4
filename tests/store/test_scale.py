"""Long sessions and long lists in bounded memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.store.sqlite.database import Database
from duologue.store.sqlite.store import SqliteStore
from tests.store.messages import execute, info, numbered

ROOT = Path(__file__).parents[2]

EVENTS, MOST_EVENTS = 100_000, 1_000_000
SESSIONS, MOST_SESSIONS = 10_000, 100_000

MOST_KIB = 64 * 1024
MOST_BYTES_OF_A_LIST = 2 * 1024 * 1024


@pytest.mark.fault("STO-12")
@pytest.mark.timeout(3_600)
def test_a_long_session_is_replayed_in_little_memory(
    quick_path: Path, tmp_path: Path, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    events = min(EVENTS * chaos_factor, MOST_EVENTS)
    # A gigabyte belongs on a disk.
    path, size = (quick_path, 100) if chaos_factor == 1 else (tmp_path, 1_000)
    record_property("count", events)
    _run("write", str(path / "store"), str(events), str(size))
    characters, tool_calls, plans, _, most_kib = _run("replay", str(path / "store")).split()

    assert int(characters) == events // 100 * 94 * size
    assert (int(tool_calls), int(plans)) == (events // 100, 1)
    assert int(most_kib) < MOST_KIB


def _run(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.store.large_session", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1_800, check=True).stdout


def _make_sessions(database: Database, count: int) -> None:
    """Write everything in one transaction, which the store itself never does."""
    with database._writing():
        for number in range(1, count):
            database._insert(info(str(number), f"/work/{number % 10}"), last=0, turn=0)


@pytest.mark.fault("STO-18")
@pytest.mark.timeout(3_600)
async def test_a_long_list_is_read_page_by_page_with_the_damaged_among_them(
    quick_path: Path, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    sessions = min(SESSIONS * chaos_factor, MOST_SESSIONS)
    record_property("count", sessions)
    async with SqliteStore(quick_path) as store:
        async with await store.create(info("0")) as log:
            log.append(numbered(1))
        await store.start(_make_sessions, sessions)
    execute(quick_path, "UPDATE sessions SET info = x'7b7d' WHERE key % 100 = 0")

    async with SqliteStore(quick_path) as store:
        page = await store.list(limit=100)
        expected = iter(range(sessions - 1, -1, -1))
        damaged = 0
        tracemalloc.start()
        while True:
            damaged += len(page.damaged)
            for session in page.sessions:
                assert session.session_id == str(next(expected))
            if page.next_cursor is None:
                break
            page = await store.list(cursor=page.next_cursor, limit=100)
        _, most_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert next(expected, None) is None
        assert damaged == sessions // 100
        assert most_bytes < MOST_BYTES_OF_A_LIST
        assert len((await store.list(cwd="/work/3", limit=1000)).sessions) == min(1000, sessions // 10)
