"""Line editing, history and completion with prompt-toolkit.

The line that is being typed stays the last one on the screen for the whole chat. `PromptToolkitEditor` stands between
the safe output and the terminal: whole lines appear above the prompt, and a line that has not ended yet is a part of
the prompt until it has.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from duologue.cli.chat.line_editor import EditorCallbacks, Offer
from duologue.cli.console.line_reader import LineReader, restored_at_exit
from duologue.cli.console.markdown import Draft
from duologue.cli.console.safe_output import Style, safe, say, terminal_width
from duologue.config.permissions import state_folder
from duologue.private_files import make_private_directory, make_private_file
from duologue.runtime.tasks import TaskScope

PROMPT = "› "
CONTINUATION = "  "
"""Shown before each further line of a prompt."""
REFRESH_SECONDS = 0.125
"""How often growing text is drawn: often enough to look live, rarely enough for ssh."""
DRAFT_ROWS = 8
"""Rows of a paragraph that is still growing; all of it is shown when it is complete."""
MOST_WAITING = 20_000
"""Characters of one line that wait for its end."""

_STYLES = re.compile(r"\x1b\[[0-9;]*m")


class PromptToolkitEditor:
    """Line editor for capable terminals."""

    is_prompting = False
    has_status = True

    def __init__(self, reader: LineReader, callbacks: EditorCallbacks) -> None:
        self._reader = reader
        self._callbacks = callbacks
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._partial = ""
        self._render: Callable[[int], str] | None = None
        self._draft_lines: list[str] = []
        self._redraw_timer: asyncio.TimerHandle | None = None
        self._is_shown = False
        path = _history_file()
        # Asking the terminal for its cursor position costs a round trip, and prints a warning on slow connections.
        self._terminal = safe(sys.stdout).trusted
        output = Vt100_Output.from_pty(self._terminal, term=os.environ.get("TERM"))
        output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            self._message,
            history=InMemoryHistory() if path is None else FileHistory(str(path)),
            completer=_Completer(callbacks.offer),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,  # a menu would keep empty lines below the prompt
            multiline=True,
            prompt_continuation=CONTINUATION,
            key_bindings=self._key_bindings(),
            output=output,
            erase_when_done=True,
        )
        self._streams = [stream for stream in map(safe, (sys.stdout, sys.stderr)) if stream.isatty()]
        for stream in self._streams:
            stream.trusted = cast(TextIO, _AbovePrompt(stream.trusted, self._write))

    @property
    def draft(self) -> Draft:
        """Shows a growing paragraph above the line that is being typed."""
        return self

    @asynccontextmanager
    async def active(self) -> AsyncGenerator[None]:
        """Show the prompt and read keys inside the block."""
        tasks = TaskScope()
        with restored_at_exit(sys.stdin.fileno()):
            tasks.start(self._show_prompt())
            self._is_shown = True
            try:
                yield
            finally:
                self.close()
                if self._session.app.is_running:
                    self._session.app.exit(result="")
                await tasks.settle()

    async def _show_prompt(self) -> None:
        try:
            await self._session.prompt_async(handle_sigint=False)
        finally:
            self._lines.put_nowait(None)

    async def read(self) -> str | None:
        """Return the next line, None after Ctrl-D."""
        return await self._lines.get()

    def echo(self, line: str, *, has_waited: bool = False) -> None:
        """Show a line that was entered and is handled now: it is no longer in the line that is being typed."""
        say(PROMPT + line.replace("\n", f"\n{CONTINUATION}") + "\n", Style.BOLD)

    def edit(self, text: str) -> bool:
        """Put text into the line that is being typed, before what is there."""
        self._session.default_buffer.text = text
        self._session.default_buffer.cursor_position = len(text)
        self.refresh()
        return True

    def refresh(self) -> None:
        """Draw the prompt again: it may have fewer lines than before."""
        self._erase()
        self._session.app.invalidate()

    def above(self, show: Callable[[], None]) -> None:
        """Show something above the line that is being typed, as all output is."""
        show()

    def close(self) -> None:
        """Remove the line that is being typed from the screen."""
        self._erase()
        self._is_shown = False
        self._end_partial()

    @asynccontextmanager
    async def suspended(self) -> AsyncGenerator[None]:
        """Hide the line that is being typed inside the block, and show it again with what was typed since."""
        async with in_terminal():
            was_shown, self._is_shown = self._is_shown, False
            self._end_partial()
            try:
                yield
            finally:
                self._is_shown = was_shown
                self._insert(self._reader.take_early_input())

    def _insert(self, typed: str) -> None:
        """Insert what was typed before a question could be answered; a single key was an answer that came too early."""
        buffer = self._session.default_buffer
        text = "".join(character for character in typed if character.isprintable())
        if buffer.text or len(text) > 1:
            buffer.insert_text(text)

    # --- output

    def draw(self, render: Callable[[int], str] | None) -> None:
        """Show text that grows as a part of the prompt; None if it is complete, and printed from now on."""
        self._render = render
        if render is None:
            self._draft_lines = []
        self._redraw_soon()

    def _write(self, stream: TextIO, text: str) -> None:
        if not self._is_shown:
            stream.write(text)
            return
        whole, line_end, partial = text.rpartition("\n")
        if line_end or len(self._partial) > MOST_WAITING:
            self._erase()
            stream.write(self._partial + whole + line_end)
            stream.flush()
            self._partial = ""
            self._session.app.invalidate()
        self._partial += partial
        self._redraw_soon()

    def _end_partial(self) -> None:
        if self._partial:
            self._terminal.write(f"{self._partial}\n")
            self._partial = ""

    def _erase(self) -> None:
        if self._is_shown and self._session.app.is_running:
            self._session.app.renderer.erase()

    def _redraw_soon(self) -> None:
        if self._redraw_timer is None:
            self._redraw_timer = asyncio.get_running_loop().call_later(REFRESH_SECONDS, self._redraw)

    def _redraw(self) -> None:
        self._redraw_timer = None
        if self._is_shown:
            self._draft_lines = [] if self._render is None else self._render(terminal_width()).rstrip("\n").split("\n")
            self.refresh()

    def _message(self) -> StyleAndTextTuples:
        """Return what is shown before the cursor: text that grows, the status, the prompt."""
        width = terminal_width()
        shown: StyleAndTextTuples = []
        partial = _STYLES.sub("", self._partial)[-(width - 1) * DRAFT_ROWS :]
        for line in [*self._draft_lines, *([partial] if partial else [])][-DRAFT_ROWS:]:
            shown += [*to_formatted_text(ANSI(line)), ("", "\n")]
        shown += [("fg:ansibrightblack", f"{line}\n") for line in self._callbacks.status(width)]
        return [*shown, ("bold", PROMPT)]

    # --- keys

    def _enter(self, text: str) -> None:
        self._session.default_buffer.reset(append_to_history=True)
        self._lines.put_nowait(text)
        self.refresh()

    def _key_bindings(self) -> KeyBindings:
        """Return the keys: Enter sends or queues, Ctrl-S steers; Alt-Enter and a backslash start another line."""
        keys = KeyBindings()
        is_empty = Condition(lambda: not self._session.default_buffer.text)

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.current_line_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.newline(copy_margin=False)
            else:
                self._enter(buffer.text)

        @keys.add("c-s", filter=Condition(self._callbacks.is_working) & ~is_empty)
        def steer(event: KeyPressEvent) -> None:
            self._enter(f":steer {event.current_buffer.text}")

        @keys.add("escape", "enter")
        def go_on(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        @keys.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            if not self._callbacks.interrupt():
                event.current_buffer.reset()
                self.refresh()

        @keys.add("c-d", filter=is_empty)
        def end(event: KeyPressEvent) -> None:
            self._lines.put_nowait(None)

        return keys


class _AbovePrompt(io.TextIOBase):
    """A stream to the terminal whose text appears above the prompt."""

    def __init__(self, stream: TextIO, write: Callable[[TextIO, str], None]) -> None:
        self._stream = stream
        self._write = write

    def write(self, text: str) -> int:
        self._write(self._stream, text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override] # an attribute of the base class
        return self._stream.encoding


class _Completer(Completer):
    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for before, text, description in self._offer(document.text_before_cursor):
            yield Completion(text, start_position=-len(before), display_meta=description)


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
