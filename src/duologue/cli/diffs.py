"""Changes to files as unified diffs, one coloured line after the other."""

from __future__ import annotations

import difflib
from pathlib import Path

from duologue.conversation.updates import FileChange

__all__ = ["MOST_LINES", "diff_lines"]

MOST_LINES = 60
"""Lines of one diff that are shown; the rest is counted."""


def diff_lines(change: FileChange, cwd: Path) -> list[str]:
    """The unified diff of a change, with paths as seen from `cwd`."""
    if change.old_text is None and change.new_text is None:
        return _patch_lines(change, cwd)
    old, new = change.old_text or "", change.new_text or ""
    before = "/dev/null" if change.old_text is None else _short(change.old_path or change.path, cwd, "a/")
    after = "/dev/null" if change.new_text is None else _short(change.path, cwd, "b/")
    lines: list[str] = []
    for line in difflib.unified_diff(_lines(old), _lines(new), before, after):
        lines.append(line.removesuffix("\n"))
        if not line.endswith("\n"):
            lines.append("\\ No newline at end of file")
    return lines


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
