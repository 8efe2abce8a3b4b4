from __future__ import annotations

from typing import Any

import pytest

from duologue.conversation.content import (
    Annotations,
    AudioContent,
    Content,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from duologue.conversation.updates import ContentPart
from duologue.mcp.results import read_content, read_result, write_content

NOTES = {"audience": ["user", "assistant"], "priority": 0.25, "lastModified": "2026-01-01T00:00:00Z", "_meta": {"n": 1}}
READ_NOTES = Annotations(
    audience=["user", "assistant"], priority=0.25, last_modified="2026-01-01T00:00:00Z", meta={"n": 1}
)

BLOCKS: list[tuple[dict[str, Any], Content]] = [
    ({"type": "text", "text": "hello"}, TextContent("hello")),
    (
        {"type": "text", "text": "hello", "annotations": NOTES, "_meta": {"a": 1}},
        TextContent("hello", annotations=READ_NOTES, meta={"a": 1}),
    ),
    (
        {"type": "image", "data": "AAAA", "mimeType": "image/png", "annotations": NOTES, "_meta": {}},
        ImageContent("AAAA", "image/png", annotations=READ_NOTES, meta={}),
    ),
    ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, AudioContent("AAAA", "audio/wav")),
    (
        {
            "type": "resource_link",
            "uri": "file:///a",
            "name": "a",
            "title": "A",
            "description": "the first",
            "mimeType": "text/plain",
            "size": 3,
        },
        ResourceLink("file:///a", "a", title="A", description="the first", mime_type="text/plain", size=3),
    ),
    (
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/x", "text": "in", "_meta": {"r": 1}}},
        Resource("file:///a", text="in", mime_type="text/x", resource_meta={"r": 1}),
    ),
    (
        {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}, "annotations": NOTES},
        Resource("file:///a", blob="AAAA", annotations=READ_NOTES),
    ),
    ({"type": "hologram", "depth": 3}, UnknownContent({"type": "hologram", "depth": 3})),
]


@pytest.mark.parametrize(("block", "content"), BLOCKS)
def test_every_kind_of_content_is_read_and_written_without_loss(block: dict[str, Any], content: Content) -> None:
    assert read_content(block) == content
    assert write_content(content) == block


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "image", "data": "AAAA"},
        {"type": "resource_link", "uri": "file:///a"},
        {"type": "resource", "resource": {"uri": "file:///a"}},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "in", "blob": "AAAA"}},
        {"type": "resource", "resource": "file:///a"},
        {"no": "type"},
    ],
)
def test_a_block_that_does_not_fit_is_kept_as_it_came(block: dict[str, Any]) -> None:
    assert read_content(block) == UnknownContent(block)


def test_a_block_that_is_no_object_is_kept_too() -> None:
    assert read_content("bare") == UnknownContent({"value": "bare"})


def test_a_field_of_the_wrong_type_costs_that_field_only() -> None:
    block = {"type": "resource_link", "uri": "u", "name": "n", "size": True, "title": 3, "annotations": "none"}

    assert read_content(block) == ResourceLink("u", "n")


def test_annotations_of_the_wrong_type_are_left_out() -> None:
    block = {"type": "text", "text": "t", "annotations": {"audience": "user", "priority": "high"}}

    assert read_content(block) == TextContent("t", annotations=Annotations())


def test_a_result_keeps_everything_it_came_with() -> None:
    raw = {
        "content": [{"type": "text", "text": "3"}, {"type": "text", "text": " apples", "flavour": "sweet"}],
        "structuredContent": {"apples": 3},
        "isError": True,
        "_meta": {"cost": 1},
        "future": True,
    }

    result = read_result(raw)

    assert result.text == "3 apples"
    assert (result.structured_content, result.is_error, result.meta) == ({"apples": 3}, True, {"cost": 1})
    assert result.raw == raw


def test_an_empty_result_is_a_result() -> None:
    result = read_result({})

    assert (result.content, result.is_error, result.meta) == ([], False, None)


@pytest.mark.parametrize(("is_error", "status"), [(False, "completed"), (True, "failed")])
def test_a_result_says_how_its_tool_call_ends(is_error: bool, status: str) -> None:
    result = read_result({"content": [{"type": "text", "text": "done"}], "isError": is_error})

    assert result.status == status
    assert result.parts == [ContentPart(TextContent("done"))]
