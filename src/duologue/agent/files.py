"""Files of a session: the client's if it offers them, otherwise those on disk inside the session's roots."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duologue.agent.session import Session
    from duologue.local.files import Roots


class Files:
    """Reads and writes the files of a session. Paths are absolute, or relative to the session's directory."""

    def __init__(self, session: Session[Any]) -> None:
        self._session = session

    @property
    def _roots(self) -> Roots:
        """The session's directories on this machine, for what no client offers: listings, bytes, removal."""
        return self._session._directories.roots

    async def read(self, path: str | Path, *, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file, with unsaved changes if the client has any.

        Args:
            path: The file.
            line: The first line to read; lines count from 1.
            limit: Number of lines to read.

        Raises:
            ResourceNotFound: The file does not exist.
            InvalidParams: The file is outside the session's roots, not a text, or too large.
        """
        session = self._session
        target = str(session.cwd / path)
        if session.client_capabilities.reads_files:
            from duologue.protocol.client_requests import ReadFile

            return await session._client.ask(ReadFile(session_id=session.id, path=target, line=line, limit=limit))
        return await asyncio.to_thread(self._roots.read_text, target, line=line, limit=limit)

    async def write(self, path: str | Path, text: str) -> None:
        """Replace the text of a file; create the file and its directories if they do not exist.

        Raises:
            InvalidParams: The file is outside the session's roots, or cannot be written.
        """
        session = self._session
        target = str(session.cwd / path)
        if session.client_capabilities.writes_files:
            from duologue.protocol.client_requests import WriteFile

            await session._client.ask(WriteFile(session_id=session.id, path=target, content=text))
        else:
            await asyncio.to_thread(self._roots.write_text, target, text)
