"""Git patches: git applies the patches we write, and we read the texts from the patches it writes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duologue.conversation.git_patch import git_patch, quoted, split_patch, texts_of_patch
from duologue.conversation.tool_content import FileChange

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge, and it is not here")
texts = st.lists(st.sampled_from(["a", "b", "-- c", "+d", "", "\u2028", "e\r", "\x0b"]), max_size=12).map("\n".join)


def applied(patch: str, directory: Path) -> None:
    command = ["git", "apply", "--unsafe-paths", "-p0", "--whitespace=nowarn", "-"]
    subprocess.run(command, input=patch.encode(), cwd=directory, check=True, capture_output=True)


def put(path: Path, text: str) -> None:
    path.write_bytes(text.encode())


def written(change: FileChange) -> str:
    patch = git_patch(change)
    assert patch is not None
    return patch


@needs_git
@settings(max_examples=25, deadline=None)
@given(old=texts, new=texts)
def test_git_makes_the_new_text_of_the_old_one(old: str, new: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name).resolve() / "a b.txt"
        put(path, old)
        if old != new:
            applied(written(FileChange(str(path), old, new)), path.parent)
        assert path.read_bytes() == new.encode()


@needs_git
def test_git_adds_deletes_moves_and_copies(tmp_path: Path) -> None:
    old, new, gone, copy = (tmp_path / name for name in ('ü"\\.txt', "new", "gone", "copy"))
    put(old, "one\ntwo\nthree\nfour\nfive\n")
    put(gone, "x")
    changes = [
        FileChange(str(tmp_path / "added"), None, "hi"),
        FileChange(str(gone), "x", None),
        FileChange(str(copy), old.read_text(), old.read_text(), operation="copy", old_path=str(old)),
        FileChange(str(new), old.read_text(), old.read_text() + "six\n", operation="move", old_path=str(old)),
    ]
    applied("".join(written(change) for change in changes), tmp_path)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "added": "hi",
        "copy": "one\ntwo\nthree\nfour\nfive\n",
        "new": "one\ntwo\nthree\nfour\nfive\nsix\n",
    }


@needs_git
def test_the_texts_of_what_git_writes_can_be_read(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    put(old, "a\nb\nc")
    put(new, "a\nx\nc\n")
    command = ["git", "diff", "--no-index", "--no-prefix", str(old), str(new)]
    patch = subprocess.run(command, capture_output=True, text=True, check=False).stdout

    assert texts_of_patch(patch) == ("a\nb\nc", "a\nx\nc\n")


@given(old=texts, new=texts)
def test_a_short_text_is_read_back_from_its_patch(old: str, new: str) -> None:
    short_old, short_new = old[:12], new[:12]
    patch = written(FileChange("/a", short_old, short_new))
    expected = (None, None) if short_old == short_new else (short_old, short_new)
    changed = texts_of_patch(patch)

    if max(short_old.count("\n"), short_new.count("\n")) < 4:  # what is farther from a change is not shown
        assert changed == expected
    assert texts_of_patch(written(FileChange("/a", None, new))) == (None, new)
    assert texts_of_patch(written(FileChange("/a", old, None))) == (old, None)


@pytest.mark.parametrize(
    "change",
    [
        FileChange("/a", operation="add"),
        FileChange("/a", operation="delete"),
        FileChange("/a", "x", None, operation="modify"),
        FileChange("/a", operation="move", old_path="/b"),
        FileChange("/a", None, "x", file_type="binary"),
        FileChange("/a", None, "x", file_type="directory"),
        FileChange("/a", "x", "y", operation="_merge"),
        FileChange("/a", "x", "y", other={"operation": "_merge"}),
    ],
)
def test_a_change_without_texts_has_no_patch(change: FileChange) -> None:
    assert git_patch(change) is None


def test_a_link_has_the_mode_of_one_and_a_moved_file_says_how_much_is_left_of_it() -> None:
    assert "new file mode 120000\n" in written(FileChange("/l", None, "/target", file_type="symlink"))
    moved = written(FileChange("/n", "a\nb\n", "a\nc\n", operation="move", old_path="/o"))
    assert "similarity index 50%\nrename from /o\nrename to /n\n--- /o\n+++ /n\n" in moved


@pytest.mark.parametrize(
    ("path", "name", "rawly"),
    [
        ("/plain path", "/plain path", "/plain path"),
        ("/ü", '"/\\303\\274"', "/ü"),
        ('/a"\\\t\x01', '"/a\\"\\\\\\t\\001"', '"/a\\"\\\\\\t\\001"'),
    ],
)
def test_unusual_paths_are_quoted_as_git_quotes_them(path: str, name: str, rawly: str) -> None:
    assert (quoted(path), quoted(path, all_bytes=False)) == (name, rawly)


@pytest.mark.parametrize(
    "patch",
    [
        "diff --git /a /a\nold mode 100644\nnew mode 100755\n",
        "diff --git /a /a\nnew file mode 100644\nGIT binary patch\nliteral 1\n",
        "diff --git /a /a\nBinary files /a and /a differ\n",
    ],
)
def test_a_patch_that_shows_no_text_has_none(patch: str) -> None:
    assert texts_of_patch(patch) == (None, None)


def test_an_added_empty_file_is_empty_and_a_hunk_ends_by_its_length() -> None:
    assert texts_of_patch("diff --git /a /a\nnew file mode 100644\n") == (None, "")
    hunk = "@@ -1,2 +1 @@ def f():\n-a\n\n#noise\n-- b\n"
    assert texts_of_patch(hunk) == ("a\n\n", "\n")


def test_changes_of_one_file_have_a_section_each() -> None:
    first, second, third = (f"diff --git /a /a\n@@ -1 +1 @@\n-{n}\n+{n}{n}\n" for n in "123")
    changes = [FileChange("/a"), FileChange("/b"), FileChange("/a")]

    assert split_patch(first + second + third, changes) == [first + third, None, second]


def test_no_part_of_a_patch_is_lost() -> None:
    changes = [FileChange("/a"), FileChange("/ü", old_path="/o"), FileChange("/c")]
    section = "diff --git /o /ü\nrename from /o\n"
    stray = "diff --git /x /x\n"

    assert split_patch(f"before\n{section}{stray}", changes) == ["before\n", section + stray, None]
    assert split_patch("", changes) == ["", None, None]
    assert split_patch('diff --git /o "/\\303\\274"\n', changes)[1] is not None
