"""Where a person types in a chat: with line editing, history and completion, or plainly where there is none of that."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import Protocol, TypeAlias

from duologue.cli.console.line_reader import LineReader

__all__ = ["LineEditor", "Offer", "editor_for"]

Offer: TypeAlias = Callable[[str], Iterable[tuple[str, str, str]]]
"""What may stand where the cursor is, for the text before it: what to complete, with what, and what that is."""

PROMPT = "> "


class LineEditor(Protocol):
    """A place to type."""

    is_reading: bool

    async def read(self) -> str | None:
        """The next line; None when the person has left."""
        ...

    async def above(self, show: Callable[[], None]) -> None:
        """Show something while somebody may be typing."""
        ...

    def suspended(self) -> AbstractAsyncContextManager[None]:
        """A block in which something else may read what is typed."""
        ...


def editor_for(reader: LineReader, offer: Offer) -> LineEditor:
    """The best there is here."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal and os.environ.get("TERM", "dumb") != "dumb" and find_spec("prompt_toolkit") is not None:
        from duologue.cli.console.prompt_toolkit_editor import PromptToolkitEditor

        return PromptToolkitEditor(offer)
    return PlainEditor(reader)


class PlainEditor:
    """Lines as the terminal, a pipe or a file gives them."""

    def __init__(self, reader: LineReader) -> None:
        self._reader = reader
        self._prompt = PROMPT if sys.stdin.isatty() else ""
        self.is_reading = False

    async def read(self) -> str | None:
        """The next line."""
        self._ask()
        self.is_reading = True
        try:
            line = await self._reader.read()
        finally:
            self.is_reading = False
        if line is None and self._prompt:
            sys.stderr.write("\n")
        return line

    async def above(self, show: Callable[[], None]) -> None:
        """On a line of its own; then the prompt again."""
        if self._prompt and self.is_reading:
            sys.stderr.write("\n")
        show()
        if self.is_reading:
            self._ask()

    @asynccontextmanager
    async def suspended(self) -> AsyncGenerator[None]:
        """Whoever reads next gets the next line, so there is nothing to suspend."""
        yield

    def _ask(self) -> None:
        sys.stderr.write(self._prompt)
        sys.stderr.flush()
