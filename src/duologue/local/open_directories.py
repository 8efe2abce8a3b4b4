"""Directories that are open from the start of a session, for files that may never be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from duologue.local.root import CAN_CONFINE, Root, close_roots, open_root

if TYPE_CHECKING:
    from duologue.local.files import Roots


class OpenDirectories:
    """Opens directories now, and loads what reads and writes files below them when it is first used.

    Args:
        paths: The directories, as they are now.

    Raises:
        InvalidParams: A path is not absolute, or not a directory that can be opened.
        InternalError: This process has too many files open.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._opened: list[Root] = []
        self._roots: Roots | None = None
        try:
            for path in paths if CAN_CONFINE else ():
                self._opened.append(open_root(path))
        except BaseException:
            self.close()
            raise

    @property
    def roots(self) -> Roots:
        """The directories with what reads and writes below them."""
        if self._roots is None:
            from duologue.local.files import Roots

            self._roots, self._opened = Roots(self._opened), []
        return self._roots

    def close(self) -> None:
        """Close the directories after the calls in other threads have ended; reject later calls."""
        close_roots(self._opened)
        if self._roots is not None:
            self._roots.close()
