"""Unions without a tag, or in which only some members have one."""

from __future__ import annotations

from typing import Any

import pytest

from duologue.schema import v1, v2
from duologue.schema.base import Other
from duologue.schema.codec import decode, encode
from tests.schema.reading import refusal

STDIO: dict[str, Any] = {"name": "n", "command": "/c", "args": [], "env": []}


def server(value: dict[str, Any]) -> v1.McpServer:
    request = decode(v1.NewSessionRequest, encode({"cwd": "/", "mcpServers": [value]}))
    return request.mcp_servers[0]


def test_an_mcp_server_without_a_type_is_a_stdio_server() -> None:
    assert server(STDIO) == v1.McpServerStdio(name="n", command="/c", args=[], env=[])
    assert server({"type": None, **STDIO}) == server(STDIO)


def test_an_mcp_server_of_an_unknown_type_with_a_command_is_a_stdio_server() -> None:
    assert server({"type": "stdio", **STDIO}) == server(STDIO)
    assert server({"type": 5, **STDIO}) == server(STDIO)


def test_an_mcp_server_of_an_unknown_type_without_a_command_is_kept() -> None:
    value = {"type": "carrier_pigeon", "name": "n"}

    assert server(value) == Other("carrier_pigeon", value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"type": "http", **STDIO}, "$.url: missing"),
        ({"name": "n"}, "$.command: missing"),
        ({"type": 5, "name": "n"}, "$.type: expected str, got int"),
        ([], "$: expected object, got array"),
    ],
)
def test_an_invalid_mcp_server_is_rejected_by_its_own_type(value: Any, problem: str) -> None:
    mcp_server: Any = v1.McpServer

    assert refusal(mcp_server, value) == problem


def test_an_auth_method_without_a_known_type_is_an_agent_method() -> None:
    raw = encode(
        {"protocolVersion": 1, "authMethods": [{"id": "a", "name": "A"}, {"type": "env_var", "id": "b", "name": "B"}]}
    )

    assert [type(method) for method in decode(v1.InitializeResponse, raw).auth_methods] == [v1.AuthMethodAgent] * 2


def test_a_terminal_auth_method_with_invalid_args_is_dropped() -> None:
    raw = encode({"protocolVersion": 1, "authMethods": [{"type": "terminal", "id": "a", "name": "A", "args": 5}]})

    assert decode(v1.InitializeResponse, raw).auth_methods == []


def test_a_config_option_is_set_by_a_string_or_a_boolean() -> None:
    option: Any = v1.SetSessionConfigOptionRequest
    base = {"sessionId": "s", "configId": "c"}

    assert decode(option, encode({**base, "value": "x"})).value == "x"
    assert decode(option, encode({**base, "type": "boolean", "value": True})).value is True
    assert decode(option, encode({**base, "type": "_later", "value": "x"})).value == "x"
    assert refusal(option, {**base, "type": "boolean", "value": "x"}) == "$.value: expected bool, got str"
    assert refusal(option, {**base, "value": True}) == "$.value: expected str, got bool"


@pytest.mark.parametrize("module", [v1, v2])
def test_an_embedded_resource_is_discriminated_by_text_or_blob(module: Any) -> None:
    resource = module.EmbeddedResourceResource

    assert isinstance(decode(resource, b'{"uri":"u","text":""}'), module.TextResourceContents)
    assert isinstance(decode(resource, b'{"uri":"u","blob":""}'), module.BlobResourceContents)
    assert refusal(resource, {"uri": "u"}) == "$.text: missing"
    assert refusal(resource, 5) == "$: expected object, got int"


@pytest.mark.parametrize(("module", "key"), [(v1, "group"), (v2, "groupId")])
def test_select_options_are_flat_or_grouped_but_not_both(module: Any, key: str) -> None:
    options = module.SessionConfigSelectOptions
    flat = {"value": "v", "name": "n"}
    grouped = {key: "g", "name": "n", "options": [flat]}

    assert isinstance(decode(options, encode([flat]))[0], module.SessionConfigSelectOption)
    assert isinstance(decode(options, encode([grouped]))[0], module.SessionConfigSelectGroup)
    assert refusal(options, [flat, grouped]) == "$[1].value: missing"
    assert refusal(options, [grouped, flat]) == f"$[1].{key}: missing"
    assert refusal(options, {}) == "$: expected array, got object"


def test_no_select_options_are_fine_in_v1_and_too_few_in_v2() -> None:
    first: Any = v1.SessionConfigSelectOptions
    second: Any = v2.SessionConfigSelectOptions

    assert decode(first, b"[]") == []
    assert refusal(second, []) == "$: needs at least 1 item"


@pytest.mark.parametrize("module", [v1, v2])
def test_the_result_of_an_mcp_message_wins_over_its_error_and_may_be_null(module: Any) -> None:
    response = module.MessageMcpResponse

    assert decode(response, b'{"result":null,"error":{"code":1,"message":"m"}}') == module.MessageMcpResult(result=None)
    assert refusal(response, {"error": None}) == "$.error: expected object, got null"


@pytest.mark.parametrize("module", [v1, v2])
def test_an_mcp_error_is_checked_and_kept_unchanged(module: Any) -> None:
    error = {"code": 1, "message": "m", "data": None, "more": [1]}
    found = decode(module.MessageMcpResponse, encode({"error": error}))

    assert found == module.MessageMcpError(error=error)
    assert encode(found) == encode({"error": error})
    assert refusal(module.MessageMcpResponse, {"error": {"code": "1"}}) == "$.error.code: expected int, got str"


def test_a_union_of_one_member_still_requires_its_tag() -> None:
    command: Any = v2.AvailableCommand

    assert refusal(command, {"name": "n", "description": "d"}) == "$.type: missing"
    assert refusal(command, {"type": 5, "name": "n", "description": "d"}) == "$.type: expected str, got int"
    assert refusal(command, {"type": "_later"}) == "$.name: missing"
    assert decode(command, b'{"type":"command","name":"n","description":"d"}') == v2.Command(name="n", description="d")


def test_isinstance_works_with_every_union() -> None:
    mcp_server: Any = v1.McpServer
    resource: Any = v1.EmbeddedResourceResource
    command: Any = v2.AvailableCommand

    assert isinstance(v1.McpServerStdio(name="n", command="c", args=[], env=[]), mcp_server)
    assert isinstance(Other("x", {}), mcp_server)
    assert isinstance(v1.TextResourceContents(uri="u", text="t"), resource)
    assert not isinstance(v1.TextContent(text="t"), resource)
    assert isinstance(v2.Command(name="n", description="d"), command)
