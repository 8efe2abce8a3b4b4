"""File changes as git patches, and the texts that a git patch contains.

Paths are absolute and have no `a/` and `b/` before them; otherwise patches look as `git diff` prints them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from duologue.conversation.tool_content import FileChange

DEV_NULL = "/dev/null"
NO_NEWLINE = "\\ No newline at end of file"

_SECTION = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n"} | {
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
}


# --- writing


def git_patch(change: FileChange) -> str | None:
    """Return the change as a git patch, or `None` if its texts are not known or its kind has no such patch."""
    if change.file_type not in (None, "text", "symlink") or change.other is not None:
        return None
    kind, old, new = change.kind, change.old_text, change.new_text
    old_path = change.path if change.old_path is None else change.old_path
    head = [f"diff --git {quoted(old_path)} {quoted(change.path)}"]
    mode = "120000" if change.file_type == "symlink" else "100644"
    if kind == "add" and new is not None:
        return _written([*head, f"new file mode {mode}"], DEV_NULL, change.path, "", new)
    if kind == "delete" and old is not None:
        return _written([*head, f"deleted file mode {mode}"], old_path, DEV_NULL, old, "")
    if old is None or new is None or kind not in ("modify", "move", "copy"):
        return None
    if kind != "modify":
        verb = "rename" if kind == "move" else "copy"
        head.append(f"similarity index {_similarity(old, new)}%")
        head += [f"{verb} from {quoted(old_path)}", f"{verb} to {quoted(change.path)}"]
    return _written(head, old_path, change.path, old, new)


def _written(head: list[str], old_path: str, new_path: str, old: str, new: str) -> str:
    import difflib  # rarely needed, and not before the first session

    hunks = list(difflib.unified_diff(_lines(old), _lines(new), n=3))[2:]
    lines = list(head)
    if hunks:
        lines += [f"--- {_header_path(old_path)}", f"+++ {_header_path(new_path)}"]
    for line in hunks:
        body = line.removesuffix("\n")
        lines.append(body)
        if body is line:  # the last line of a text, without a newline
            lines.append(NO_NEWLINE)
    return "\n".join(lines) + "\n"


def _header_path(path: str) -> str:
    """Return the path for a `---` or `+++` line: git adds a tab to a name that contains spaces."""
    name = quoted(path)
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _lines(text: str) -> list[str]:
    """Split into lines as git does: only a line feed ends a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _similarity(old: str, new: str) -> int:
    if old == new:
        return 100
    import difflib

    unchanged = sum(
        block.size for block in difflib.SequenceMatcher(None, _lines(old), _lines(new)).get_matching_blocks()
    )
    return min(99, 100 * unchanged // max(len(_lines(old)), len(_lines(new))))


def quoted(path: str, *, all_bytes: bool = True) -> str:
    """Quote a path as git does if it has unusual characters; with `all_bytes` those are all but ASCII."""
    escaped = "".join(_escaped(character, all_bytes) for character in path)
    return path if escaped == path else f'"{escaped}"'


def _escaped(character: str, all_bytes: bool) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character < " " or character == "\x7f" or (all_bytes and character > "\x7f"):
        return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogatepass"))
    return character


# --- reading


def split_patch(patch: str, changes: Sequence[FileChange]) -> list[str | None]:
    """Split a patch into the sections of these changes, in their order; no part of the patch is lost.

    Two changes of one file get a section each; a section of an unknown file stays with the section before it.
    """
    found: list[list[str]] = [[] for _ in changes]
    index = 0
    for section in _SECTION.split(patch):
        header = section.partition("\n")[0].rstrip("\r")
        matches = [number for number, change in enumerate(changes) if header in _headers(change)]
        index = next((number for number in matches if not found[number]), matches[0] if matches else index)
        if section or not patch:
            found[index].append(section)
    return ["".join(sections) if sections else None for sections in found]


def _headers(change: FileChange) -> set[str]:
    old, new = change.path if change.old_path is None else change.old_path, change.path
    return {f"diff --git {quoted(old, all_bytes=each)} {quoted(new, all_bytes=each)}" for each in (True, False)}


def texts_of_patch(patch: str) -> tuple[str | None, str | None]:
    """Return the old and the new text that the patch of one file shows: the whole text for an added or deleted file.

    A side that does not exist, or of which nothing is shown, is `None`.
    """
    lines = patch.split("\n")
    is_added = any(line.startswith("new file mode") for line in lines)
    is_deleted = any(line.startswith("deleted file mode") for line in lines)
    is_binary = any(line.startswith(("GIT binary patch", "Binary files ")) for line in lines)
    sides = list(_sides(lines))
    if is_binary or not (sides or is_added or is_deleted):
        return None, None
    old = "".join(text for side, text in sides if side in " -")
    new = "".join(text for side, text in sides if side in " +")
    return None if is_added else old, None if is_deleted else new


def _sides(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each line of each hunk: its side and its text."""
    left_old = left_new = 0
    for number, line in enumerate(lines):
        if left_old <= 0 and left_new <= 0:
            if header := _HUNK.match(line):
                left_old, left_new = (1 if count is None else int(count) for count in header.groups())
            continue
        side, text = line[:1] or " ", line[1:]
        if side not in " +-":
            continue
        left_old -= side in " -"
        left_new -= side in " +"
        has_no_newline = lines[number + 1 : number + 2] == [NO_NEWLINE]
        yield side, text if has_no_newline else f"{text}\n"
