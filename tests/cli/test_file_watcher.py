"""Which files of a project were saved."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from duologue.cli import file_watcher
from duologue.cli.file_watcher import FileWatcher


def names(watcher: FileWatcher, root: Path) -> set[str]:
    return {str(Path(path).relative_to(root)) for path in watcher.files}


def test_python_files_of_the_project_are_watched_and_installed_ones_are_not(tmp_path: Path) -> None:
    watched = ("agent.py", "package/module.py", "package/deep/er.py")
    others = (
        "readme.md",
        ".hidden/x.py",
        "package/__pycache__/x.py",
        "node_modules/x.py",
        "lib/site-packages/x.py",
        "env/lib/x.py",
        "env/pyvenv.cfg",
    )
    for name in (*watched, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "package")

    assert names(FileWatcher([tmp_path]), tmp_path) == set(watched)


def test_a_file_that_is_named_is_watched_whatever_it_is(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").touch()
    (tmp_path / "other.md").touch()

    assert names(FileWatcher([tmp_path / "prompt.md", tmp_path / "missing"]), tmp_path) == {"prompt.md"}


def test_a_large_project_is_watched_as_far_as_the_limit_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watcher, "MOST_ENTRIES", 20)
    (tmp_path / "agent.py").touch()
    (tmp_path / "inner").mkdir()
    for number in range(100):
        (tmp_path / "inner" / f"{number}.py").touch()

    watcher = FileWatcher([tmp_path])

    assert "agent.py" in names(watcher, tmp_path)
    assert len(watcher.files) <= 20
    assert not watcher.is_complete


def write(path: Path) -> None:
    path.write_text("x = 1\n")


def replace(path: Path) -> None:
    """Save as many editors do: write another file, move it over the first."""
    copy = path.with_suffix(".tmp")
    write(copy)
    os.replace(copy, path)


def remove_and_make(path: Path) -> None:
    path.unlink()
    write(path)


def touch_nothing(path: Path) -> None:
    """Change two other files, one of them new, and remove a third."""
    path.with_name("new.py").touch()
    path.with_name("old.py").unlink()


@pytest.mark.parametrize(
    ("save", "changed"),
    [
        (write, ["agent.py"]),
        (replace, ["agent.py"]),
        (remove_and_make, ["agent.py"]),
        (Path.unlink, ["agent.py"]),
        (touch_nothing, ["new.py", "old.py"]),
    ],
)
async def test_a_save_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path], None], changed: list[str]
) -> None:
    monkeypatch.setattr(file_watcher, "POLL_SECONDS", 0.001)
    (tmp_path / "agent.py").touch()
    (tmp_path / "old.py").touch()
    async with asyncio.timeout(60), aclosing(FileWatcher([tmp_path]).changes()) as changes:
        save(tmp_path / "agent.py")
        assert [path.name for path in await anext(changes)] == changed
        (tmp_path / "last.py").touch()
        assert [path.name for path in await anext(changes)] == ["last.py"]


async def test_files_that_never_settle_are_reported_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "POLL_SECONDS", 0.001)
    watcher = FileWatcher([tmp_path])
    look = watcher.look

    def save_and_look() -> file_watcher.Fingerprints:
        (tmp_path / f"{len(os.listdir(tmp_path))}.py").touch()
        return look()

    monkeypatch.setattr(watcher, "look", save_and_look)
    async with asyncio.timeout(60), aclosing(watcher.changes()) as changes:
        assert len(await anext(changes)) == file_watcher.MOST_SETTLING + 1
