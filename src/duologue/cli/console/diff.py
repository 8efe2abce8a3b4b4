"""Format changes of files as unified diffs."""

from __future__ import annotations

import difflib
import re
from itertools import islice
from pathlib import Path

from duologue.cli.console.safe_output import Style
from duologue.conversation.updates import FileChange
from duologue.sanitize import escape_line

MOST_LINES = 60
"""Lines of one diff that are shown; the others are counted."""

MOST_CHARACTERS = 4 * 1024 * 1024
"""Characters before and after a change, together, that are compared at all."""

MOST_COMPARED = 5000
"""Lines between the first and the last change that are compared; that takes at most a third of a second."""

CONTEXT = 3
"""Unchanged lines shown around a change."""

MOST_COLUMNS = 1000
"""Characters shown between two tabs of a changed line; more is cut and marked."""

COLOURS = {"+": Style.GREEN, "-": Style.RED, "@": Style.CYAN}

_HUNK = re.compile(r"(?<=[-+])\d+")


def styled_diff(change: FileChange, cwd: Path, most: int | None = MOST_COLUMNS) -> list[tuple[str, Style]]:
    """Return the lines of `diff_lines` with their style; invisible characters except tabs are spelt out.

    Args:
        change: The change.
        cwd: Directory that paths are relative to.
        most: Characters between two tabs after which a line is cut; None: it is not.
    """
    return [
        ("\t".join(escape_line(part, most) for part in line.split("\t")), _style(number, line))
        for number, line in enumerate(diff_lines(change, cwd))
    ]


def _style(number: int, line: str) -> Style:
    return Style.BOLD if number < 2 else COLOURS.get(line[:1], Style.PLAIN)


def diff_lines(change: FileChange, cwd: Path) -> list[str]:
    """Return the unified diff of a change, with paths relative to `cwd`."""
    if change.old_text is None and change.new_text is None:
        return _patch_lines(change, cwd)
    old, new = change.old_text or "", change.new_text or ""
    before = "/dev/null" if change.old_text is None else short_path(change.old_path or change.path, cwd, "a/")
    after = "/dev/null" if change.new_text is None else short_path(change.path, cwd, "b/")
    compared = None if len(old) + len(new) > MOST_CHARACTERS else _compared(_lines(old), _lines(new))
    if compared is None:
        summary = f"… {len(old):,} characters become {len(new):,}: too long to compare here"
        return [f"--- {before}", f"+++ {after}", summary]
    return [f"--- {before}", f"+++ {after}", *compared] if compared else []


def _compared(old: list[str], new: list[str]) -> list[str] | None:
    """Return the hunks of a unified diff; None if comparing would take too long (its time grows quadratically)."""
    start, end = _same(old, new)
    start, end = max(0, start - CONTEXT), max(0, end - CONTEXT)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) + len(new) > MOST_COMPARED:
        return None
    lines: list[str] = []
    for line in islice(difflib.unified_diff(old, new, n=CONTEXT), 2, None):
        is_head = line.startswith("@@")
        shown = _HUNK.sub(lambda found: str(int(found[0]) + start), line, 2) if is_head else line
        lines.append(shown.removesuffix("\n"))
        if not line.endswith("\n"):
            lines.append("\\ No newline at end of file")
    return lines


def _same(old: list[str], new: list[str]) -> tuple[int, int]:
    """Return how many lines are equal at the beginning, and at the end of the rest."""
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    end = next((at for at in range(most - start) if old[-1 - at] != new[-1 - at]), most - start)
    return start, end


def _patch_lines(change: FileChange, cwd: Path) -> list[str]:
    """Return the agent's own patch from its first hunk on; without hunks, one line that names the file."""
    lines = [] if change.patch is None else change.patch.split("\n")
    begin = next((number for number, line in enumerate(lines) if line.startswith("--- ")), None)
    if begin is None:
        moved = f" from {short_path(change.old_path, cwd)}" if change.old_path else ""
        return [f"{change.kind} {short_path(change.path, cwd)}{moved}"]
    before, after, *rest = lines[begin:]
    head = [_named(before, "a/", cwd), _named(after, "b/", cwd)]
    return [*head, *(rest[:-1] if rest and not rest[-1] else rest)]


def _named(line: str, prefix: str, cwd: Path) -> str:
    """Return a header line such as `--- /whole/path` with the path relative to `cwd`."""
    marker, _, path = line.partition(" ")
    return f"{marker} {short_path(path, cwd, prefix)}"


def _lines(text: str) -> list[str]:
    """Split text into lines as diffs count them: only a line feed ends one."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def short_path(path: str, cwd: Path, prefix: str = "") -> str:
    """Return a path relative to `cwd`, after a prefix; a path elsewhere stays absolute."""
    return f"{prefix}{Path(path).relative_to(cwd)}" if Path(path).is_relative_to(cwd) else path
