"""Find files and text in the session's directories, without hidden files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from duologue.errors import RequestError
from duologue.local.files import Roots

MAX_SEARCHED = 5_000
"""Files that are searched, so that a search ends soon."""

NOT_SEARCHED = {"node_modules", "__pycache__"}
"""Directories of generated or installed files."""


@dataclass(frozen=True)
class Found:
    """A line that contains the word; lines count from 1."""

    path: Path
    line: int
    text: str


def find_files(directories: list[str]) -> Iterator[Path]:
    """Yield the files in these directories, sorted by name; links are not followed."""
    for directory in directories:
        for parent, inner, names in os.walk(directory):
            inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in NOT_SEARCHED)
            for name in sorted(names):
                path = Path(parent, name)
                if not name.startswith(".") and path.is_file() and not path.is_symlink():
                    yield path


def find_text(directories: list[str], word: str, most: int) -> list[Found]:
    """Return the first `most` lines that contain the word; files that are not text are skipped."""
    with closing(Roots(directories)) as roots:
        return list(islice(_matches(roots, directories, word), most))


def _matches(roots: Roots, directories: list[str], word: str) -> Iterator[Found]:
    for path in islice(find_files(directories), MAX_SEARCHED):
        with suppress(RequestError):
            for number, line in enumerate(roots.read_text(path).split("\n"), 1):
                if word in line:
                    yield Found(path, number, line)
