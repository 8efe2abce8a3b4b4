"""Tables with aligned columns and bars on a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from duologue.cli.console.safe_output import SafeOutput, Style
from duologue.sanitize import escape_line

MOST_LABEL = 40
"""Columns of a label or of the id of a case."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


class Cell(NamedTuple):
    """One cell of a table."""

    text: str
    style: Style = Style.PLAIN
    is_right: bool = False


def write_table(out: SafeOutput, rows: Sequence[Sequence[Cell]]) -> None:
    """Write rows with aligned columns; the last column is not padded."""
    widths = [max(columns_of_text(row[at].text) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
            padding = " " * (width - columns_of_text(cell.text))
            is_last = at == len(row) - 1
            text = f"{padding}{cell.text}" if cell.is_right else cell.text if is_last else f"{cell.text}{padding}"
            out.write(text, cell.style)
            out.write("\n" if is_last else "  ")


def bar(out: SafeOutput, share: float | None, columns: int) -> str:
    """Return a bar for a share from 0 to 1."""
    if share is None:
        return " " * columns
    eighths = round(min(max(share, 0.0), 1.0) * columns * 8)
    if not out.has_symbols:
        return ("#" * round(eighths / 8)).ljust(columns, ".")
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(columns, "░")


def short_label(text: str) -> str:
    """Return a label that fits into a column."""
    return (
        escape_line(text, None)
        if columns_of_text(text) <= MOST_LABEL
        else f"{escape_line(text[: MOST_LABEL - 1], None)}…"
    )


def columns_of_text(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    marks = sum(unicodedata.combining(each) != 0 for each in text)
    return len(text) + wide - marks
