"""Decoding and encoding of models: the functions, the pitfalls, and the only error."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Raw

from duologue.errors import EncodeError, InvalidParams
from duologue.schema import v1, v2
from duologue.schema.base import Model, Other
from duologue.schema.codec import (
    Defaulted,
    check_readable,
    decode,
    decode_result,
    decoder_for,
    encode,
    strict_decoder_for,
)

CHUNK = (
    b'{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi"},'
    b'"messageId":"m","_meta":{"a":1}}}'
)


def test_a_message_is_decoded_and_encoded_in_one_form() -> None:
    chunk = v1.AgentMessageChunk(content=v1.TextContent(text="Hi"), message_id="m", meta={"a": 1})
    message = v1.SessionNotification(session_id="s", update=chunk)

    assert decode(v1.SessionNotification, CHUNK) == message
    assert encode(message) == CHUNK


def test_raw_parts_of_an_envelope_are_read_without_copying_them_first() -> None:
    class Envelope(msgspec.Struct):
        params: Raw

    envelope = msgspec.json.decode(b'{"method":"session/update","params":' + CHUNK + b"}", type=Envelope)

    assert decoder_for(v1.SessionNotification)(envelope.params) == decode(v1.SessionNotification, CHUNK)


def test_a_decoder_is_built_once() -> None:
    assert decoder_for(v1.SessionNotification) is decoder_for(v1.SessionNotification)


def test_the_error_names_the_path() -> None:
    with pytest.raises(InvalidParams, match=r"^\$\.prompt\[0\]\.text: expected str, got int$"):
        decode(v1.PromptRequest, b'{"sessionId":"s","prompt":[{"type":"text","text":5}]}')


def test_tolerated_values_are_reported_in_the_order_of_the_fields() -> None:
    defaulted: list[Defaulted] = []
    raw = (
        b'{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":5,"content":[7]}}'
    )
    decode(v1.SessionNotification, raw, defaulted.append)

    assert defaulted == [
        Defaulted("$.update.kind", "expected str, got int; read as absent"),
        Defaulted("$.update.content[0]", "expected object, got int; item dropped"),
    ]


def test_the_reports_of_a_dropped_item_are_dropped_with_it() -> None:
    defaulted: list[Defaulted] = []
    raw = b'{"toolCallId":"c","content":[{"type":"content","content":{"type":"text","annotations":5}}]}'
    decode(v1.ToolCallUpdate, raw, defaulted.append)

    assert [entry.path for entry in defaulted] == ["$.content[0].content.text"]


def test_the_reports_of_a_value_read_as_absent_go_with_it() -> None:
    defaulted: list[Defaulted] = []
    background = b'[{"type":"terminal","terminalId":"t","_meta":5},7]'
    decode(v2.WorkState, b'{"state":"running","background":' + background + b"}", defaulted.append)

    assert [entry.path for entry in defaulted] == ["$.background[1]"]


def test_a_tolerated_value_in_an_untagged_union_is_reported_with_the_whole_path() -> None:
    defaulted: list[Defaulted] = []
    raw = b'{"protocolVersion":1,"authMethods":[{"id":"a","name":"A","description":5}]}'
    decode(v1.InitializeResponse, raw, defaulted.append)

    assert [entry.path for entry in defaulted] == ["$.authMethods[0].description"]


# --- parameters and results


def test_a_null_result_is_read_as_an_empty_object_where_an_object_is_expected() -> None:
    assert decode_result(v1.LoadSessionResponse, b"null") == v1.LoadSessionResponse()
    assert decode_result(v1.WriteTextFileResponse, b"{}") == v1.WriteTextFileResponse()


def test_a_null_result_stays_null_for_the_type_any() -> None:
    result: Any = v1.PROXY_SUCCESSOR.result

    assert decode_result(result, b"null") is None


# --- traps


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "unreadable JSON"),
        (b"{", "unreadable JSON"),
        (b"[1,", "unreadable JSON"),
        ("{}".encode("utf-16"), "unreadable JSON"),
        (b"\xef\xbb\xbf{}", "unreadable JSON"),
        (b'{"sessionId":NaN,"prompt":[]}', "unreadable JSON"),
        (b'{"sessionId":"\xff","prompt":[]}', "unreadable JSON"),
        (b'{"sessionId":1e999,"prompt":[]}', "Number out of range"),
        (b'{"sessionId":' + b"9" * 5_000 + b"}", "unreadable JSON"),
        (b'{"sessionId":' + b"[" * 100_000, "nested too deep"),
        (b'{"sessionId":"\\ud83d","prompt":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b'{"sessionId":"s","prompt":' + b"[" * 900 + b"]" * 900 + b"}", "expected object, got array"),
        (b"[]", "expected object, got array"),
        (b"5", "expected object, got int"),
    ],
)
def test_hostile_bytes_raise_invalid_params_only(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidParams, match=rf"^\$.*: .*{problem}"):
        decode(v1.PromptRequest, raw)


def test_half_a_surrogate_pair_is_read_as_the_replacement_character() -> None:
    raw = (
        b'{"sessionId":"a\\ud83d","prompt":[{"type":"text","text":"\\ud83d\\ude00 \\udc00","_meta":{"\\ud800":[1.5]}}]}'
    )
    request = decode(v1.PromptRequest, raw)

    assert request.session_id == "a\ufffd"
    assert request.prompt == [v1.TextContent(text="😀 \ufffd", meta={"\ufffd": [1.5]})]


def test_a_number_keeps_its_form_and_a_large_one_its_digits() -> None:
    raw = b'{"amount":5,"currency":"EUR","_meta":{"big":18446744073709551617}}'

    assert encode(decode(v1.Cost, raw)) == raw
    assert encode(decode(v1.Cost, raw.replace(b":5,", b":5.5,"))) == raw.replace(b":5,", b":5.5,")


@pytest.mark.fault("SCH-14")
@pytest.mark.parametrize("data", ["!not base64!", "YQ", "A" * (24 << 20)])
def test_base64_is_not_decoded(data: str) -> None:
    for module in (v1, v2):
        image = module.ImageContent(data=data, mime_type="image/png")
        assert decode(module.ImageContent, encode(image)) == image


# --- writing


def test_defaults_and_nones_are_left_out_and_nulls_that_mean_something_stay() -> None:
    assert encode(v1.InitializeRequest(protocol_version=1, client_capabilities=v1.ClientCapabilities())) == (
        b'{"protocolVersion":1}'
    )
    assert encode(v1.SessionInfoUpdate(title=None)) == b'{"sessionUpdate":"session_info_update","title":null}'
    assert encode(v1.ToolCallUpdate(tool_call_id="c", title=None)) == (
        b'{"sessionUpdate":"tool_call_update","toolCallId":"c"}'
    )


def test_models_can_be_encoded_by_msgspec_alone() -> None:
    """The runtime puts them into its envelope and encodes once."""
    servers: list[v1.McpServer] = [
        v1.McpServerHttp(name="h", url="u", headers=[]),
        v1.McpServerStdio(name="s", command="/c", args=[], env=[]),
        Other("later", {"type": "later", "name": "x"}),
    ]
    request = v1.NewSessionRequest(cwd="/", mcp_servers=servers)

    assert msgspec.json.Encoder().encode({"params": request}) == (
        b'{"params":{"cwd":"/","mcpServers":[{"type":"http","name":"h","url":"u","headers":[]},'
        b'{"name":"s","command":"/c","args":[],"env":[]},{"type":"later","name":"x"}]}}'
    )


@pytest.mark.parametrize("text", ["\ud800", object()])
def test_a_value_that_is_not_json_is_an_encode_error(text: Any) -> None:
    with pytest.raises(EncodeError, match="TextContent"):
        encode(v1.TextContent(text=text))


def test_a_cyclic_value_is_an_encode_error() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(EncodeError):
        encode(circle)


# --- types of the user's own


def test_a_type_that_cannot_be_decoded_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"Other.* cannot be read from JSON"):
        decode(Other, b"{}")


class Query(Model, frozen=True, kw_only=True):
    since: Annotated[str, Meta(pattern="^20")]
    ratio: float = 0.5
    level: Literal[1, 2] = 1


class Tree(Model, frozen=True, kw_only=True):
    branches: list[Tree]


@dataclasses.dataclass
class Branching:
    branches: list[Branching]


@dataclasses.dataclass
class Answer:
    count: int
    server: v1.McpServer


def test_a_users_own_model_is_decoded_strictly_and_its_errors_name_the_path() -> None:
    assert decode(Query, b'{"since":"2026","ratio":1,"level":2}') == Query(since="2026", ratio=1.0, level=2)
    with pytest.raises(InvalidParams, match=r"^\$\.level: Invalid enum value 3$"):
        decode(Query, b'{"since":"2026","level":3}')
    with pytest.raises(InvalidParams, match=r"^\$\.since: "):
        decode(Query, b'{"since":"1999"}')


@pytest.mark.parametrize(
    ("type_", "key", "problem"),
    [(Tree, "branches", "nested too deep"), (Branching, "branches", r"nested too deep|Expected object")],
)
def test_a_recursive_type_is_decoded_and_too_deep_values_are_rejected(
    type_: type[Tree | Branching], key: str, problem: str
) -> None:
    assert isinstance(decode(type_, f'{{"{key}":[{{"{key}":[]}}]}}'.encode()), type_)
    deep = f'{{"{key}":['.encode() * 400
    with pytest.raises(InvalidParams, match=problem):
        decode(type_, deep + b"5" + b"]}" * 400)


def test_a_users_dataclass_may_contain_types_of_the_schema() -> None:
    good = b'{"count":1,"server":{"name":"n","command":"c","args":[],"env":[]}}'

    assert isinstance(decode(Answer, good).server, v1.McpServerStdio)
    with pytest.raises(InvalidParams, match=r"^\$: Expected int, got str|^\$\.count: Expected int, got str"):
        decode(Answer, good.replace(b":1,", b':"x",'))
    with pytest.raises(InvalidParams, match="name: missing"):
        decode(Answer, b'{"count":1,"server":{"command":"c"}}')


def test_the_strict_decoder_tolerates_nothing() -> None:
    frame = b'{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","title":5}}'

    assert decoder_for(v1.SessionNotification)(frame).session_id == "s"
    with pytest.raises(msgspec.ValidationError):
        strict_decoder_for(v1.SessionNotification)(frame)


def test_a_type_that_cannot_be_decoded_is_rejected_in_advance() -> None:
    check_readable(Raw)
    check_readable(v1.PromptRequest)
    check_readable(dict[str, int])
    with pytest.raises(TypeError):
        check_readable(object)
