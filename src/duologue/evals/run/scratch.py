"""The directories of one attempt: workspace, home and temporary files, all new and all removed afterwards.

They lie outside of the run directory, which has what an agent must not see. A link in the attempt's directory names
them, so that those of a killed run are found and removed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from duologue.evals.record.attempt import LINK
from duologue.private_files import DIRECTORY_MODE

P = ParamSpec("P")
T = TypeVar("T")

PREFIX = "duologue-trial-"
_NAME = re.compile(rf"{PREFIX}[0-9a-f]{{16}}")

CONFIG_DIRECTORIES = {"CODEX_HOME": ".codex", "CLAUDE_CONFIG_DIR": ".claude"}
"""Variables with which known agents find their settings, and the directory below HOME that each gets."""

XDG = {"CONFIG": ".config", "DATA": ".local/share", "STATE": ".local/state", "CACHE": ".cache"}

MOST_WRITES = 1000
"""Files outside of the workspace that are listed."""


class Scratch:
    """The directories of one attempt.

    Attributes:
        root: Directory of all of them.
        workspace: Working directory of the agent.
        home: HOME of the agent.
        temporary: TMPDIR of the agent.
        repository: Git data that the patch is taken with; the agent does not know it.
        report: File for the names of processes that the agent left behind.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.temporary = root / "tmp"
        self.runtime = root / "runtime"
        self.repository = root / "base.git"
        self.report = root / "processes"
        self._known: dict[Path, tuple[int, ...]] = {}

    @classmethod
    def create(cls, attempt: Path) -> Scratch:
        """Make the directories for an attempt, whose directory gets a link to them first.

        Raises:
            OSError: They cannot be made.
        """
        root = Path(tempfile.gettempdir()).resolve() / f"{PREFIX}{os.urandom(8).hex()}"
        (attempt / LINK).symlink_to(root)
        return cls(root)._made()

    def create_below(self, name: str) -> Scratch:
        """Make the same directories for another agent of the attempt; they are removed with these.

        Raises:
            OSError: They cannot be made.
        """
        return Scratch(self.root / name)._made()

    def _made(self) -> Scratch:
        for directory in (self.root, self.workspace, self.home, self.temporary, self.runtime):
            directory.mkdir(mode=DIRECTORY_MODE)
        for name in (*CONFIG_DIRECTORIES.values(), *XDG.values()):
            (self.home / name).mkdir(parents=True)
        return self

    def environment(self) -> dict[str, str]:
        """Return the variables that lead programs to these directories."""
        directories = {
            "HOME": self.home,
            **{f"XDG_{name}_HOME": self.home / path for name, path in XDG.items()},
            "XDG_RUNTIME_DIR": self.runtime,
            **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), self.temporary),
            **{name: self.home / path for name, path in CONFIG_DIRECTORIES.items()},
        }
        return {name: str(path) for name, path in directories.items()}

    def note_files(self) -> None:
        """Note the files that are there now: only what is written or replaced later is listed."""
        self._known = {path: _state(path) for _, path in self._files()}

    def writes(self) -> list[str]:
        """Return the files in HOME and in the temporary directories that the agent wrote."""
        found = sorted(name for name, path in self._files() if self._known.get(path) != _state(path))
        more = len(found) - MOST_WRITES
        return [*found[:MOST_WRITES], *([f"and {more:,} more"] if more > 0 else [])]

    def left_processes(self) -> list[str]:
        """Return the command lines of the processes that the agent left behind."""
        try:
            with self.report.open("rb") as file:
                return file.read(1 << 20).decode("utf-8", "replace").splitlines()
        except OSError:
            return []

    def remove(self) -> None:
        """Remove everything, whatever the agent did to its permissions."""
        remove_tree(self.root)

    def _files(self) -> Iterator[tuple[str, Path]]:
        for label, directory in (("HOME", self.home), ("TMPDIR", self.temporary), ("XDG_RUNTIME_DIR", self.runtime)):
            for folder, _, names in os.walk(directory):
                for name in names:
                    path = Path(folder, name)
                    # A name may have bytes that are not UTF-8; JSON cannot have them.
                    shown = os.fsencode(path.relative_to(directory)).decode("utf-8", "backslashreplace")
                    yield f"{label}/{shown}", path


def _state(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written or replaced."""
    try:
        found = path.lstat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def remove_linked(attempt: Path) -> None:
    """Remove the directories of an attempt whose process is gone."""
    link = attempt / LINK
    if not link.is_symlink():
        return
    root = link.readlink()
    # The link is in a directory that only its owner may write; still, nothing but a directory of ours is removed.
    # TMPDIR may have been another one when it was made.
    with suppress(FileNotFoundError):
        if _NAME.fullmatch(root.name) and root.is_absolute() and root.lstat().st_uid == os.getuid():
            remove_tree(root)


def remove_tree(root: Path) -> None:
    """Remove a directory with everything in it, also what may not be read or written."""
    if not root.is_dir() or root.is_symlink():
        return
    make_accessible(root)
    shutil.rmtree(root, ignore_errors=True)


def make_accessible(root: Path) -> None:
    """Let the owner enter, read and write all directories below this one, and read all files."""
    for folder, folders, names in os.walk(root):
        for name in folders:
            path = Path(folder, name)
            if not path.is_symlink() and path.stat().st_mode & DIRECTORY_MODE != DIRECTORY_MODE:
                path.chmod(path.stat().st_mode | DIRECTORY_MODE)
        for name in names:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and not mode & stat.S_IRUSR:
                path.chmod(mode | stat.S_IRUSR)


async def finish(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread; if this wait is cancelled, wait for its end all the same."""
    call = asyncio.get_running_loop().run_in_executor(None, lambda: function(*args, **kwargs))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise
