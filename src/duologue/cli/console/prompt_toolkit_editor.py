"""Line editing, history and completion with prompt-toolkit."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal, run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from duologue.cli.console.safe_output import safe
from duologue.config.permissions import state_folder
from duologue.private_files import make_private_directory, make_private_file

Offer: TypeAlias = Callable[[str], Iterable[tuple[str, str, str]]]

PROMPT = "› "
CONTINUATION = "  "
"""Shown before each further line of a prompt."""


class PromptToolkitEditor:
    """Line editor for capable terminals."""

    def __init__(self, offer: Offer) -> None:
        path = _history_file()
        history = InMemoryHistory() if path is None else FileHistory(str(path))
        # Asking the terminal for its cursor position costs a round trip, and prints a warning on slow connections.
        output = Vt100_Output.from_pty(safe(sys.stdout).trusted, term=os.environ.get("TERM"))
        output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            history=history,
            completer=_Completer(offer),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,  # a menu would keep empty lines below the prompt
            multiline=True,
            prompt_continuation=CONTINUATION,
            key_bindings=_key_bindings(),
            output=output,
        )
        self.is_reading = False

    async def read(self) -> str | None:
        """Return the next line, None after Ctrl-D; Ctrl-C clears the line."""
        self.is_reading = True
        try:
            while True:
                try:
                    return await self._session.prompt_async(PROMPT, handle_sigint=False)
                except KeyboardInterrupt:
                    continue
        except EOFError:
            return None
        finally:
            self.is_reading = False

    async def above(self, show: Callable[[], None]) -> None:
        """Show something above the line that is being typed."""
        if self.is_reading:
            await run_in_terminal(show)
        else:
            show()

    @asynccontextmanager
    async def suspended(self) -> AsyncGenerator[None]:
        """Hide the line that is being typed inside the block, and show it again."""
        if not self.is_reading:
            yield
            return
        async with in_terminal():
            yield


class _Completer(Completer):
    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for before, text, description in self._offer(document.text_before_cursor):
            yield Completion(text, start_position=-len(before), display_meta=description)


def _key_bindings() -> KeyBindings:
    """Return the keys of a prompt of several lines: Enter sends it; Alt-Enter, or Enter after a backslash, goes on."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def go_on(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return keys


def _history_file() -> Path | None:
    """Return the file for the history, readable by its owner only; None if it cannot be made."""
    directory = state_folder()
    try:
        make_private_directory(directory)
        path = directory / "history"
        make_private_file(path)
    except OSError:
        return None
    return path
