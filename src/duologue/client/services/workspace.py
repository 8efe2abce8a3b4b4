"""Files that an agent reads and writes through the client: those of its session's directories, and no others.

Exactly what was checked is opened: `resolve` returns the real path, and `read` and `write` fail if the path leads
elsewhere by then. Unsaved text of an editor is read instead of the file, and a write fails if the agent has not read
the unsaved text.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, Self, TypeAlias

from duologue.client.permissions.actions import ActionContext
from duologue.client.permissions.sensitive_paths import is_protected
from duologue.client.quirks import Quirks
from duologue.client.services.byte_budget import ByteBudget, in_own_thread
from duologue.conversation.updates import FileChange
from duologue.errors import InvalidParams, InvalidRequest, RequestError, ResourceNotFound
from duologue.local.files import MAX_READ_BYTES, Roots
from duologue.local.root import quote_path

Overlay: TypeAlias = Mapping[str, str] | Callable[[Path], str | None]
"""Unsaved text by absolute path. In a mutable mapping it is updated with what agents write."""

LARGE_BYTES = 1024 * 1024
"""Files that are read in a thread of their own: their memory returns to the system when it ends."""

_log = logging.getLogger("duologue.client")


@dataclass
class _Session:
    """The directories of one session, and digests of the unsaved texts it has read."""

    roots: Roots
    context: ActionContext
    seen: dict[str, str] = field(default_factory=dict[str, str])


class Workspace:
    """Files offered to agents, confined to directories.

    Args:
        roots: Directories outside of which nothing is read or written. Default: the session's own directories.
        read_only: Do not offer writing.
        missing: Result of reading a missing file: an error, or an empty text, which some agents need to create files.
            Default: what the agent is known to need.
        overlay: Unsaved text of an editor.
        on_read: Called with the path before a file is read; `False`, or an exception, prevents it.
        on_write: Called with the path and the new text before a file is written; `False`, or an exception, prevents it.
        on_written: Called with the path and the new text after a file was written, so that an editor can show it.
        max_read_bytes: Largest text of one read.
        allow_hard_links: Allow writing a file that has other names, which may be outside the directories.
        follow_mounts: Treat file systems that are mounted inside a directory as part of it.
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
        self._roots = [Path(root).resolve() for root in roots]
        self._missing: Literal["error", "empty"] | None = missing
        self._quirks = Quirks()
        self._buffers: Mapping[str, str] = overlay if isinstance(overlay, Mapping) else {}
        self._find_buffer = None if overlay is None or isinstance(overlay, Mapping) else overlay
        self._on_read = on_read
        self._on_write = on_write
        self._on_written = on_written
        self._max_read_bytes = max_read_bytes
        self._open_roots = partial(
            Roots, allow_hard_links=allow_hard_links, follow_mounts=follow_mounts, max_read_bytes=max_read_bytes
        )
        self._sessions: dict[str, _Session] = {}

    def for_agent(self) -> Self:
        """Return the same files for one more agent, with sessions of its own: two agents may use the same ids."""
        other = copy.copy(self)
        other._sessions = {}
        return other

    def adapt_to(self, quirks: Quirks) -> None:
        """Use the quirks of the agent for sessions opened from now on, unless the workspace sets them."""
        self._quirks = quirks

    # --- sessions

    def open_session(self, session_id: str, roots: Sequence[str]) -> None:
        """Let a session use these directories, as far as they are inside the workspace's roots and exist."""
        self.close_session(session_id)
        usable = [str(real_path) for root in roots for real_path in self._common(Path(root)) if real_path.is_dir()]
        opened = self._open_roots(list(dict.fromkeys(usable)), missing=self._missing or self._quirks.missing)
        context = ActionContext(session_id, "", tuple(str(Path(real_path).resolve()) for real_path in usable))
        self._sessions[session_id] = _Session(opened, context)

    def close_session(self, session_id: str) -> None:
        """Release the directories of a closed session."""
        if (session := self._sessions.pop(session_id, None)) is not None:
            session.roots.close()

    def _common(self, root: Path) -> list[Path]:
        """Return the directories that are both in a session's directory and in one of the roots."""
        if not root.is_absolute():
            return []
        real = root.resolve()
        if not self._roots or any(real.is_relative_to(own) for own in self._roots):
            return [root]
        return [own for own in self._roots if own.is_relative_to(real)]

    def _session(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise ResourceNotFound("no such session")
        return session

    # --- files

    async def resolve(self, session_id: str, path: str) -> str:
        """Return the real path, without links; the file need not exist.

        Raises:
            InvalidParams: The path is outside the session's directories.
            ResourceNotFound: A directory on the path, or the session, does not exist.
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
        budget: ByteBudget | None = None,
    ) -> str:
        """Return the text of a file, or its unsaved text, from `line` (the first is 1) and at most `limit` lines.

        Args:
            session_id: The session whose directories count.
            path: Absolute path.
            line: First line to return; past the end there is no text.
            limit: Largest number of lines to return.
            resolved: Result of `resolve` that was checked.
            budget: Limit of all texts that are read at the same time; this read waits until there is capacity.

        Raises:
            ResourceNotFound: The file or the session does not exist.
            InvalidParams: The file is outside, not text, too long, or not readable.
            InvalidRequest: `on_read` prevented it.
        """
        session = self._session(session_id)
        real_path = resolved or await self.resolve(session_id, path)
        if self._on_read is not None:
            await _check_hook(self._on_read(Path(real_path)))
        with _report_as(path, real_path):
            text = self._unsaved(path, real_path)
            size = await self._size(session, real_path) if text is None else len(text) * 4
            if budget is not None:
                await budget.acquire(min(size, self._max_read_bytes))
            if text is None:
                read = partial(session.roots.read_text, real_path, line=line, limit=limit, is_resolved=True)
                return await (asyncio.to_thread(read) if size <= LARGE_BYTES else in_own_thread(read))
            session.seen[real_path] = _digest(text)
            return _lines(text, line, limit, real_path, self._max_read_bytes)

    async def change_to(self, session_id: str, path: str, resolved: str, text: str) -> FileChange:
        """Return the change that writing this text would make, to show it; a file that cannot be read counts as new."""
        roots, old = self._session(session_id).roots, self._unsaved(path, resolved)
        if old is None:
            with suppress(RequestError):
                old = await in_own_thread(partial(roots.read_text, resolved, is_resolved=True))
        return FileChange(path=resolved, old_text=old, new_text=text)

    async def _size(self, session: _Session, real_path: str) -> int:
        try:
            return (await asyncio.to_thread(session.roots.stat, real_path)).st_size
        except RequestError:
            return 0  # reading it reports the error

    async def write(
        self, session_id: str, path: str, text: str, *, resolved: str | None = None, even_protected: bool = False
    ) -> None:
        """Replace the content of a file by `text`, atomically; missing directories are created.

        Args:
            session_id: The session whose directories count.
            path: Absolute path.
            text: New content.
            resolved: Result of `resolve` that was checked.
            even_protected: Allow files that other programs act on, such as hooks and settings.

        Raises:
            InvalidParams: The path is outside, not a plain file, or not writable.
            InvalidRequest: Read-only, protected, prevented by `on_write`, or the file has unsaved changes.
            ResourceNotFound: The session does not exist.
        """
        if self.is_read_only:
            raise InvalidRequest("the workspace is read-only")
        session = self._session(session_id)
        real_path = resolved or await self.resolve(session_id, path)
        if not even_protected and is_protected(session.context.relative_path(real_path) or real_path):
            raise InvalidRequest(
                f"{quote_path(path)}: other programs act on this file; writing it needs explicit permission"
            )
        if self._on_write is not None:
            await _check_hook(self._on_write(Path(real_path), text))
        known = self._unsaved(path, real_path)
        if known is not None and session.seen.get(real_path) != _digest(known):
            raise InvalidRequest(f"{quote_path(path)}: it has unsaved changes that were not read; read it again")
        with _report_as(path, real_path):
            await asyncio.to_thread(session.roots.write_text, real_path, text, even_protected=True, is_resolved=True)
        self._show_written(session, path, real_path, text, known)

    def _show_written(self, session: _Session, path: str, real_path: str, text: str, known: str | None) -> None:
        # Text that was typed while the file was written stays; `on_written` reports the new content of the file.
        if known is not None and self._unsaved(path, real_path) == known and isinstance(self._buffers, MutableMapping):
            self._buffers[real_path if real_path in self._buffers else path] = text
            session.seen[real_path] = _digest(text)
        if self._on_written is not None:
            try:
                self._on_written(Path(real_path), text)
            except Exception:
                _log.exception("on_written failed; the file was written")

    def _unsaved(self, path: str, real_path: str) -> str | None:
        if self._find_buffer is not None:
            return self._find_buffer(Path(real_path))
        return self._buffers.get(real_path, self._buffers.get(path))


async def _check_hook(result: Awaitable[bool | None]) -> None:
    try:
        is_permitted = await result
    except RequestError:
        raise
    except Exception as error:
        _log.exception("a hook of the workspace failed, so the request is rejected")
        raise InvalidRequest("not permitted by the client") from error
    if is_permitted is False:
        raise InvalidRequest("not permitted by the client")


@contextmanager
def _report_as(path: str, real_path: str) -> Generator[None]:
    """Name the path of the request in errors instead of the real path."""
    try:
        yield
    except RequestError as error:
        if path != real_path:
            error.message = error.message.replace(quote_path(real_path), quote_path(path))
            error.args = (error.message,)
            error.data = {"uri": Path(path).as_uri()} if isinstance(error, ResourceNotFound) else error.data
        raise


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _lines(text: str, line: int | None, limit: int | None, real_path: str, most_bytes: int) -> str:
    """Return the lines that a read of a file with this text would return."""
    if (line or 0) < 0 or (limit or 0) < 0:
        raise InvalidParams("line and limit count lines: they cannot be negative")
    first = max(line or 1, 1) - 1
    parts = text.split("\n")
    lines = [*(f"{part}\n" for part in parts[:-1]), *parts[-1:]]
    chosen = "".join(lines[first:] if limit is None else lines[first : first + limit])
    if len(chosen.encode("utf-8", "surrogatepass")) > most_bytes:
        raise InvalidParams(
            f"{quote_path(real_path)}: longer than the limit of {most_bytes} bytes; ask for fewer lines"
        )
    return chosen
