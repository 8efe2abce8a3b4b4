"""`/undo` restores the files of the last turn, and nothing else."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from tests.coder.client import User, coder, coding, open_client

BROKEN = "def add(a, b):\n    return a - b\n"
EDIT = tool_call("edit_file", path="calc.py", old_text="a - b", new_text="a + b")
NEW = tool_call("write_file", path="made.py", content="made = 1\n")
TWO_CHANGES = [ModelTurn(tools=[EDIT, NEW]), ModelTurn("Done.")]


async def test_undo_restores_changed_files_and_removes_new_ones(project: Path, tmp_path: Path) -> None:
    other = project / "other.txt"
    script = [*TWO_CHANGES, ModelTurn("Noted.", expect=RequestPattern(contains="undone your changes to calc.py"))]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, data=tmp_path) as session:
        await session.prompt("change things")
        assert "a + b" in (project / "calc.py").read_text()
        other.write_text("of the user\n")

        undone = await session.prompt("/undo")
        await session.prompt("go on")
        server.check()

    assert undone.text == "- restored `calc.py`\n- restored `made.py`\n"
    assert (project / "calc.py").read_text() == BROKEN
    assert not (project / "made.py").exists()
    assert other.read_text() == "of the user\n"


async def test_undo_refuses_a_file_that_was_changed_since(project: Path, tmp_path: Path) -> None:
    async with (
        asyncio.timeout(120),
        ModelServer(TWO_CHANGES) as server,
        coding(project, server, data=tmp_path) as session,
    ):
        await session.prompt("change things")
        (project / "calc.py").write_text("mine now\n")

        undone = await session.prompt("/undo")

    assert undone.text == "- restored `made.py`\n- not restored `calc.py`: it was changed since\n"
    assert (project / "calc.py").read_text() == "mine now\n"


async def test_undo_goes_back_turn_by_turn_and_then_says_that_there_is_nothing(project: Path, tmp_path: Path) -> None:
    script = [
        ModelTurn(tools=[EDIT]),
        ModelTurn("1"),
        ModelTurn(tools=[tool_call("edit_file", path="calc.py", old_text="a + b", new_text="b + a")]),
        ModelTurn("2"),
    ]
    texts: list[str] = []
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, data=tmp_path) as session:
        await session.prompt("first")
        await session.prompt("second")
        for _ in range(2):
            await session.prompt("/undo")
            texts.append((project / "calc.py").read_text())
        nothing = await session.prompt("/undo")

    assert texts == ["def add(a, b):\n    return a + b\n", BROKEN]
    assert nothing.text.startswith("There is nothing to undo")


async def test_undo_in_a_repository_touches_neither_the_index_nor_a_branch(project: Path, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *words]
        return subprocess.run(command, cwd=project, check=True, capture_output=True, text=True, timeout=30).stdout

    git("init", "-q")
    git("add", "calc.py")
    git("commit", "-qm", "begin")
    (project / "staged.txt").write_text("staged\n")
    git("add", "staged.txt")
    (project / "staged.txt").write_text("staged, then changed\n")
    before = git("ls-files", "--stage"), git("for-each-ref"), git("status", "--porcelain")

    async with (
        asyncio.timeout(120),
        ModelServer(TWO_CHANGES) as server,
        coding(project, server, data=tmp_path) as session,
    ):
        await session.prompt("change things")
        await session.prompt("/undo")

    assert (git("ls-files", "--stage"), git("for-each-ref"), git("status", "--porcelain")) == before
    assert (project / "staged.txt").read_text() == "staged, then changed\n"


async def test_the_copies_of_a_deleted_session_are_deleted_and_no_others(project: Path, tmp_path: Path) -> None:
    def copies() -> int:
        return len(list(tmp_path.glob("undo/*/*/changes.json")))

    async with asyncio.timeout(120), ModelServer([*TWO_CHANGES, *TWO_CHANGES]) as server:
        async with open_client(project, coder(server, tmp_path), User()) as agent:
            async with agent.new_session(project) as first:
                await first.prompt("change things")
                await first.prompt("/undo")
                assert copies() == 0
            async with agent.new_session(project) as second:
                await second.prompt("change things")
            for other in (first.id, "..", "../sessions", "unknown"):
                await agent.delete_session(other)
            assert copies() == 1
            await agent.delete_session(second.id)

    assert copies() == 0
    assert (tmp_path / "sessions").is_dir()


@pytest.mark.parametrize("damage", ["{", '{"version": 99}'])
async def test_damaged_or_newer_copies_are_reported_and_change_nothing(
    project: Path, tmp_path: Path, damage: str
) -> None:
    async with (
        asyncio.timeout(120),
        ModelServer(TWO_CHANGES) as server,
        coding(project, server, data=tmp_path) as session,
    ):
        await session.prompt("change things")
        (changes,) = await asyncio.to_thread(lambda: list(tmp_path.glob("undo/*/*/changes.json")))
        changes.write_text(damage)

        undone = await session.prompt("/undo")

    assert undone.text.startswith("The files could not be restored")
    assert "a + b" in (project / "calc.py").read_text()
