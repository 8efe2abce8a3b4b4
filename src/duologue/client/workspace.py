"""The files an agent reads and writes through us: those of its session, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from duologue.errors import InvalidRequest
from duologue.local.files import Roots

__all__ = ["Workspace"]


class Workspace:
    """Files beneath directories."""

    def __init__(
        self, *roots: str | Path, read_only: bool = False, missing: Literal["error", "empty"] = "error"
    ) -> None:
        self.is_read_only = read_only
        self._own = [str(Path(root).resolve()) for root in roots]
        self._missing: Literal["error", "empty"] = missing
        self._sessions: dict[str, Roots] = {}

    def open_session(self, session_id: str, roots: Sequence[str]) -> None:
        """A session may use these directories, as far as they lie in ours."""
        self.close_session(session_id)
        usable = [place for root in roots for place in self._common(root) if Path(place).is_dir()]
        self._sessions[session_id] = Roots(usable, missing=self._missing)

    def close_session(self, session_id: str) -> None:
        """The session is over."""
        if (roots := self._sessions.pop(session_id, None)) is not None:
            roots.close()

    async def read(self, session_id: str, path: str, *, line: int | None, limit: int | None) -> str:
        """The text of a file."""
        return await asyncio.to_thread(self._roots(session_id).read_text, path, line=line, limit=limit)

    async def write(self, session_id: str, path: str, text: str) -> None:
        """Make `text` the content of a file."""
        if self.is_read_only:
            raise InvalidRequest("nothing is written here: the workspace is read-only")
        await asyncio.to_thread(self._roots(session_id).write_text, path, text)

    def _roots(self, session_id: str) -> Roots:
        return self._sessions.get(session_id) or Roots([])

    def _common(self, root: str) -> list[str]:
        """What lies both in a session's directory and in one of ours."""
        real = Path(root).resolve()
        if not self._own:
            return [root]
        inside = [root for own in self._own if real.is_relative_to(own)]
        return inside[:1] or [own for own in self._own if Path(own).is_relative_to(real)]
