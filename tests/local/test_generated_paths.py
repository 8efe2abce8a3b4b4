"""Thousands of random paths through a tree full of links: we read what the kernel would, where it stays inside."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.errors import InvalidParams, RequestError, ResourceNotFound
from duologue.local.files import Roots
from tests.local.sandbox import CANARY, Sandbox

PATHS = 10_000

PARTS = [
    "..",
    "..",
    ".",
    "",
    "a",
    "a/b",
    "a/b/deep",
    "sub",
    "in",
    "out",
    "up",
    "abs-in",
    "abs-out",
    "to-root",
    "to-home",
    "abs-home",
]
ODD = [
    *("root", "outside", "secret", "file", "loop", "dangling", "fifo", "new", "x" * 255, "x" * 256),
    *("é", "e\u0301", "\u202e", "\udcff", "\u2215", "%2e%2e", "..\u200b", " ", "\n"),
]
ENDS = ["file", "file", "secret", "sub/file", "é", "root/file", "outside/secret", "new", "fifo", ""]


def random_path(root: Path, draw: random.Random) -> str:
    """Through links and `..`, mostly along what exists, and out of it now and then."""
    parts = [draw.choice(ODD if draw.random() < 0.1 else PARTS) for _ in range(draw.randint(0, 8))]
    return "/".join([str(root), *parts, draw.choice(ENDS)])


def plant(sandbox: Sandbox) -> None:
    deep = sandbox.root / "a" / "b" / "deep"
    deep.mkdir(parents=True)
    (deep / "file").write_text("deep\n")
    (sandbox.root / "é").write_text("odd\n")
    os.mkfifo(sandbox.root / "fifo")
    for directory in (sandbox.root, sandbox.root / "a", deep):
        up = os.path.relpath(sandbox.root, directory)
        for name, target in {
            "in": f"{up}/sub",
            "out": f"{up}/../outside",
            "up": "..",
            "loop": "loop",
            "dangling": f"{up}/nowhere/at/all",
            "abs-in": f"{sandbox.root}/a",
            "abs-out": str(sandbox.outside),
            "to-root": f"{up}/../root",
            "to-home": f"{up}/..",
            "abs-home": str(sandbox.home),
        }.items():
            (directory / name).symlink_to(target)


def as_the_kernel_reads(path: str, root: Path) -> str | type[RequestError]:
    """Return the expected text or error: what the kernel opens, but only inside the roots."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return ResourceNotFound
    except (OSError, ValueError):
        return InvalidParams
    try:
        real = Path(f"/proc/self/fd/{fd}").readlink()
        is_ours = real.is_relative_to(root) and real.is_file() and not _passes_outside(path, root)
        return real.read_text() if is_ours else InvalidParams
    finally:
        os.close(fd)


def _passes_outside(path: str, root: Path) -> bool:
    """Return True if the path leads through a directory that is neither inside nor a parent of the roots."""
    parts = path.split("/")
    prefixes = (Path(os.path.realpath("/".join(parts[:n]) or "/")) for n in range(1, len(parts) + 1))
    return not all(prefix.is_relative_to(root) or root.is_relative_to(prefix) for prefix in prefixes)


def as_we_read(roots: Roots, path: str) -> str | type[RequestError]:
    try:
        return roots.read_text(path)
    except RequestError as error:
        return type(error)


@pytest.mark.fault("FSB-23")
def test_generated_paths_lead_where_the_kernel_goes_and_never_outside(
    sandbox: Sandbox, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    seed = random.randrange(2**32)
    count = PATHS * chaos_factor
    record_property("count", count)
    plant(sandbox)
    draw = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(count):
        path = random_path(sandbox.root, draw)
        ours = as_we_read(sandbox.roots, path)
        kernels = as_the_kernel_reads(path, sandbox.root)
        # A missing file outside is reported as outside: the error must not reveal whether it exists.
        assert ours == kernels or (ours, kernels) == (InvalidParams, ResourceNotFound), (seed, path)
        assert ours != CANARY
        seen[ours if isinstance(ours, str) else ours.__name__] += 1

    assert set(seen) == {"inside\n", "inside sub\n", "deep\n", "odd\n", "InvalidParams", "ResourceNotFound"}, seed
    assert min(seen.values()) > 10, seed


@pytest.mark.fault("FSB-23")
def test_writing_to_generated_paths_changes_nothing_outside(
    sandbox: Sandbox, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    count = PATHS // 10 * chaos_factor
    record_property("count", count)
    plant(sandbox)
    written = 0
    for _ in range(count):
        path = random_path(sandbox.root, random.Random())
        try:
            sandbox.roots.write_text(path, "new")
        except RequestError:
            continue
        written += 1
        assert Path(path).resolve().is_relative_to(sandbox.root)
        assert Path(path).read_text() == "new"

    assert written > 10
