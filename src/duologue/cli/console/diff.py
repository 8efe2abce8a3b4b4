"""Changes to files as unified diffs, one coloured line after the other."""

from __future__ import annotations

import difflib
import re
from itertools import islice
from pathlib import Path

from duologue.conversation.updates import FileChange

__all__ = ["MOST_LINES", "diff_lines"]

MOST_LINES = 60
"""Lines of one diff that are shown; the rest is counted."""

MOST_CHARACTERS = 4 * 1024 * 1024
"""Text before and after, that is compared at all."""

MOST_COMPARED = 5000
"""Lines between the first and the last change that are compared; that takes a third of a second at worst."""

CONTEXT = 3
"""Lines around a change, as usual."""

_HUNK = re.compile(r"(?<=[-+])\d+")


def diff_lines(change: FileChange, cwd: Path) -> list[str]:
    """The unified diff of a change, with paths as seen from `cwd`."""
    if change.old_text is None and change.new_text is None:
        return _patch_lines(change, cwd)
    old, new = change.old_text or "", change.new_text or ""
    before = "/dev/null" if change.old_text is None else _short(change.old_path or change.path, cwd, "a/")
    after = "/dev/null" if change.new_text is None else _short(change.path, cwd, "b/")
    compared = None if len(old) + len(new) > MOST_CHARACTERS else _compared(_lines(old), _lines(new))
    if compared is None:
        told = f"… {len(old):,} characters become {len(new):,}: too long to be compared here"
        return [f"--- {before}", f"+++ {after}", told]
    return [f"--- {before}", f"+++ {after}", *compared] if compared else []


def _compared(old: list[str], new: list[str]) -> list[str] | None:
    """The hunks of a unified diff; None where comparing would take for ever: its time grows with the square."""
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
    """How many lines are the same at the beginning, and at the end of what follows."""
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    end = next((at for at in range(most - start) if old[-1 - at] != new[-1 - at]), most - start)
    return start, end


def _patch_lines(change: FileChange, cwd: Path) -> list[str]:
    """A patch as it was told, from where the change begins; if it says no more than which file, that in a word."""
    lines = [] if change.patch is None else change.patch.split("\n")
    begin = next((number for number, line in enumerate(lines) if line.startswith("--- ")), None)
    if begin is None:
        moved = f" from {_short(change.old_path, cwd)}" if change.old_path else ""
        return [f"{change.kind} {_short(change.path, cwd)}{moved}"]
    before, after, *rest = lines[begin:]
    head = [_named(before, "a/", cwd), _named(after, "b/", cwd)]
    return [*head, *(rest[:-1] if rest and not rest[-1] else rest)]


def _named(line: str, prefix: str, cwd: Path) -> str:
    """`--- /whole/path` with the path as seen from here."""
    sign, _, path = line.partition(" ")
    return f"{sign} {_short(path, cwd, prefix)}"


def _lines(text: str) -> list[str]:
    """Lines as diffs count them: only a line feed ends one."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def _short(path: str, cwd: Path, prefix: str = "") -> str:
    """As diffs name files of a project; what lies elsewhere keeps its whole path."""
    return f"{prefix}{Path(path).relative_to(cwd)}" if Path(path).is_relative_to(cwd) else path
