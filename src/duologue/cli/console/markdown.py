"""The agent's words: as they are off a terminal, rendered as Markdown on one where `rich` is installed."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from duologue.cli.console.safe_output import safe
from duologue.sanitize import sanitize

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.live import Live

__all__ = ["TextWriter", "words_for"]


REFRESHES_PER_SECOND = 8
"""How often a growing paragraph is drawn: it looks alive, and costs little over ssh."""

ECHO_WIDTH = 3
"""Columns left free while drawing: a terminal writes `^C` there, and in the next line nobody would take it back."""

FRAME_HEIGHT = 4
"""Lines that code has around it, and the cursor below it."""

MOST_WAITING = 20_000
"""Characters of one paragraph that wait for its end; of a longer one, parts are rendered as they come."""

MOST_AT_ONCE = 100_000
"""Characters of one piece that are rendered: that takes seconds, and more is shown as it is."""

_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(?P<fence>`{3,}(?!.*`)|~{3,})")
_FENCE_WIDTH = 200
"""Characters at the start of a line that are looked at for a fence."""


def words_for(out: TextIO) -> TextWriter:
    """The best way to show words on this stream."""
    is_rich = out.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich") is not None
    return MarkdownWriter(out) if is_rich else TextWriter(out)


class TextWriter:
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


class MarkdownWriter(TextWriter):
    """Markdown. The paragraph that is being written is shown as it grows, and drawn once more when it is whole."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        from rich.console import Console

        self._console = Console(file=self._out.trusted)
        self._live: Live | None = None
        self._is_ending = False
        self._has_paragraph = False
        self._paragraph = _Paragraph()

    def write(self, text: str) -> None:
        """One more piece."""
        if len(text) > MOST_AT_ONCE:
            self.pause()
            super().write(text if text.endswith("\n") else f"{text}\n")
            return
        for line in text.splitlines(keepends=True):
            is_whole = self._paragraph.add(line)
            if is_whole or self._paragraph.size > MOST_WAITING:
                self._render(self._paragraph.take(is_whole=is_whole))
        if self._paragraph.has_words:
            self._draft()

    def pause(self) -> None:
        """Show what waits, whole or not."""
        self._render(self._paragraph.take(is_whole=True))
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
        width, height = self._console.size
        newest = self._paragraph.newest(width, max(1, height - FRAME_HEIGHT))
        return Constrain(SafeMarkdown(newest), max(1, width - ECHO_WIDTH))

    def _render(self, paragraph: str) -> None:
        if not paragraph.strip():
            return
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


class _Paragraph:
    """What waits for the blank line that ends it; inside of a code fence a blank line ends nothing.

    Each character is looked at once, however many lines there are and in whatever pieces they come.
    """

    def __init__(self) -> None:
        self.size = 0
        self.has_words = False
        self._pieces: list[str] = []
        self._line = ""
        self._fence = ""
        """How the code begins that is not closed yet: the whole line."""

    def add(self, piece: str) -> bool:
        """Add a line or a part of one; whether the paragraph is whole now."""
        self._pieces.append(piece)
        self.size += len(piece)
        self._line += piece[: _FENCE_WIDTH - len(self._line)]
        is_blank = not piece.strip()
        self.has_words = self.has_words or not is_blank
        if not piece.endswith("\n"):
            return False
        line, self._line = self._line.rstrip("\n"), ""
        return self._end_line(line)

    def _end_line(self, line: str) -> bool:
        found = _FENCE.match(line)
        if not self._fence:
            self._fence = line if found else ""
            return not found and not line.strip()
        opened = _FENCE.match(self._fence)
        if found and opened and found["fence"].startswith(opened["fence"]) and not line[found.end() :].strip():
            self._fence = ""
        return False

    def take(self, *, is_whole: bool) -> str:
        """All that waits. Of code that goes on, the rest begins as code again."""
        text = "".join(self._pieces)
        self._pieces, self._line, self.has_words = [], "", False
        self._fence = "" if is_whole else self._fence
        if self._fence:
            self._pieces.append(f"{self._fence}\n")
        self.size = sum(map(len, self._pieces))
        return text

    def newest(self, width: int, height: int) -> str:
        """The end of it, as much as fits on a screen: to draw all of it again and again would take for ever."""
        text = "".join(self._pieces)
        lines = text[-width * height :].split("\n")[-height:]
        newest = "\n".join(lines)
        return f"{self._fence}\n{newest}" if self._fence and len(newest) < len(text) else newest
