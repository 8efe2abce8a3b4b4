"""Find out which files of a project were saved.

The files are looked at again and again: `watchfiles`, which the field uses, is a compiled package with a dependency of
its own that only one command would need. Waiting is 20 times as long as looking, so that a large project costs little.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TypeAlias

POLL_SECONDS = 0.25
"""Shortest time between two looks."""

IDLE_FACTOR = 20
"""How many times as long as looking takes to wait until the next look."""

MOST_ENTRIES = 20_000
"""Entries of directories that are looked at; the ones nearest to the root come first."""

MOST_SETTLING = 20
"""Looks that still find other changes, as during a checkout, before the changes are reported."""

_SKIPPED = ("__pycache__", "node_modules", "site-packages")

Fingerprints: TypeAlias = dict[str, tuple[int, int, int]]
"""Each file with its time of modification, size and inode, which an atomic save changes."""


class FileWatcher:
    """Watches files by name, and all Python files below directories.

    Hidden directories, virtual environments and installed packages are left out, links are not followed.

    Attributes:
        files: The files as they were when they were last looked at.
        is_complete: False if there are more entries than are looked at.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        self.is_complete = True
        self._pause = POLL_SECONDS
        self.files = self.look()

    def look(self) -> Fingerprints:
        """Return the files as they are now."""
        found: Fingerprints = {}
        directories = deque[str]()
        for path in self._paths:
            if path.is_dir():
                directories.append(str(path))
            else:
                _add(found, str(path))
        left = MOST_ENTRIES
        while directories and left > 0:
            left -= self._look_into(directories.popleft(), directories, found, left)
        self.is_complete = left > 0
        return found

    def _look_into(self, directory: str, directories: deque[str], found: Fingerprints, most: int) -> int:
        """Add the files of one directory, and the directories in it to those that follow; return how many it has."""
        inner: list[str] = []
        count = 0
        try:
            with os.scandir(directory) as entries:
                for count, entry in enumerate(entries, 1):
                    if entry.name == "pyvenv.cfg" or count >= most:
                        return count
                    if entry.is_dir(follow_symlinks=False):
                        if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                            inner.append(entry.path)
                    elif entry.name.endswith(".py"):
                        _add(found, entry.path)
        except OSError:  # it was removed, or cannot be read
            return count
        directories.extend(inner)
        return count

    async def changes(self) -> AsyncGenerator[list[Path]]:
        """Yield the files that were saved, made or removed since the last look, once they have settled.

        A file that an editor replaces is missing for a moment, so a change waits for a look that finds no other.
        """
        while True:
            before, found = self.files, await self._next_look()
            for _ in range(MOST_SETTLING):
                if found == self.files:
                    break
                self.files, found = found, await self._next_look()
            self.files = found
            changed = sorted(path for path in before.keys() | found.keys() if before.get(path) != found.get(path))
            if changed:
                yield [Path(path) for path in changed]

    async def _next_look(self) -> Fingerprints:
        await asyncio.sleep(self._pause)
        began = time.monotonic()
        found = await asyncio.to_thread(self.look)
        self._pause = max(POLL_SECONDS, IDLE_FACTOR * (time.monotonic() - began))
        return found


def _add(found: Fingerprints, path: str) -> None:
    try:
        state = Path(path).stat()
    except OSError:  # it does not exist (now)
        return
    found[path] = (state.st_mtime_ns, state.st_size, state.st_ino)
