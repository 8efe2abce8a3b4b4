"""Copies of files from before a turn changed them, next to the stored sessions, and their restoration.

Each turn that changes files has a directory with the copies and `changes.json`, which says its version. A file that is
no longer what the turn left is not touched. Git is neither needed nor used.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from pathlib import Path

import msgspec
from msgspec import Struct
from pydantic_ai.workspaces import Workspace

from duologue.private_files import make_private_directory, replace_private_file
from duologue.store.sqlite.store import SqliteStore

VERSION = 1
MOST_TURNS = 50
"""Turns of a session whose copies are kept; of older ones they are deleted."""


class ChangedFile(Struct):
    """A file that a turn changed: the name of its copy, and the digest of what the turn left; `None` is no file."""

    path: str
    copy: str | None
    after: str | None


class TurnChanges(Struct):
    """The content of `changes.json`."""

    version: int = VERSION
    files: list[ChangedFile] = []


class CodeStore(SqliteStore):
    """The sessions of a data directory; with a session, the copies of its turns are deleted."""

    def __init__(self, data: Path) -> None:
        super().__init__(data / "sessions")

    async def delete(self, session_id: str) -> None:
        await super().delete(session_id)
        await asyncio.to_thread(shutil.rmtree, self.copies(session_id), ignore_errors=True)

    def copies(self, session_id: str) -> Path:
        """Return the directory of a session's copies; a client can name any session, so its name is a digest."""
        return self.directory.parent / "undo" / str(digest_of(session_id.encode()))


class TurnCopies:
    """Copies of the files of one turn, in the session's directory of copies; made with the first of them."""

    def __init__(self, session: Path) -> None:
        self._session = session
        self._folder = session / f"{time.time_ns():020d}"
        self._changes = TurnChanges()

    def record(self, path: str, before: bytes | None, after: bytes | None) -> None:
        """Keep what a file was before its first change in this turn; call it before each change.

        Raises:
            OSError: The copy cannot be written.
        """
        files = self._changes.files
        if not files:
            self._make_folder()
        known = next((each for each in files if each.path == path), None)
        if known is not None:
            known.after = digest_of(after)
        else:
            copy = None if before is None else str(len(files))
            if copy is not None and before is not None:
                replace_private_file(self._folder / copy, before)
            files.append(ChangedFile(path, copy, digest_of(after)))
        replace_private_file(self._folder / "changes.json", msgspec.json.encode(self._changes))

    def _make_folder(self) -> None:
        for each in (self._session.parent, self._session, self._folder):
            make_private_directory(each)
        for old in _turns(self._session)[:-MOST_TURNS]:
            shutil.rmtree(old, ignore_errors=True)


async def undo_last_turn(session: Path, workspace: Workspace) -> tuple[list[str], list[str]]:
    """Restore the files of the last turn that changed any; return those restored and those refused.

    Raises:
        LookupError: No turn has changed files, or all of them are undone.
        ValueError: The copies are of a newer version, or damaged.
    """
    turns = _turns(session)
    if not turns:
        raise LookupError("no turn of this session has changed files that can be restored")
    last = turns[-1]
    changes = _read(last / "changes.json")
    restored: list[str] = []
    refused: list[str] = []
    for file in sorted(changes.files, key=lambda each: each.path):
        if digest_of(await read_or_none(workspace, file.path)) != file.after:
            refused.append(file.path)
            continue
        if file.copy is None:
            await workspace.remove(file.path)
        else:
            await workspace.write_bytes(file.path, (last / Path(file.copy).name).read_bytes())
        restored.append(file.path)
    shutil.rmtree(last)
    return restored, refused


async def read_or_none(workspace: Workspace, path: str) -> bytes | None:
    """Return the content of a file, or `None` if there is none."""
    try:
        return await workspace.read_bytes(path)
    except FileNotFoundError:
        return None


def digest_of(content: bytes | None) -> str | None:
    """Return the digest of the content of a file."""
    return None if content is None else hashlib.sha256(content).hexdigest()


def _turns(session: Path) -> list[Path]:
    return sorted(each.parent for each in session.glob("*/changes.json"))


def _read(path: Path) -> TurnChanges:
    try:
        changes = msgspec.json.decode(path.read_bytes(), type=TurnChanges)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if changes.version > VERSION:
        raise ValueError(f"{path} has version {changes.version}; this program reads versions up to {VERSION}")
    return changes
