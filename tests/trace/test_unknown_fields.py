"""Members that the schema does not know: found with their path, and never in what is free for extensions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from duologue.recording.format import Entry
from duologue.trace.unknown_fields import MAX_FOUND, unknown_fields
from tests.trace.test_frames import UPDATE, entry, traced


def unknown(**message: Any) -> list[str]:
    (frame,) = traced(entry(0.0, "to_agent", **message))
    return unknown_fields(frame)


def update(**members: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": "s", "update": members}}


def test_a_message_of_the_schema_has_no_unknown_field() -> None:
    tool = {"toolCallId": "1", "title": "t", "content": [{"type": "diff", "path": "/a", "newText": ""}]}

    assert unknown(**update(**UPDATE)) == []
    assert unknown(**update(sessionUpdate="tool_call", **tool)) == []


CASES: list[tuple[dict[str, Any], str]] = [
    (update(**UPDATE, foo=1), "$.params.update.foo"),
    (update(**{**UPDATE, "content": {"type": "text", "text": "", "x": 1}}), "$.params.update.content.x"),
    (update(sessionUpdate="plan", entries=[{"content": "a", "id": 1}]), "$.params.update.entries[0].id"),
    (update(sessionUpdate="weather"), "$.params.update.sessionUpdate"),
    ({"id": 1, "method": "session/dance", "params": {}}, "$.method"),
    ({"id": 1, "method": "session/list", "params": {}, "trace": 1}, "$.trace"),
    ({"id": 1, "error": {"code": 1, "message": "", "hint": ""}}, "$.error.hint"),
    (
        {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": [{"type": "stdio", "name": "a"}]}},
        "$.params.mcpServers[0].type",
    ),
    (
        {
            "id": 1,
            "method": "session/new",
            "params": {"cwd": "/", "mcpServers": [{"name": "a", "command": "b", "args": [], "env": [], "port": 1}]},
        },
        "$.params.mcpServers[0].port",
    ),
]


@pytest.mark.parametrize(("message", "path"), CASES)
def test_an_unknown_member_is_named_with_its_path(message: dict[str, Any], path: str) -> None:
    assert unknown(**message) == [path]


def test_results_are_compared_with_the_class_of_their_request() -> None:
    _, response = traced(
        entry(0.0, "to_agent", id=1, method="session/new", params={"cwd": "/", "mcpServers": []}),
        entry(0.0, "to_client", id=1, result={"sessionId": "s", "models": {}}),
    )

    assert unknown_fields(response) == ["$.result.models"]


def test_the_handshake_may_have_fields_of_both_versions() -> None:
    params = {"protocolVersion": 2, "info": {"name": "a"}, "clientInfo": {"name": "a"}, "color": 1}

    assert unknown(id=1, method="initialize", params=params) == ["$.params.color"]


def test_members_of_options_in_groups_are_compared() -> None:
    select = {"id": "m", "name": "m", "type": "select", "currentValue": "a"}
    options = [{"value": "a", "name": "a", "cost": 1}]

    assert unknown(**update(sessionUpdate="config_option_update", configOptions=[{**select, "options": options}])) == [
        "$.params.update.configOptions[0].options[0].cost"
    ]


@pytest.mark.parametrize(
    "message",
    [
        update(**UPDATE, _meta={"anything": 1}),
        update(sessionUpdate="_mine", a=1),
        {"id": 1, "method": "_mine", "params": {"a": 1}},
        {"id": 1, "method": "session/new", "params": [1]},
    ],
)
def test_extensions_are_not_unknown(message: dict[str, Any]) -> None:
    assert unknown(**message) == []


def test_a_frame_with_many_unknown_members_names_some() -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "", "x": 1}}] * 1000

    assert len(unknown(**update(sessionUpdate="tool_call_update", toolCallId="1", content=content))) == MAX_FOUND


def test_deep_nesting_and_what_is_no_message_are_not_searched() -> None:
    deep = Entry(dir="to_client", frame=Raw(b'{"method":"m","params":' + b"[" * 50_000 + b"]" * 50_000 + b"}"))

    assert [unknown_fields(frame) for frame in traced(deep, Entry(stderr="x"))] == [[], []]
