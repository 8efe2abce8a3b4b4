"""Markdown with escaped content."""

from __future__ import annotations

import re
from collections.abc import Sequence


def fenced(text: str, language: str = "") -> str:
    """Return a code block; its fence is longer than any run of backticks inside."""
    longest = max((len(row) for row in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}\n"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; bars in its cells are escaped."""
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
