"""The files an agent reads and writes through us: those of its session's directories, and no others.

What is judged is what is opened: `locate` says where a path really leads, and `read` and `write` refuse it if it leads
elsewhere by then. Text that an editor has not saved yet is read instead of the file, and is never lost to a write that
did not know of it.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, Self, TypeAlias

from duologue.client.permissions.actions import ActionContext
from duologue.client.permissions.sensitive_paths import is_protected
from duologue.client.quirks import Quirks
from duologue.client.services.byte_budget import ByteBudget, in_own_thread
from duologue.errors import InvalidParams, InvalidRequest, RequestError, ResourceNotFound
from duologue.local.errors import quote_path
from duologue.local.files import MAX_READ_BYTES, Roots

__all__ = ["Overlay", "Workspace"]

Overlay: TypeAlias = Mapping[str, str] | Callable[[Path], str | None]
"""Unsaved text by absolute path. In a mutable mapping it is kept up to date with what agents write."""

LARGE_BYTES = 1024 * 1024
"""Files that are read in a thread of their own: the memory for them goes back to the system when it ends."""

_log = logging.getLogger("duologue.client")


@dataclass
class _Session:
    """The directories of one session, and the unsaved texts it has seen, by their digests."""

    roots: Roots
    scene: ActionContext
    seen: dict[str, str] = field(default_factory=dict[str, str])


class Workspace:
    """Files for agents, confined to directories.

    Args:
        roots: Nothing outside these is touched, whatever a session says; without any, its own directories count.
        read_only: Whether writing is not offered at all.
        missing: What reading a missing file gives: an error, or an empty text, which some agents need to create one;
            if not given, what the agent is known to need.
        overlay: Unsaved text of an editor.
        on_read: Is awaited with the path before a file is read; `False`, or an exception, forbids it.
        on_write: The same before a file is written, with the new text.
        on_written: Is called after a file was written, so that an editor can show it.
        max_read_bytes: Most text of one read.
        allow_hard_links: Whether a file may be written that has other names, which may lie outside.
        follow_mounts: Whether other file systems mounted inside belong to a directory.
    """

    def __init__(
        self,
        *roots: str | Path,
        read_only: bool = False,
        missing: Literal["error", "empty"] | None = None,
        overlay: Overlay | None = None,
        on_read: Callable[[Path], Awaitable[bool | None]] | None = None,
        on_write: Callable[[Path, str], Awaitable[bool | None]] | None = None,
        on_written: Callable[[Path, str], None] | None = None,
        max_read_bytes: int = MAX_READ_BYTES,
        allow_hard_links: bool = False,
        follow_mounts: bool = True,
    ) -> None:
        self.is_read_only = read_only
        self._own = [Path(root).resolve() for root in roots]
        self._missing: Literal["error", "empty"] | None = missing
        self._needs = Quirks()
        self._buffers: Mapping[str, str] = overlay if isinstance(overlay, Mapping) else {}
        self._find_buffer = None if overlay is None or isinstance(overlay, Mapping) else overlay
        self._on_read = on_read
        self._on_write = on_write
        self._on_written = on_written
        self._max_read_bytes = max_read_bytes
        self._allow_hard_links = allow_hard_links
        self._follow_mounts = follow_mounts
        self._sessions: dict[str, _Session] = {}

    def for_agent(self) -> Self:
        """The same for one agent more, with sessions of its own: agents choose the ids, and may choose the same."""
        other = copy.copy(self)
        other._sessions = {}
        return other

    def suit(self, quirks: Quirks) -> None:
        """Do for sessions opened from now on what the agent is known to need, unless this workspace says otherwise."""
        self._needs = quirks

    # --- sessions

    def open_session(self, session_id: str, roots: Sequence[str]) -> None:
        """A session may use these directories, as far as they lie in ours; what is no directory here is left out."""
        self.close_session(session_id)
        usable = [str(place) for root in roots for place in self._common(Path(root)) if place.is_dir()]
        opened = Roots(
            list(dict.fromkeys(usable)),
            allow_hard_links=self._allow_hard_links,
            follow_mounts=self._follow_mounts,
            max_read_bytes=self._max_read_bytes,
            missing=self._missing or self._needs.missing,
        )
        scene = ActionContext(session_id, "", tuple(str(Path(place).resolve()) for place in usable))
        self._sessions[session_id] = _Session(opened, scene)

    def close_session(self, session_id: str) -> None:
        """The session is over; its directories are let go."""
        if (session := self._sessions.pop(session_id, None)) is not None:
            session.roots.close()

    def _common(self, root: Path) -> list[Path]:
        """What lies both in a session's directory and in one of ours."""
        if not root.is_absolute():
            return []
        real = root.resolve()
        if not self._own or any(real.is_relative_to(own) for own in self._own):
            return [root]
        return [own for own in self._own if own.is_relative_to(real)]

    def _session(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise ResourceNotFound("no such session here")
        return session

    # --- files

    async def resolve(self, session_id: str, path: str) -> str:
        """Where a path really leads, without links; there need not be a file yet.

        Raises:
            InvalidParams: Outside the session's directories.
            ResourceNotFound: It leads through what does not exist, or there is no such session.
        """
        return await asyncio.to_thread(self._session(session_id).roots.resolve, path)

    async def read(
        self,
        session_id: str,
        path: str,
        *,
        line: int | None = None,
        limit: int | None = None,
        resolved: str | None = None,
        allowance: ByteBudget | None = None,
    ) -> str:
        """The text of a file, or the unsaved text of the editor, from `line` (1 is the first) at most `limit` lines.

        Args:
            session_id: Whose directories count.
            path: Absolute.
            line: First line to return; past the end there is no text.
            limit: Most lines to return.
            resolved: Where `locate` said that it leads, if that was asked and judged.
            allowance: What the texts that are read at once may take together; this one waits until there is room.

        Raises:
            ResourceNotFound: There is no such file, or no such session.
            InvalidParams: Outside, not a text, too long, or not ours to read.
            InvalidRequest: Forbidden by `on_read`.
        """
        session = self._session(session_id)
        place = resolved or await self.resolve(session_id, path)
        if self._on_read is not None:
            await _permit(self._on_read(Path(place)))
        with _told_as(path, place):
            text = self._unsaved(path, place)
            size = await self._size(session, place) if text is None else len(text) * 4
            if allowance is not None:
                await allowance.acquire(min(size, self._max_read_bytes))
            if text is None:
                read = partial(session.roots.read_text, place, line=line, limit=limit, is_resolved=True)
                return await (asyncio.to_thread(read) if size <= LARGE_BYTES else in_own_thread(read))
            session.seen[place] = _digest(text)
            return _lines(text, line, limit, place, self._max_read_bytes)

    async def _size(self, session: _Session, place: str) -> int:
        try:
            return (await asyncio.to_thread(session.roots.stat, place)).st_size
        except RequestError:
            return 0  # reading it says why

    async def write(
        self, session_id: str, path: str, text: str, *, resolved: str | None = None, even_protected: bool = False
    ) -> None:
        """Make `text` the whole content of a file, at once or not at all; missing directories are made.

        Args:
            session_id: Whose directories count.
            path: Absolute.
            text: What it will hold.
            resolved: Where `locate` said that it leads, if that was asked and judged.
            even_protected: Whether it may be a file that other programs act on, such as a hook or a setting.

        Raises:
            InvalidParams: Outside, not a plain file, or not ours to write.
            InvalidRequest: Read-only, protected, forbidden by `on_write`, or unsaved text stands in its way.
            ResourceNotFound: There is no such session.
        """
        if self.is_read_only:
            raise InvalidRequest("nothing is written here: the workspace is read-only")
        session = self._session(session_id)
        place = resolved or await self.resolve(session_id, path)
        if not even_protected and is_protected(session.scene.beneath(place) or place):
            raise InvalidRequest(
                f"{quote_path(path)}: other programs act on this file; it needs a permission of its own"
            )
        if self._on_write is not None:
            await _permit(self._on_write(Path(place), text))
        known = self._unsaved(path, place)
        if known is not None and session.seen.get(place) != _digest(known):
            raise InvalidRequest(f"{quote_path(path)}: it has unsaved changes that were not read; read it again")
        with _told_as(path, place):
            await asyncio.to_thread(session.roots.write_text, place, text, even_protected=True, is_resolved=True)
        self._show_written(session, path, place, text, known)

    def _show_written(self, session: _Session, path: str, place: str, text: str, known: str | None) -> None:
        # What somebody typed while the file was written stays; the editor knows that the file is another now.
        if known is not None and self._unsaved(path, place) == known and isinstance(self._buffers, MutableMapping):
            self._buffers[place if place in self._buffers else path] = text
            session.seen[place] = _digest(text)
        if self._on_written is not None:
            try:
                self._on_written(Path(place), text)
            except Exception:
                _log.exception("on_written failed; the file is written all the same")

    def _unsaved(self, path: str, place: str) -> str | None:
        if self._find_buffer is not None:
            return self._find_buffer(Path(place))
        return self._buffers.get(place, self._buffers.get(path))


async def _permit(answer: Awaitable[bool | None]) -> None:
    try:
        is_fine = await answer
    except RequestError:
        raise
    except Exception as error:
        _log.exception("a hook of the workspace failed, which is a refusal")
        raise InvalidRequest("not permitted by the client") from error
    if is_fine is False:
        raise InvalidRequest("not permitted by the client")


@contextmanager
def _told_as(path: str, place: str) -> Generator[None]:
    """Speak of the path that was asked for, not of where it leads."""
    try:
        yield
    except RequestError as error:
        if path != place:
            error.message = error.message.replace(quote_path(place), quote_path(path))
            error.args = (error.message,)
            error.data = {"uri": Path(path).as_uri()} if isinstance(error, ResourceNotFound) else error.data
        raise


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _lines(text: str, line: int | None, limit: int | None, place: str, most_bytes: int) -> str:
    """The same lines that a read of a file with this text would give."""
    if (line or 0) < 0 or (limit or 0) < 0:
        raise InvalidParams("line and limit count lines: they cannot be negative")
    first = max(line or 1, 1) - 1
    parts = text.split("\n")
    lines = [*(f"{part}\n" for part in parts[:-1]), *parts[-1:]]
    chosen = "".join(lines[first:] if limit is None else lines[first : first + limit])
    if len(chosen.encode("utf-8", "surrogatepass")) > most_bytes:
        raise InvalidParams(f"{quote_path(place)}: longer than the limit of {most_bytes} bytes; ask for fewer lines")
    return chosen
