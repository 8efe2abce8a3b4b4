"""Read the lines of a chat from a simple terminal, a pipe or a file; choose the line editor."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec

from duologue.cli.chat.line_editor import EditorCallbacks, LineEditor
from duologue.cli.console.line_reader import LineReader
from duologue.cli.console.safe_output import Style, say
from duologue.runtime.tasks import TaskScope

PROMPT = "> "
CONTINUATION = ". "
"""Shown before each further line of a prompt: a backslash at the end of a line continues it."""


def editor_for(reader: LineReader, callbacks: EditorCallbacks) -> LineEditor:
    """Return the best editor for this terminal: with history and completion where prompt-toolkit is installed."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal and os.environ.get("TERM", "dumb") != "dumb" and find_spec("prompt_toolkit") is not None:
        from duologue.cli.chat.prompt_toolkit_editor import PromptToolkitEditor

        return PromptToolkitEditor(reader, callbacks)
    return PlainEditor(reader, callbacks)


class PlainEditor:
    """Reads lines from a simple terminal, a pipe or a file."""

    draft = None
    has_status = False

    def __init__(self, reader: LineReader, callbacks: EditorCallbacks) -> None:
        self._reader = reader
        self._callbacks = callbacks
        self._prompt = PROMPT if sys.stdin.isatty() else ""
        self._lines: list[str] = []
        self._tasks: TaskScope | None = None
        self._reading: asyncio.Task[str | None] | None = None
        self._lock = asyncio.Lock()
        self.is_prompting = False

    @asynccontextmanager
    async def active(self) -> AsyncGenerator[None]:
        """Read lines inside the block; the terminal itself echoes what is typed."""
        self._tasks = TaskScope()
        try:
            yield
        finally:
            await self._tasks.cancel(1.0)

    async def read(self) -> str | None:
        """Return the next line, and those that it continues with; None at the end of the input."""
        while (line := await self._read_line()) is not None:
            self._lines.append(line.removesuffix("\\") if self._prompt else line)
            if not self._prompt or not line.endswith("\\"):
                break
            say(CONTINUATION)
        lines, self._lines, self.is_prompting = self._lines, [], False
        if line is None and self._prompt:
            say("\n")
        return "\n".join(lines) if lines else None

    async def _read_line(self) -> str | None:
        """Read one line; begin again after a question was asked on the same terminal."""
        assert self._tasks is not None, "lines are read while the editor is active"
        while True:
            async with self._lock:
                reading = self._reading = self._tasks.start(self._reader.read())
            try:
                await asyncio.wait({reading})
            finally:
                reading.cancel()
            if not reading.cancelled():
                return reading.result()

    def echo(self, line: str, *, has_waited: bool = False) -> None:
        """Show a line that had to wait; the terminal has shown any other."""
        if has_waited:
            say(f"{PROMPT}{line}\n", Style.BOLD)

    def edit(self, text: str) -> bool:
        """Return False: what the terminal holds cannot be changed."""
        return False

    def refresh(self) -> None:
        """Show the prompt if the agent has finished and it is not shown yet."""
        if not self.is_prompting and not self._callbacks.is_working() and not self._lines:
            self.is_prompting = True
            self._show_prompt()

    def above(self, show: Callable[[], None]) -> None:
        """Show something on a line of its own, then the prompt again."""
        if self._prompt and self.is_prompting:
            say("\n")
        show()
        if self.is_prompting:
            self._show_prompt()

    def close(self) -> None:
        """Do nothing: what was typed stays on the screen."""

    @asynccontextmanager
    async def suspended(self) -> AsyncGenerator[None]:
        """Read no line inside the block; what was typed before it is read after it."""
        async with self._lock:
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.wait({self._reading})
            self._reader.set_input_aside()
            try:
                yield
            finally:
                begun = self._reader.take_back_input()
                if begun:
                    say(f"{PROMPT}{begun}")

    def _show_prompt(self) -> None:
        if self._prompt:
            say(self._prompt)
