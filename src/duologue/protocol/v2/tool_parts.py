"""The content of tool calls, to version 2 and back.

A diff of version 2 has many files and one patch; a `FileChange` has one file. Neighbouring changes are written as one
diff, and a patch is split into one part for each file.
"""

from __future__ import annotations

from itertools import groupby

import msgspec

from duologue.conversation import updates as u
from duologue.conversation.fields import convert_fields
from duologue.conversation.git_patch import git_patch, split_patch
from duologue.protocol.v2.content import from_wire, to_wire
from duologue.schema import v2
from duologue.schema.base import JsonObject, Other

GIT = "git_patch"

_ONE_PATH: dict[str, type[v2.DiffAdd | v2.DiffDelete | v2.DiffModify]] = {
    "add": v2.DiffAdd,
    "delete": v2.DiffDelete,
    "modify": v2.DiffModify,
}
_TWO_PATHS: dict[str, type[v2.DiffMove | v2.DiffCopy]] = {"move": v2.DiffMove, "copy": v2.DiffCopy}


def parts_to_wire(parts: list[u.ToolContent]) -> list[v2.ToolCallContent]:
    """Write the content of a tool call."""
    wire: list[v2.ToolCallContent] = []
    for _, run in groupby(parts, _group_key):
        group = list(run)
        changes = [part for part in group if isinstance(part, u.FileChange)]
        wire += [_diff_to_wire(changes)] if changes else []
        wire += [_part_to_wire(part) for part in group if not isinstance(part, u.FileChange)]
    return wire


def parts_from_wire(parts: list[v2.ToolCallContent]) -> list[u.ToolContent]:
    """Read the content of a tool call."""
    read: list[u.ToolContent] = []
    for part in parts:
        match part:
            case v2.Content():
                read.append(u.ContentPart(from_wire(part.content), part.meta))
            case v2.Diff():
                read += _diff_from_wire(part)
            case v2.Terminal():
                read.append(u.TerminalPart(part.terminal_id, part.meta))
            case Other():
                read.append(u.UnknownPart(dict(part)))
    return read


def _group_key(part: u.ToolContent) -> tuple[bool, JsonObject | None, str | None]:
    """Return a key that is equal for parts that may be written as one."""
    if isinstance(part, u.FileChange):
        return True, part.diff_meta, part.patch_format
    return False, None, None


def _part_to_wire(part: u.ContentPart | u.TerminalPart | u.UnknownPart) -> v2.ToolCallContent:
    match part:
        case u.ContentPart():
            return v2.Content(content=to_wire(part.content), meta=part.meta)
        case u.TerminalPart():
            return v2.Terminal(terminal_id=part.terminal_id, meta=part.meta)
        case u.UnknownPart():
            return Other(part.fields.get("type"), part.fields)


def _diff_to_wire(changes: list[u.FileChange]) -> v2.Diff:
    patches = [change.patch if change.patch is not None else git_patch(change) for change in changes]
    known = [patch for patch in patches if patch is not None]
    patch = v2.DiffPatch(format=changes[0].patch_format or GIT, text=_join(known)) if known else None
    return v2.Diff(changes=[_change_to_wire(change) for change in changes], patch=patch, meta=changes[0].diff_meta)


def _join(patches: list[str]) -> str:
    """Join patches, each beginning on a new line."""
    ended = [patch if patch.endswith("\n") else f"{patch}\n" for patch in patches[:-1]]
    return "".join([*ended, patches[-1]])


def _change_to_wire(change: u.FileChange) -> v2.DiffChange:
    if change.other is not None:
        return Other(change.operation, change.other)
    if change.kind in _TWO_PATHS:
        old_path = change.path if change.old_path is None else change.old_path
        return convert_fields(change, _TWO_PATHS[change.kind], old_path=old_path)
    return convert_fields(change, _ONE_PATH.get(change.kind, v2.DiffModify))


def _diff_from_wire(diff: v2.Diff) -> list[u.ToolContent]:
    if not diff.changes:  # it belongs to no file
        return [u.UnknownPart(msgspec.to_builtins(diff))]
    changes = [_change_from_wire(change, diff) for change in diff.changes]
    if diff.patch is None:
        return [*changes]
    if diff.patch.format != GIT:
        changes[0] = msgspec.structs.replace(changes[0], patch=diff.patch.text)
        return [*changes]
    patches = split_patch(diff.patch.text, changes)
    return [msgspec.structs.replace(change, patch=patch) for change, patch in zip(changes, patches, strict=True)]


def _change_from_wire(change: v2.DiffChange, diff: v2.Diff) -> u.FileChange:
    patch_format = None if diff.patch is None or diff.patch.format == GIT else diff.patch.format
    if isinstance(change, Other):
        return u.FileChange(
            str(change.get("path", "")),
            operation=change.tag or "",
            other=dict(change),
            patch_format=patch_format,
            diff_meta=diff.meta,
        )
    operation = str(change.__struct_config__.tag)
    return convert_fields(change, u.FileChange, operation=operation, patch_format=patch_format, diff_meta=diff.meta)
