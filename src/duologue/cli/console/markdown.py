"""Write the agent's messages: rendered as Markdown on a terminal if `rich` is installed, else unchanged."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, TextIO

from duologue.cli.console.safe_output import are_same, is_pipe, safe
from duologue.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.live import Live

REFRESHES_PER_SECOND = 8
"""How often a growing paragraph is redrawn: often enough to look live, rarely enough for ssh."""

ECHO_WIDTH = 3
"""Columns left free while drawing: the terminal echoes `^C` there; on the next line it could not be erased."""

FRAME_HEIGHT = 4
"""Lines around a code block, and the cursor's line below it."""

MOST_WAITING = 20_000
"""Characters of one paragraph that wait for its end; a longer one is rendered in parts."""

MOST_AT_ONCE = 100_000
"""Characters of one piece that are rendered, which takes seconds; a longer piece is written unchanged."""

_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(?P<fence>`{3,}(?!.*`)|~{3,})")
_FENCE_WIDTH = 200
"""Characters at the start of a line that are searched for a code fence."""


class Draft(Protocol):
    """Shows a paragraph while it grows."""

    def draw(self, render: Callable[[int], str] | None) -> None:
        """Show what `render` returns for a width, with styles; None when the paragraph is complete."""
        ...


def text_writer_for(out: TextIO, err: TextIO, draft: Draft | None = None) -> TextWriter:
    """Return the best writer for this stream.

    Args:
        out: The stream.
        err: The stream for everything else, which may go to the same terminal, file or pipe.
        draft: Shows a growing paragraph; without it, the paragraph is drawn on the stream and erased.
    """
    is_rich = out.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich") is not None
    return MarkdownWriter(out, draft) if is_rich else TextWriter(out, err)


class TextWriter:
    """Writes the agent's text as it arrives; to a pipe or file of its own, that text alone."""

    def __init__(self, out: TextIO, err: TextIO | None = None) -> None:
        self._out = safe(out, is_exact=True)
        self._is_shared = out.isatty() or (err is not None and are_same(out, err))
        self._terminal = safe(err) if err is not None and is_pipe(out) and err.isatty() else None
        """Terminal of the other output, on which a program that reads the pipe may show the text."""
        self._is_in_line = False
        self._is_parted = False

    def write(self, text: str) -> None:
        """Write one piece of text."""
        if text:
            self._out.write(text)
            self._out.flush()
            self._is_in_line = not text.endswith("\n")
            self._is_parted = False

    def pause(self) -> None:
        """End the current line where other output follows in the same place; the text in a pipe stays as it is."""
        if self._is_shared:
            self.separate()
        elif self._terminal is not None and self._is_in_line and not self._is_parted:
            self._is_parted = True
            self._terminal.write("\n")

    def separate(self) -> None:
        """End the current line: what follows is another text."""
        if self._is_in_line:
            self.write("\n")


class MarkdownWriter(TextWriter):
    """Renders Markdown: the current paragraph is drawn as it grows, and once more when it is complete."""

    def __init__(self, out: TextIO, draft: Draft | None = None) -> None:
        super().__init__(out)
        from rich.console import Console

        self._console = Console(file=self._out.trusted)
        self._area = draft
        self._live: Live | None = None
        self._is_ending = False
        self._has_paragraph = False
        self._paragraph = _Paragraph()

    def write(self, text: str) -> None:
        """Write one piece of text."""
        if len(text) > MOST_AT_ONCE:
            self.pause()
            super().write(text if text.endswith("\n") else f"{text}\n")
            return
        for line in text.splitlines(keepends=True):
            is_whole = self._paragraph.add(line)
            if is_whole or self._paragraph.size > MOST_WAITING:
                self._render(self._paragraph.take(is_whole=is_whole))
        if self._paragraph.has_text:
            self._draft()

    def pause(self) -> None:
        """Render the current paragraph, complete or not, because other output follows."""
        self._render(self._paragraph.take(is_whole=True))
        self._has_paragraph = False

    def _draft(self) -> None:
        if self._area is not None:
            self._area.draw(self._drawn_text)
        elif self._live is None:
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

    def _drawn_text(self, width: int) -> str:
        with self._console.capture() as captured:
            self._console.print(SafeMarkdown(self._paragraph.newest(width, self._console.height)), width=width)
        return ("\n" if self._has_paragraph else "") + captured.get()

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
        if self._area is not None:
            self._area.draw(None)
        if self._live is not None:
            # Stopping it would draw everything again, and could not erase lines that scrolled off the screen.
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
    """Markdown whose text cannot control the terminal: sanitized after parsing, with visible link targets."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it with `rich`, then drop control codes and hyperlinks."""
        from rich.markdown import Markdown
        from rich.segment import Segment

        for text, style, control in console.render(Markdown(self._text, hyperlinks=False), options):
            if control is None:
                yield Segment(sanitize(text), None if style is None else style.update_link(None))


class _Paragraph:
    """Text up to the blank line that ends a paragraph; inside a code fence, a blank line does not.

    Each character is examined once, whatever pieces the text arrives in.
    """

    def __init__(self) -> None:
        self.size = 0
        self.has_text = False
        self._pieces: list[str] = []
        self._line = ""
        self._fence = ""
        """The line that opened the current code fence."""

    def add(self, piece: str) -> bool:
        """Add a line or a part of one; return True if the paragraph is complete."""
        self._pieces.append(piece)
        self.size += len(piece)
        self._line += piece[: _FENCE_WIDTH - len(self._line)]
        is_blank = not piece.strip()
        self.has_text = self.has_text or not is_blank
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
        """Remove and return the text; if a code fence is still open, the rest starts with it again."""
        text = "".join(self._pieces)
        self._pieces, self._line, self.has_text = [], "", False
        self._fence = "" if is_whole else self._fence
        if self._fence:
            self._pieces.append(f"{self._fence}\n")
        self.size = sum(map(len, self._pieces))
        return text

    def newest(self, width: int, height: int) -> str:
        """Return the end of the text that fits on a screen; redrawing all of it each time would be slow."""
        text = "".join(self._pieces)
        lines = text[-width * height :].split("\n")[-height:]
        newest = "\n".join(lines)
        return f"{self._fence}\n{newest}" if self._fence and len(newest) < len(text) else newest
