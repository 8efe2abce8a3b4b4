"""Files and directories below roots, as bytes and listings: nothing outside is read, listed, made or removed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from duologue.local.file_tree import FileTree, TreeEntry
from duologue.local.files import Roots
from tests.local.sandbox import CANARY, Sandbox
from tests.local.swapper import swapping

RACES = 300


def every_operation(tree: FileTree) -> list[Callable[[str], object]]:
    return [
        tree.stat,
        tree.read_bytes,
        lambda path: tree.write_bytes(path, b"overwritten"),
        tree.prepare_write,
        lambda path: tree.make_directory(f"{path}/made"),
        tree.entries,
        lambda path: tree.remove(f"{path}/file"),
        tree.real_path,
    ]


def reading_and_writing(tree: FileTree) -> list[Callable[[str], object]]:
    return [tree.read_bytes, lambda path: tree.write_bytes(path, b""), tree.prepare_write]


@pytest.mark.parametrize("path", ["{outside}", "{root}/../outside", "{root}/link", "/etc", "{root}/sub/../../outside"])
def test_a_path_that_leads_outside_is_a_permission_error_for_every_operation(sandbox: Sandbox, path: str) -> None:
    (sandbox.root / "link").symlink_to("../outside")
    tree = FileTree(sandbox.roots)
    path = path.format(root=sandbox.root, outside=sandbox.outside)

    for operation in every_operation(tree):
        with pytest.raises(PermissionError, match="outside the directories"):
            operation(path)
    assert not tree.exists(path)


def test_bytes_are_read_and_written_as_they_are(sandbox: Sandbox) -> None:
    tree, path = FileTree(sandbox.roots), str(sandbox.root / "new" / "deep" / "data.bin")
    tree.write_bytes(path, b"\x00\xff\r\n")

    assert tree.read_bytes(path) == b"\x00\xff\r\n"
    assert tree.stat(path) == TreeEntry("data.bin", is_directory=False, size=4)


def test_a_file_longer_than_the_limit_is_not_read(sandbox: Sandbox) -> None:
    (sandbox.root / "long").write_bytes(b"x" * 11)

    with pytest.raises(OSError, match="longer than 10 bytes") as raised:
        FileTree(sandbox.roots, max_bytes=10).read_bytes(str(sandbox.root / "long"))
    assert raised.value.errno == errno.EFBIG
    assert FileTree(sandbox.roots, max_bytes=11).read_bytes(str(sandbox.root / "long")) == b"x" * 11


def test_a_listing_follows_links_inside_and_says_nothing_of_those_that_lead_outside(sandbox: Sandbox) -> None:
    for name, target in [("in", "sub"), ("out", "../outside"), ("gone", "missing"), ("text", "file"), ("loop", "loop")]:
        (sandbox.root / name).symlink_to(target)
    os.mkfifo(sandbox.root / "fifo")

    assert FileTree(sandbox.roots).entries(str(sandbox.root)) == [
        TreeEntry("fifo", is_directory=False, size=None),
        TreeEntry("file", is_directory=False, size=7),
        TreeEntry("gone", is_directory=False, size=None),
        TreeEntry("in", is_directory=True, size=None),
        TreeEntry("loop", is_directory=False, size=None),
        TreeEntry("out", is_directory=False, size=None),
        TreeEntry("sub", is_directory=True, size=None),
        TreeEntry("text", is_directory=False, size=7),
    ]


def test_a_link_is_removed_itself_and_what_it_leads_to_stays(sandbox: Sandbox) -> None:
    (sandbox.root / "out").symlink_to("../outside")
    (sandbox.root / "sub" / "up").symlink_to("../../outside/sub")
    tree = FileTree(sandbox.roots)
    tree.remove(str(sandbox.root / "out"))
    tree.remove(str(sandbox.root / "sub"))

    assert sorted(path.name for path in sandbox.root.iterdir()) == ["file"]
    assert (sandbox.outside / "sub" / "file").read_text() == CANARY


@pytest.mark.parametrize("path", ["{root}", "{root}/.", "{root}/sub/..", "{home}", "{home}/link", "/"])
def test_neither_a_root_nor_what_contains_it_is_removed(sandbox: Sandbox, path: str) -> None:
    (sandbox.home / "link").symlink_to("root")
    tree = FileTree(sandbox.roots)

    with pytest.raises(PermissionError if path.endswith("link") else ValueError):
        tree.remove(path.format(root=sandbox.root, home=sandbox.home))
    assert (sandbox.root / "sub" / "file").exists()


def test_a_root_inside_another_is_not_removed_by_way_of_a_link(sandbox: Sandbox) -> None:
    (sandbox.root / "here").symlink_to(".")
    with Roots([sandbox.root, sandbox.root / "sub"]) as roots:
        with pytest.raises(ValueError, match="is not removed"):
            FileTree(roots).remove(f"{sandbox.root}/here/sub")


def test_a_fifo_is_neither_read_nor_written_nor_waited_for(sandbox: Sandbox) -> None:
    fifo = str(sandbox.root / "fifo")
    os.mkfifo(fifo)
    tree = FileTree(sandbox.roots)

    for operation in reading_and_writing(tree):
        with pytest.raises(OSError, match="not a regular file"):
            operation(fifo)


def test_making_a_directory_says_what_is_in_the_way(sandbox: Sandbox) -> None:
    tree = FileTree(sandbox.roots)
    tree.make_directory(str(sandbox.root / "a" / "b"))
    tree.make_directory(str(sandbox.root / "a" / "b"))

    assert (sandbox.root / "a" / "b").is_dir()
    with pytest.raises(FileExistsError):
        tree.make_directory(str(sandbox.root / "file"))
    with pytest.raises(NotADirectoryError):
        tree.make_directory(str(sandbox.root / "file" / "below"))


def test_a_real_path_is_that_of_the_standard_library_for_what_is_inside(sandbox: Sandbox) -> None:
    (sandbox.root / "link").symlink_to("sub")
    (sandbox.root / "sub" / "gone").symlink_to("../missing")
    tree = FileTree(sandbox.roots)

    for name in (".", "sub", "link/file", "link/..", "missing/../file", "sub/gone/..", "sub/gone/x", "file/x", "a/b/"):
        path = f"{sandbox.root}/{name}"
        assert tree.real_path(path) == os.path.realpath(path)
    (sandbox.root / "one").symlink_to("two")
    (sandbox.root / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links") as raised:
        tree.real_path(f"{sandbox.root}/one/x")
    assert raised.value.errno == errno.ELOOP


def test_a_file_that_may_not_be_accessed_is_a_permission_error(sandbox: Sandbox) -> None:
    file = sandbox.root / "file"
    file.chmod(0)
    with sandbox.unprivileged():
        tree = FileTree(sandbox.roots)
        for operation in reading_and_writing(tree):
            with pytest.raises(PermissionError):
                operation(str(file))
    file.chmod(0o600)
    assert file.read_text() == "inside\n"


def test_a_root_that_was_moved_away_is_not_current(sandbox: Sandbox) -> None:
    tree = FileTree(sandbox.roots)
    assert tree.is_current(str(sandbox.root))
    sandbox.root.rename(sandbox.home / "moved")
    assert not tree.is_current(str(sandbox.root))
    sandbox.root.mkdir()
    assert not tree.is_current(str(sandbox.root))


@pytest.mark.parametrize("operation", ["read", "write", "list", "remove", "make"])
def test_a_directory_that_another_process_swaps_for_a_link_leads_nowhere(
    sandbox: Sandbox, operation: str, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    (sandbox.root / "link").symlink_to("../outside")
    tree, path = FileTree(sandbox.roots), str(sandbox.root / "sub" / "file")
    attempts = RACES * chaos_factor
    record_property("count", attempts)

    with swapping(sandbox.root / "sub", sandbox.root / "link"):
        for number in range(attempts):
            with suppress(OSError):
                perform(tree, operation, path, number)


def perform(tree: FileTree, operation: str, path: str, number: int) -> None:
    directory = str(Path(path).parent)
    if operation == "read":
        assert tree.read_bytes(path).decode() != CANARY
    elif operation == "write":
        tree.write_bytes(path, b"inside")
    elif operation == "list":
        assert "secret" not in [entry.name for entry in tree.entries(directory)]
    elif operation == "remove":
        tree.write_bytes(path, b"inside")
        tree.remove(path)
    else:
        tree.make_directory(f"{directory}/made{number}")
