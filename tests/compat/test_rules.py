"""Messages that rules leave unchanged: members that exist are never overwritten, ambiguous ones stay."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from duologue.compat.dialects import Dialect
from duologue.compat.normaliser import Normaliser
from duologue.compat.rules import Side
from tests.compat.vectors import play

Json = dict[str, Any]


def call(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def update(**fields: Any) -> Json:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": fields}}


def result(value: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "result": value}


def failure(**error: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "error": error}


NO_METHODS: Json = {"authenticationMethods": []}
BASE64 = {"type": "base64", "mediaType": "image/png", "data": "AAAA"}


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ("agent", call("initialize", clientCapabilities={"terminal": "yes"})),
        ("agent", call("initialize", clientCapabilities=[True])),
        ("agent", call("session/new", mcpServers={"transport": "stdio"})),
        ("agent", call("session/new", mcpServers=[{"name": "a", "transport": 7, "type": "http"}])),
        ("agent", call("session/load", sessionId="s")),
        ("agent", call("session/set_config_option", option="a", configId="b", value="c")),
        ("agent", call("session/set_config_option", configId="b", type="_new", value=True)),
        ("agent", call("session/prompt", prompt=[{"type": "image", "source": {"type": "url", "url": "https://e"}}])),
        ("agent", call("session/prompt", prompt=[{"type": "image", "source": BASE64, "data": "BBBB"}])),
        ("agent", call("session/prompt", prompt=[{"type": "image", "source": {"type": "base64"}}])),
        ("agent", call("session/prompt", prompt=[{"type": "_scan", "source": BASE64}, "text", None])),
        ("agent", call("session/set_model", sessionId="s", modelId="deep")),
        ("client", call("fs/read_text_file", startLine=1, line=2, lineLimit=3, limit=4)),
        ("client", call("terminal/create", command="ls", env=["A=B"])),
        ("client", call("session/request_permission", options=[], message=7)),
        ("client", call("session/request_permission", options=[], description="no title")),
        ("client", call("session/request_permission", options=[{"name": "a", "label": "b", "kind": "_maybe"}])),
        ("client", update(type="_unknown")),
        ("client", update(type=["tool_call"])),
        ("client", update(sessionUpdate="_new", type="tool_call", status="running", location={})),
        ("client", update(sessionUpdate="current_mode_update", modeId="a", currentModeId="b")),
        ("client", update(sessionUpdate="plan", modeId="a")),
        ("client", update(sessionUpdate="tool_call", location={"path": "/a"}, locations=[])),
        ("client", update(sessionUpdate="tool_call", location="/a", status="_held")),
        ("client", update(sessionUpdate="tool_call", content=[{"type": "_new"}, {"type": {}}, "text"])),
        ("client", update(sessionUpdate="tool_call", content={"type": "text", "text": "a"})),
        ("client", update(type="message", role="_other", content=[])),
        ("client", update(type="message", role="agent", content="hello")),
        ("client", update(type="message", sessionUpdate="_new", role="agent", content=[])),
        ("client", failure(code=-32002, message="bad method, or not found")),
        ("client", failure(code=-32099, message="of one's own")),
    ],
)
def test_a_message_that_is_not_a_seed_form_is_unchanged(side: Side, message: Json) -> None:
    assert play(Normaliser(None, side), "incoming", message) == [message]


@pytest.mark.parametrize(
    ("method", "side", "value"),
    [
        ("initialize", "client", {"agentCapabilities": {"mcp": {}, "mcpCapabilities": {}}}),
        ("initialize", "client", {"agentCapabilities": {"mcpCapabilities": {"supportedTransports": "stdio"}}}),
        ("initialize", "client", {"authMethods": [{"id": "a", "methodId": "b", "name": "c", "title": "d"}]}),
        ("session/new", "client", {"sessionId": "s", "modes": [{"modeId": "a"}]}),
        ("session/new", "client", {"sessionId": "s", "models": {"currentModelId": "a", "availableModels": []}}),
        ("session/prompt", "client", {"stopReason": "refusal", "content": [{"type": "text", "text": "no"}]}),
        ("session/prompt", "client", {"content": "hello"}),
        ("session/prompt", "client", None),
        ("session/set_config_option", "client", [1]),
        ("session/set_mode", "client", {"_meta": {}}),
        ("terminal/output", "agent", {"exitCode": 0}),
        ("terminal/output", "agent", {"output": "", "truncated": True}),
        ("terminal/output", "agent", {"output": "", "exitCode": 1, "exitStatus": {"exitCode": 0}}),
        ("terminal/wait_for_exit", "agent", {"exitCode": 0}),
    ],
)
def test_an_answer_that_is_not_a_seed_form_is_unchanged(method: str, side: Side, value: Any) -> None:
    normaliser = Normaliser(None, side)
    play(normaliser, "outgoing", call(method, sessionId="s"))

    assert play(normaliser, "incoming", result(value)) == [result(value)]


@pytest.mark.parametrize(
    ("dialect", "side", "message"),
    [
        ("seed-004", "client", call("initialize", clientCapabilities={"fs": {}})),
        ("seed-004", "client", call("session/new", mcpServers=[])),
        ("seed-004", "client", call("session/set_config_option", option="a", configId="b", value="c")),
        ("seed-003", "client", call("session/new", mcpServers=[{"type": "http", "name": "a", "url": "u"}])),
        ("seed-003", "client", call("session/prompt", prompt=[{"type": "image", "uri": "file:///a"}])),
        ("seed-003", "agent", call("session/request_permission", options=[], toolCall={"toolCallId": "t"}, message="")),
        ("seed-003", "agent", call("session/request_permission", options=[{"kind": "allow_once", "label": "a"}])),
        ("seed-004", "agent", call("terminal/create", command="ls")),
        ("seed-004", "agent", call("fs/read_text_file", path="/a")),
        ("seed-004", "agent", update(type="tool_call", sessionUpdate="agent_message_chunk")),
        ("seed-004", "agent", failure(code=-32603, message="broken", data={"code": -32000})),
        ("seed-004", "agent", failure(code=-32601, message="unknown method")),
    ],
)
def test_a_message_that_needs_no_other_form_is_written_unchanged(dialect: Dialect, side: Side, message: Json) -> None:
    assert play(Normaliser(dialect, side), "outgoing", message) == [message]


@pytest.mark.parametrize(
    ("method", "side", "value"),
    [
        ("initialize", "agent", {"agentCapabilities": {"mcpCapabilities": {"acp": True}}, **NO_METHODS}),
        ("initialize", "agent", {"agentCapabilities": {"mcpCapabilities": {"supportedTransports": []}}, **NO_METHODS}),
        ("session/load", "agent", {"modes": {"currentModeId": "a", "availableModes": []}}),
        ("session/set_config_option", "agent", {}),
        ("session/request_permission", "client", {}),
        ("terminal/output", "client", {"output": "", "exitCode": 0}),
        ("terminal/output", "client", {}),
        ("terminal/wait_for_exit", "client", {"exitCode": 0, "signal": "SIGTERM"}),
        ("terminal/wait_for_exit", "client", {"exitCode": None, "signal": None}),
    ],
)
def test_an_answer_that_needs_no_other_form_is_written_unchanged(method: str, side: Side, value: Any) -> None:
    normaliser = Normaliser("seed-004", side)
    play(normaliser, "incoming", call(method, sessionId="s"))

    assert play(normaliser, "outgoing", result(value)) == [result(value)]


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ({"command": "/usr/bin/"}, "server"),
        ({"command": "npx"}, "npx"),
        ({"url": "not a url"}, "server"),
        ({"url": "https://key@e.example:1/p"}, "e.example"),
        ({}, "server"),
    ],
)
def test_every_server_without_a_name_gets_one(server: Json, name: str) -> None:
    [message] = play(Normaliser(None, "agent"), "incoming", call("session/new", mcpServers=[server]))

    assert message["params"]["mcpServers"] == [{**server, "name": name}]


@pytest.mark.parametrize(("signal", "code"), [("SIGHUP", 129), ("kill", 137), ("SIGNONE", 128), ("", 128)])
def test_a_signal_is_written_as_a_shell_would(signal: str, code: int) -> None:
    normaliser = Normaliser("seed-004", "client")
    play(normaliser, "incoming", call("terminal/wait_for_exit"))

    assert play(normaliser, "outgoing", result({"signal": signal})) == [result({"signal": signal, "exitCode": code})]


MODELS = {"currentModelId": "fast", "availableModels": [{"modelId": "fast"}]}
OWN: Json = {"id": "llm", "category": "model", "type": "select", "currentValue": "fast", "options": [{"value": "fast"}]}


@pytest.mark.parametrize(
    ("direction", "side", "value"),
    [
        ("incoming", "client", {"sessionId": "s", "models": MODELS, "configOptions": [OWN]}),
        ("incoming", "client", {"sessionId": "s", "models": MODELS, "configOptions": [{"id": "model"}]}),
        ("incoming", "client", {"sessionId": "s", "models": None}),
        ("outgoing", "agent", {"sessionId": "s", "models": MODELS, "configOptions": [OWN]}),
        ("outgoing", "agent", {"sessionId": "s", "configOptions": [{**OWN, "type": "boolean"}]}),
        ("outgoing", "agent", {"sessionId": "s", "configOptions": [{**OWN, "id": 1}]}),
    ],
)
def test_models_of_an_agent_that_has_an_option_for_them_are_unchanged(
    direction: Literal["incoming", "outgoing"], side: Side, value: Any
) -> None:
    normaliser = Normaliser(None, side, models=True)
    play(normaliser, "outgoing" if direction == "incoming" else "incoming", call("session/new"))

    assert play(normaliser, direction, result(value)) == [result(value)]


def test_models_are_unchanged_unless_the_adaptation_is_switched_on() -> None:
    normaliser = Normaliser(None, "client")
    play(normaliser, "outgoing", call("session/new"))
    opened = result({"sessionId": "s", "models": MODELS})

    assert play(normaliser, "incoming", opened) == [opened]


def test_an_option_of_the_agents_own_is_set_as_an_option() -> None:
    client, agent = Normaliser(None, "client", models=True), Normaliser(None, "agent", models=True)
    play(client, "outgoing", call("session/new"))
    play(client, "incoming", result({"sessionId": "s", "configOptions": [OWN]}))
    change = call("session/set_config_option", sessionId="s", configId="llm", value="deep")
    listed = update(sessionUpdate="config_option_update", configOptions=[])

    assert play(client, "outgoing", change) == [change]
    assert play(client, "incoming", listed) == [listed]
    assert play(agent, "incoming", call("session/set_model", sessionId="s", modelId="deep")) == [
        call("session/set_model", sessionId="s", modelId="deep")
    ]


def test_a_list_that_contains_the_model_is_unchanged() -> None:
    normaliser = Normaliser(None, "client", models=True)
    play(normaliser, "outgoing", call("session/new"))
    play(normaliser, "incoming", result({"sessionId": "s", "models": MODELS}))
    listed = update(sessionUpdate="config_option_update", configOptions=[{"id": "model"}])
    other = update(sessionUpdate="usage_update", used=1, size=2)

    assert play(normaliser, "incoming", other) == [other]
    assert play(normaliser, "incoming", listed) == [listed]
