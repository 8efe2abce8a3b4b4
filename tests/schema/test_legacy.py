"""Models of a session, as agents of 2025 still send them."""

from __future__ import annotations

import pytest

from duologue.errors import InvalidParams
from duologue.schema import legacy, v1
from duologue.schema.base import JsonValue
from duologue.schema.codec import decode, encode

STATE = legacy.SessionModelState(
    current_model_id="a",
    available_models=[
        legacy.ModelInfo(model_id="a", name="A"),
        legacy.ModelInfo(model_id="b", name="B", description="!"),
    ],
)


@pytest.mark.parametrize(
    "response",
    [
        legacy.NewSessionResponse(session_id="s", models=STATE),
        legacy.LoadSessionResponse(models=STATE),
        legacy.ResumeSessionResponse(models=STATE),
        legacy.ForkSessionResponse(session_id="s", models=STATE),
    ],
)
def test_models_are_written_with_the_result_and_found_in_its_bytes(response: object) -> None:
    raw = encode(response)

    assert legacy.models_of(raw) == STATE
    assert decode(type(response), raw) == response


def test_a_handler_of_the_current_method_may_return_one() -> None:
    response: v1.NewSessionResponse = legacy.NewSessionResponse(session_id="s", models=STATE)

    assert decode(v1.NewSessionResponse, encode(response)).session_id == "s"


@pytest.mark.parametrize(
    "raw", [b"null", b"{}", b'{"models":null}', b'{"models":5}', b'{"models":{"currentModelId":"a"}}']
)
def test_absent_and_invalid_models_are_none(raw: bytes) -> None:
    assert legacy.models_of(raw) is None


def test_a_bad_model_is_dropped_from_the_list() -> None:
    raw = (
        b'{"models":{"currentModelId":"a","availableModels":[{"modelId":"a","name":"A","description":5},{"name":"B"}]}}'
    )
    state = legacy.models_of(raw)

    assert state is not None
    assert state.available_models == [legacy.ModelInfo(model_id="a", name="A")]


def test_a_result_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidParams):
        legacy.models_of(b"[]")


def test_the_model_is_set_by_a_method_of_its_own() -> None:
    assert legacy.SESSION_SET_MODEL.name == "session/set_model"
    assert not legacy.SESSION_SET_MODEL.stable
    request = legacy.SetSessionModelRequest(session_id="s", model_id="a")
    assert encode(request) == b'{"sessionId":"s","modelId":"a"}'


def test_the_initialize_response_is_read_with_auth_methods_of_every_draft() -> None:
    raw = b'{"protocolVersion":1,"authMethods":[{"id":"key","name":"Key","type":"env_var","varName":"API_KEY"}]}'
    answer = decode(legacy.InitializeResponse, raw)

    assert answer.agent_capabilities == legacy.LegacyAgentCapabilities()
    assert [type(method).__name__ for method in answer.auth_methods] == ["AuthMethodEnvVar"]


def test_the_former_name_of_the_mcp_capabilities_counts_only_if_the_present_one_is_missing() -> None:
    former = b'{"protocolVersion":1,"agentCapabilities":{"mcp":{"http":true}}}'
    both = b'{"protocolVersion":1,"agentCapabilities":{"mcp":{"http":true},"mcpCapabilities":{"sse":true}}}'

    assert mcp_of(former) == v1.McpCapabilities(http=True)
    assert mcp_of(both) == v1.McpCapabilities(sse=True)


@pytest.mark.parametrize(
    ("options", "seconds", "output"),
    [
        (None, None, False),
        ({"timeout": 1500, "output": True}, 1.5, True),
        ({"timeout": -1}, None, False),
        ({"timeout": True, "output": 1}, None, False),
        ({"timeout": 1e300}, legacy.MAX_WAIT_MILLISECONDS / 1000, False),
        ("soon", None, False),
    ],
)
def test_the_wait_options_of_seed_004_are_read_from_meta(
    options: JsonValue, seconds: float | None, output: bool
) -> None:
    assert legacy.wait_request({legacy.DIALECT_KEY: options}) == legacy.WaitRequest(seconds, output)
    assert legacy.wait_request(None) == legacy.WaitRequest()
    assert legacy.seed_meta(output="x") == {legacy.DIALECT_KEY: {"output": "x"}}


def mcp_of(response: bytes) -> v1.McpCapabilities:
    return decode(legacy.InitializeResponse, response).agent_capabilities.mcp_capabilities
