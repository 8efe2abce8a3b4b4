"""File changes and diffs of version 2, in both directions, and how version 1 shows them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from duologue.conversation.content import TextContent
from duologue.conversation.updates import ContentPart, FileChange, TerminalPart, ToolContent, UnknownPart
from duologue.protocol.v1.content import part_to_wire as part_to_version_1
from duologue.protocol.v2.tool_parts import parts_from_wire, parts_to_wire
from duologue.schema import v2
from duologue.schema.codec import decode
from tests.protocol.v2.round_trips import canonical

ADDED = "diff --git /w/a /w/a\nnew file mode 100644\n--- /dev/null\n+++ /w/a\n@@ -0,0 +1 @@\n+hi\n"
MOVED = "diff --git /w/b /w/c\nsimilarity index 100%\nrename from /w/b\nrename to /w/c\n"


def read(*parts: Any) -> list[ToolContent]:
    return parts_from_wire(decode(list[v2.ToolCallContent], msgspec.json.encode(parts)))


def test_texts_are_written_as_a_patch_and_neighbours_as_one_diff() -> None:
    changes: list[ToolContent] = [
        FileChange("/w/a", None, "hi\n"),
        FileChange("/w/c", "x\n", "x\n", operation="move", old_path="/w/b", meta={"k": 1}),
        FileChange("/w/pic", operation="modify", file_type="binary", mime_type="image/png"),
        FileChange("/w/dir", operation="add", file_type="directory"),
    ]

    assert canonical(parts_to_wire(changes)) == [
        {
            "type": "diff",
            "changes": [
                {"operation": "add", "path": "/w/a"},
                {"operation": "move", "oldPath": "/w/b", "path": "/w/c", "_meta": {"k": 1}},
                {"operation": "modify", "path": "/w/pic", "fileType": "binary", "mimeType": "image/png"},
                {"operation": "add", "path": "/w/dir", "fileType": "directory"},
            ],
            "patch": {"format": "git_patch", "text": ADDED + MOVED},
        }
    ]


def test_a_patch_is_split_into_one_part_for_each_file() -> None:
    diff = {
        "type": "diff",
        "changes": [
            {"operation": "move", "oldPath": "/w/b", "path": "/w/c"},
            {"operation": "add", "path": "/w/a"},
            {"operation": "delete", "path": "/w/gone"},
        ],
        "patch": {"format": "git_patch", "text": ADDED + MOVED},
        "_meta": {"k": 1},
    }

    assert read(diff) == [
        FileChange("/w/c", operation="move", old_path="/w/b", patch=MOVED, diff_meta={"k": 1}),
        FileChange("/w/a", operation="add", patch=ADDED, diff_meta={"k": 1}),
        FileChange("/w/gone", operation="delete", diff_meta={"k": 1}),
    ]


def test_diffs_with_other_meta_or_another_patch_format_stay_apart() -> None:
    def diff(**fields: Any) -> Any:
        return {"type": "diff", "changes": [{"operation": "modify", "path": "/a"}], **fields}

    wire: list[Any] = [
        diff(),
        diff(_meta={"k": 1}),
        diff(patch={"format": "_ed", "text": "1d"}),
        {"type": "content", "content": {"type": "text", "text": "x"}},
        diff(patch={"format": "git_patch", "text": "diff"}),
        {"type": "terminal", "terminalId": "t"},
        {"type": "_chart", "points": []},
    ]

    assert canonical(parts_to_wire(read(*wire))) == wire


def test_unknown_parts_are_kept_and_written_back_unchanged() -> None:
    merge = {"operation": "_merge", "paths": ["/h"]}
    nothing: dict[str, Any] = {"type": "diff", "changes": [], "patch": {"format": "git_patch", "text": "x"}}
    wire: list[Any] = [{"type": "diff", "changes": [merge, {"operation": "add", "path": "/a"}]}, nothing]

    assert read(*wire) == [
        FileChange("", operation="_merge", other=merge),
        FileChange("/a", operation="add"),
        UnknownPart(nothing),
    ]
    assert canonical(parts_to_wire(read(*wire))) == wire


def test_a_change_with_an_unknown_operation_is_written_as_a_modification() -> None:
    changes: list[ToolContent] = [FileChange("/a", operation="_touch"), FileChange("/b", operation="move")]
    (diff,) = canonical(parts_to_wire(changes))

    assert diff["changes"] == [
        {"operation": "modify", "path": "/a"},
        {"operation": "move", "oldPath": "/b", "path": "/b"},
    ]


# --- version 1


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (FileChange("/w/a", operation="add", patch=ADDED), {"type": "diff", "path": "/w/a", "newText": "hi\n"}),
        (
            FileChange("/w/a", operation="modify", patch="@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
            {"type": "diff", "path": "/w/a", "newText": "a\nc\n", "oldText": "a\nb\n"},
        ),
        (
            FileChange("/w/c", operation="move", old_path="/w/b", patch=MOVED),
            {"type": "content", "content": {"type": "text", "text": "move: /w/b → /w/c"}},
        ),
        (
            FileChange("/w/pic", operation="modify", file_type="binary"),
            {"type": "content", "content": {"type": "text", "text": "modify: /w/pic"}},
        ),
        (FileChange("/w/a", operation="delete"), {"type": "diff", "path": "/w/a", "newText": ""}),
        (FileChange("/w/a", "x", None), {"type": "diff", "path": "/w/a", "newText": "", "oldText": "x"}),
        (
            FileChange("/w/a", operation="modify", patch=ADDED, patch_format="_ed"),
            {"type": "content", "content": {"type": "text", "text": "modify: /w/a"}},
        ),
    ],
    ids=["added", "hunks", "moved", "binary", "deleted", "texts", "other format"],
)
def test_version_1_shows_the_texts_of_a_patch_or_names_the_operation(change: FileChange, shown: Any) -> None:
    assert canonical(part_to_version_1(change)) == shown


def test_content_and_terminals_are_the_same_after_the_round_trip() -> None:
    parts: list[ToolContent] = [ContentPart(TextContent("x"), {"k": 1}), TerminalPart("t", {"k": 2})]

    assert parts_from_wire(parts_to_wire(parts)) == parts
