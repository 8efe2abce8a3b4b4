"""Read lines in a chat: with line editing, history and completion where prompt-toolkit is installed."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import Protocol, TypeAlias

from duologue.cli.console.line_reader import LineReader

Offer: TypeAlias = Callable[[str], Iterable[tuple[str, str, str]]]
"""Text before the cursor -> completions: the part to replace, its replacement, a description."""

PROMPT = "> "
CONTINUATION = ". "
"""Shown before each further line of a prompt: a backslash at the end of a line continues it."""


class LineEditor(Protocol):
    """Reads the lines that the user types."""

    is_reading: bool

    async def read(self) -> str | None:
        """Return the next line; None when the user exits."""
        ...

    async def above(self, show: Callable[[], None]) -> None:
        """Show something above the line that is being typed."""
        ...

    def suspended(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager in which something else may read from the terminal."""
        ...


def editor_for(reader: LineReader, offer: Offer) -> LineEditor:
    """Return the best editor for this terminal."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal and os.environ.get("TERM", "dumb") != "dumb" and find_spec("prompt_toolkit") is not None:
        from duologue.cli.console.prompt_toolkit_editor import PromptToolkitEditor

        return PromptToolkitEditor(offer)
    return PlainEditor(reader)


class PlainEditor:
    """Reads lines from a simple terminal, a pipe or a file."""

    def __init__(self, reader: LineReader) -> None:
        self._reader = reader
        self._prompt = PROMPT if sys.stdin.isatty() else ""
        self.is_reading = False

    async def read(self) -> str | None:
        """Return the next line, and those that it continues with; None at the end of the input."""
        lines: list[str] = []
        self._show_prompt()
        self.is_reading = True
        try:
            while (line := await self._reader.read()) is not None:
                lines.append(line.removesuffix("\\") if self._prompt else line)
                if not self._prompt or not line.endswith("\\"):
                    return "\n".join(lines)
                sys.stderr.write(CONTINUATION)
                sys.stderr.flush()
        finally:
            self.is_reading = False
        if self._prompt:
            sys.stderr.write("\n")
        return "\n".join(lines) or None

    async def above(self, show: Callable[[], None]) -> None:
        """Show something on a line of its own, then the prompt again."""
        if self._prompt and self.is_reading:
            sys.stderr.write("\n")
        show()
        if self.is_reading:
            self._show_prompt()

    @asynccontextmanager
    async def suspended(self) -> AsyncGenerator[None]:
        """Do nothing: lines are read one at a time."""
        yield

    def _show_prompt(self) -> None:
        sys.stderr.write(self._prompt)
        sys.stderr.flush()
