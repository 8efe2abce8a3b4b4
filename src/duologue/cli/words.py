"""The agent's words: as they are off a terminal, rendered as Markdown on one where `rich` is installed."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from duologue.cli.output import safe, sanitize

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.live import Live

__all__ = ["Words", "words_for"]


REFRESHES_PER_SECOND = 8
"""How often a growing paragraph is drawn: it looks alive, and costs little over ssh."""

ECHO_WIDTH = 3
"""Columns left free while drawing: a terminal writes `^C` there, and in the next line nobody would take it back."""

MOST_WAITING = 100_000
"""Characters of one paragraph that are kept to be drawn whole."""


def words_for(out: TextIO) -> Words:
    """The best way to show words on this stream."""
    is_rich = out.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich") is not None
    return RenderedWords(out) if is_rich else Words(out)


class Words:
    """The agent's words as they come. Off a terminal, exactly those and nothing else."""

    def __init__(self, out: TextIO) -> None:
        self._out = safe(out, is_exact=True)
        self._is_in_line = False

    def write(self, text: str) -> None:
        """One more piece."""
        if text:
            self._out.write(text)
            self._out.flush()
            self._is_in_line = not text.endswith("\n")

    def pause(self) -> None:
        """Something else will be shown: on a terminal, never in the middle of a line."""
        if self._out.isatty() and self._is_in_line:
            self.write("\n")


class RenderedWords(Words):
    """Markdown. The paragraph that is being written is shown as it grows, and drawn once more when it is whole."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        from rich.console import Console

        self._console = Console(file=self._out.trusted)
        self._live: Live | None = None
        self._is_ending = False
        self._waiting = ""
        self._has_paragraph = False

    def write(self, text: str) -> None:
        """One more piece."""
        self._waiting += text
        while "\n" in text and (end := _end_of_paragraph(self._waiting)) is not None:
            paragraph, self._waiting = self._waiting[:end], self._waiting[end:].lstrip("\n")
            self._render(paragraph)
        if len(self._waiting) > MOST_WAITING:
            self.pause()
        elif self._waiting.strip():
            self._draft()

    def pause(self) -> None:
        """Show what waits, whole or not."""
        waiting, self._waiting = self._waiting, ""
        if waiting.strip():
            self._render(waiting)
        self._has_paragraph = False

    def _draft(self) -> None:
        if self._live is None:
            from rich.live import Live

            if self._has_paragraph:
                self._out.write("\n")
            self._has_paragraph = False
            self._live = Live(
                console=self._console,
                get_renderable=self._drawn,
                transient=True,
                refresh_per_second=REFRESHES_PER_SECOND,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _drawn(self) -> RenderableType:
        from rich.constrain import Constrain

        if self._is_ending:
            return ""
        return Constrain(SafeMarkdown(self._waiting), max(1, self._console.width - ECHO_WIDTH))

    def _render(self, paragraph: str) -> None:
        if self._live is not None:
            # Its own end would draw all of it once more, and could not take back what left the screen at the top.
            self._is_ending = True
            self._live.refresh()
            self._live.stop()
            self._live, self._is_ending = None, False
        if self._has_paragraph:
            self._out.write("\n")
        self._has_paragraph = True
        self._console.print(SafeMarkdown(paragraph))
        self._out.flush()


class SafeMarkdown:
    """Markdown whose text cannot act on the terminal: it is sanitized after parsing, and links show where they lead."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it as `rich` does, then keep text and its looks, and neither control codes nor hyperlinks."""
        from rich.markdown import Markdown
        from rich.segment import Segment

        for text, style, control in console.render(Markdown(self._text, hyperlinks=False), options):
            if control is None:
                yield Segment(sanitize(text), None if style is None else style.update_link(None))


def _end_of_paragraph(text: str) -> int | None:
    """Where the first whole paragraph ends: at a blank line outside of code fences."""
    start = 0
    while (blank := text.find("\n\n", start)) != -1:
        if text[:blank].count("```") % 2 == 0:
            return blank + 1
        start = blank + 2
    return None
