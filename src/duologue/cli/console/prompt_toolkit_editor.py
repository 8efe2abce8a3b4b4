"""Line editing, history and completion by prompt-toolkit."""

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
from prompt_toolkit.output.vt100 import Vt100_Output

from duologue.cli.console.safe_output import safe
from duologue.config.permissions import state_folder

__all__ = ["PromptToolkitEditor"]

Offer: TypeAlias = Callable[[str], Iterable[tuple[str, str, str]]]

PROMPT = "› "


class PromptToolkitEditor:
    """A place to type, for terminals that can do more than lines."""

    def __init__(self, offer: Offer) -> None:
        path = _history_file()
        history = InMemoryHistory() if path is None else FileHistory(str(path))
        # Asking a terminal where its cursor is costs a round trip, and over a slow line a warning.
        output = Vt100_Output.from_pty(safe(sys.stdout).trusted, term=os.environ.get("TERM"))
        output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            history=history, completer=_Offered(offer), complete_while_typing=False, output=output
        )
        self.is_reading = False

    async def read(self) -> str | None:
        """The next line; Ctrl-C drops what was typed, Ctrl-D leaves."""
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
        """Above the line that is being typed."""
        if self.is_reading:
            await run_in_terminal(show)
        else:
            show()

    @asynccontextmanager
    async def suspended(self) -> AsyncGenerator[None]:
        """The line being typed is put away, and comes back."""
        if not self.is_reading:
            yield
            return
        async with in_terminal():
            yield


class _Offered(Completer):
    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for before, text, told in self._offer(document.text_before_cursor):
            yield Completion(text, start_position=-len(before), display_meta=told)


def _history_file() -> Path | None:
    """Where earlier lines are kept, for this user's eyes only; nowhere if that cannot be."""
    directory = state_folder()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / "history"
        path.touch(mode=0o600)
    except OSError:
        return None
    return path
