"""The agent's words on a terminal."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable

import pytest

from duologue.cli.console.markdown import ECHO_WIDTH, MarkdownWriter


class _Terminal(io.StringIO):
    """A terminal that notices when something is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        written = super().write(text)
        if "word" in text:
            self.drawn.set()
        return written


def test_a_growing_paragraph_leaves_room_for_what_the_terminal_echoes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `^C` that wraps into the next line would leave the draft on the screen for good."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    out = _Terminal()
    words = MarkdownWriter(out)
    words.write("word " * 30)
    assert out.drawn.wait(10)
    draft = out.getvalue()
    words.pause()

    widths = [len(line) for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", draft).splitlines()]
    assert len(widths) > 3
    assert max(widths) == 40 - ECHO_WIDTH
    assert max(len(line) for line in out.getvalue()[len(draft) :].splitlines()) >= 40


class _Draft:
    """Notes what is drawn while a paragraph grows."""

    def __init__(self) -> None:
        self.drawn: list[str | None] = []

    def draw(self, render: Callable[[int], str] | None) -> None:
        self.drawn.append(None if render is None else render(40))


def test_a_growing_paragraph_can_be_drawn_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out, draft = _Terminal(), _Draft()
    writer = MarkdownWriter(out, draft)
    writer.write("some **bold")
    assert out.getvalue() == ""
    writer.write("** text")
    writer.pause()

    first, second, ended = draft.drawn
    assert re.sub(r"\x1b\[[0-9;]*m| *\n", "", first or "") == "some **bold"
    assert re.sub(r"\x1b\[[0-9;]*m| *\n", "", second or "") == "some bold text"
    assert ended is None
    assert "bold" in out.getvalue()
