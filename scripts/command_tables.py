"""Write the tables of the built-in agent's commands into the page that explains it: `python -m scripts.command_tables`.

`tests/builtin/test_commands.py` fails when the page does not match the commands.
"""

from __future__ import annotations

import re
from pathlib import Path

from duologue.builtin.command_table import CHAPTERS, table_of

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "built-in-agent.md"

_TABLES = re.compile(r"(?<=<!-- commands -->\n)(.*)(?=<!-- /commands -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """Return the page with the current tables between its two marks."""
    chapters = "".join(f"\n### {title}\n\n{table_of(*chapter)}" for title, chapter in CHAPTERS.items())
    written, count = _TABLES.subn(lambda _: chapters + "\n", page)
    if count != 1:
        raise ValueError(f"{PAGE.name} has no marks between which the commands belong")
    return written


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
