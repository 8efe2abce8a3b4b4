"""Another process changes the tree while we work in it; nothing outside is ever touched."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from duologue.errors import InvalidParams
from duologue.local.files import Roots
from duologue.local.path_resolver import walk
from duologue.local.root import DIRECTORY_ONLY, Root
from tests.local.sandbox import CANARY, Sandbox
from tests.local.swapper import swapping

RACES = 10_000
MORE_RACES = 1_000_000
"""How long to repeat until each outcome was seen; the timing of the two processes is random."""


def races(at_least: int, seen: Counter[str], *outcomes: str) -> Iterator[int]:
    """So many attempts, and more until each outcome was seen ten times."""
    for n in range(at_least + MORE_RACES):
        if n >= at_least and all(seen[outcome] >= 10 for outcome in outcomes):
            return
        yield n
    raise AssertionError(f"not every outcome was seen: {seen}")


def read_after_checking(path: Path, root: Path) -> str | None:
    """Check where a path leads and then open it, which is what the code must not do."""
    with suppress(OSError):
        return path.read_text() if path.resolve().is_relative_to(root) else None
    return None


def test_checking_a_path_before_opening_it_loses_this_race(sandbox: Sandbox) -> None:
    """Shows that the tests below can fail: the swapping is fast enough to defeat a naive check."""
    (sandbox.root / "link").symlink_to("../outside")

    with swapping(sandbox.root / "sub", sandbox.root / "link"):
        seen: Counter[str] = Counter()
        for _ in races(1, seen, CANARY):
            seen[read_after_checking(sandbox.root / "sub" / "file", sandbox.root) or ""] += 1


@pytest.mark.fault("FSB-10")
def test_a_file_that_became_a_link_after_the_check_is_not_opened(sandbox: Sandbox) -> None:
    """The moment between the two, without luck: the link leads to a file inside, which the kernel would open."""
    (sandbox.root / "file").write_text("looked at")
    (sandbox.root / "other").write_text("never looked at")
    fd = os.open(sandbox.root, DIRECTORY_ONLY)
    root = Root(fd, sandbox.root.parts[1:], frozenset())
    try:
        with walk(root, ["file"], lambda path: (root, [path])) as resolved:
            (sandbox.root / "file").unlink()
            (sandbox.root / "file").symlink_to("other")
            with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
                resolved.open(os.O_RDONLY)
    finally:
        os.close(fd)


@pytest.mark.fault("FSB-10")
@pytest.mark.parametrize("target", ["../outside", "{outside}"], ids=["relative", "absolute"])
def test_a_directory_swapped_for_a_link_never_leads_outside(
    sandbox: Sandbox, target: str, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    record_property("count", RACES * chaos_factor)
    (sandbox.root / "link").symlink_to(target.format(outside=sandbox.outside))
    path = sandbox.root / "sub" / "file"
    seen: Counter[str] = Counter()

    with swapping(sandbox.root / "sub", sandbox.root / "link"):
        for n in races(RACES * chaos_factor, seen, "inside sub\n", "written", "outside"):
            try:
                if n % 20:
                    seen[sandbox.roots.read_text(path)] += 1
                else:
                    sandbox.roots.write_text(path, "inside sub\n")
                    seen["written"] += 1
            except InvalidParams as error:
                assert "outside the directories" in str(error)
                seen["outside"] += 1

    assert set(seen) == {"inside sub\n", "written", "outside"}


@pytest.mark.fault("FSB-10")
def test_new_directories_are_never_made_outside(sandbox: Sandbox, chaos_factor: int) -> None:
    (sandbox.root / "link").symlink_to("../outside")

    with swapping(sandbox.root / "sub", sandbox.root / "link"):
        for n in range(500 * chaos_factor):
            try:
                sandbox.roots.write_text(sandbox.root / "sub" / f"new{n % 50}" / "deep" / str(n), "")
            except InvalidParams:
                continue


@pytest.mark.fault("FSB-11")
def test_a_file_swapped_for_a_link_is_never_truncated_outside(sandbox: Sandbox, chaos_factor: int) -> None:
    path = sandbox.root / "file"
    os.link(path, sandbox.root / "other name")
    (sandbox.root / "link").symlink_to("../outside/secret")
    seen: Counter[str] = Counter()

    with Roots([sandbox.root], allow_hard_links=True) as roots, swapping(path, sandbox.root / "link"):
        for _ in races(1_000 * chaos_factor, seen, "written", "refused"):
            try:
                roots.write_text(path, "new")
                seen["written"] += 1
            except InvalidParams:
                seen["refused"] += 1


@pytest.mark.fault("FSB-11")
def test_a_link_swapped_in_before_the_rename_is_replaced_and_not_followed(sandbox: Sandbox, chaos_factor: int) -> None:
    path, link = sandbox.root / "file", sandbox.root / "link"
    for _ in range(3 * chaos_factor):
        path.unlink()
        path.write_text("old")
        link.unlink(missing_ok=True)
        link.symlink_to("../outside/secret")
        seen: Counter[str] = Counter()

        # Once the link is replaced there is nothing left to swap it with.
        with swapping(path, link):
            for _ in races(10, seen, "written"):
                with suppress(InvalidParams):
                    sandbox.roots.write_text(path, "new")
                    seen["written"] += 1


@pytest.mark.fault("FSB-15")
@pytest.mark.timeout(60)
def test_a_file_swapped_for_a_fifo_never_blocks(sandbox: Sandbox, chaos_factor: int) -> None:
    path = sandbox.root / "file"
    os.link(path, sandbox.root / "other name")
    os.mkfifo(sandbox.root / "fifo")
    seen: Counter[str] = Counter()

    with Roots([sandbox.root], allow_hard_links=True) as roots, swapping(path, sandbox.root / "fifo"):
        for n in races(5_000 * chaos_factor, seen, "inside\n", "written", "a FIFO, not a text file"):
            try:
                if n % 10:
                    seen[roots.read_text(path)] += 1
                else:
                    roots.write_text(path, "inside\n")
                    seen["written"] += 1
            except InvalidParams as error:
                seen[error.message.rpartition(": ")[2]] += 1

    assert all(outcome in ("inside\n", "written") or "FIFO" in outcome for outcome in seen)
