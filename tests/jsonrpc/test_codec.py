"""Parsing and serializing of messages."""

from __future__ import annotations

import json
import re
import time
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, Struct

from duologue.errors import EncodeError, InternalError, InvalidParams, InvalidRequest, ParseError, RequestError
from duologue.jsonrpc.codec import (
    MAX_DEPTH,
    MAX_ID_CHARS,
    MAX_NUMBER_CHARS,
    MAX_SURROGATES,
    Malformed,
    are_notifications,
    decoded_bytes,
    has_long_number,
    is_legal_id,
    is_well_formed,
    parse,
    repair_surrogates,
    serialize_error,
    serialize_notification,
    serialize_request,
    serialize_result,
)
from duologue.jsonrpc.messages import JsonRpcMessage
from tests.jsonrpc.frames import broken_frames, frames, json_values


def refusal(frame: bytes) -> Malformed:
    with pytest.raises(Malformed) as caught:
        parse(frame)
    return caught.value


def request_with(params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + params + b"}"


def test_a_request_keeps_its_id_and_its_raw_params() -> None:
    message = parse(b'{"jsonrpc":"2.0","id":"7","method":"session/prompt","params":{"a": 9007199254740993}}')

    assert (message.id, message.method, message.result, message.error) == ("7", "session/prompt", UNSET, UNSET)
    assert isinstance(message.params, Raw)
    assert bytes(message.params) == b'{"a": 9007199254740993}'


def test_text_beyond_ascii_is_unchanged() -> None:
    message = parse('{"jsonrpc":"2.0","method":"grüße","params":"\u2028 🐟"}'.encode())

    assert message.method == "grüße"
    assert isinstance(message.params, Raw)
    assert bytes(message.params) == '"\u2028 🐟"'.encode()


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "not JSON"),
        (b"hello", "not JSON"),
        (b"[1,", "not JSON"),
        (b'{"jsonrpc":"2.0","method":"m"} {}', "not JSON"),
        (request_with(b'"\\x"'), "not JSON: invalid escape"),
        (request_with(b'"\\ud800'), "not JSON"),
        (request_with(b'"\xff"'), "not UTF-8 at byte 47"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"m"}', "not JSON"),
    ],
)
def test_invalid_json_or_utf_8_is_a_parse_error_with_the_position(frame: bytes, reason: str) -> None:
    bad = refusal(frame)

    assert isinstance(bad.error, ParseError)
    assert reason in bad.error.message
    assert (bad.id, bad.is_response) == (None, False)


@pytest.mark.parametrize(
    ("frame", "reason", "id"),
    [
        (b"[]", "batches", None),
        (b'[{"jsonrpc":"2.0","method":"m","id":1}]', "batches", None),
        (b"1", "not a number", None),
        (b"1.5", "not a number", None),
        (b'"a"', "not a string", None),
        (b"true", "not a boolean", None),
        (b"null", "not null", None),
        (b"{}", 'jsonrpc must be "2.0"', None),
        (b'{"jsonrpc":"1.0","id":4,"method":"m"}', 'jsonrpc must be "2.0"', 4),
        (b'{"jsonrpc":2.0,"id":"x","method":"m"}', 'jsonrpc must be "2.0"', "x"),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', "not null", None),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"m"}', "not a number", None),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', "not a boolean", None),
        (b'{"jsonrpc":"2.0","id":{},"method":"m"}', "not an object", None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"m"}', "not an array", None),
        (b'{"jsonrpc":"2.0","id":3,"method":null}', "method must be a string, not null", 3),
        (b'{"jsonrpc":"2.0","id":3,"method":5}', "method must be a string, not a number", 3),
        (b'{"jsonrpc":"1.0","id":3}', 'jsonrpc must be "2.0"', 3),
        (b'{"jsonrpc":"2.0","id":' + b"1" * 5000 + b',"method":"m"}', "a number is out of range", None),
        (b'{"jsonrpc":"2.0","id":null,"id":1,"method":"m"}', "got `null`", None),
    ],
)
def test_json_that_is_no_message_is_an_invalid_request_with_the_reason(
    frame: bytes, reason: str, id: int | str | None
) -> None:
    bad = refusal(frame)

    assert isinstance(bad.error, InvalidRequest)
    assert reason in bad.error.message
    assert bad.id == id
    assert not bad.is_response


def test_an_object_that_is_neither_request_nor_response_is_rejected_even_with_invalid_members() -> None:
    assert refusal(b'{"jsonrpc":"2.0","params":{},"id":"\\ud800","error":5,"method":[]}').error.code == -32600
    assert "neither a method nor" in refusal(b'{"jsonrpc":"2.0","id":1,"jsonrpc":"1","jsonrpc":"2.0"}').error.message


@pytest.mark.parametrize("member", [b'"result":1', b'"error":{}'])
def test_a_malformed_response_is_distinguished_from_a_malformed_request(member: bytes) -> None:
    bad = refusal(b'{"jsonrpc":"1.0","id":9,' + member + b"}")

    assert bad.is_response
    assert bad.id == 9


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb'"\ud800"', "\ufffd"),
        (rb'"\udc00\ud800"', "\ufffd\ufffd"),
        (rb'"\uD83D\uDE00 \uD83D"', "😀 \ufffd"),
        (rb'"\\ud800 \ud800"', "\\ud800 \ufffd"),
        (rb'{"\udfff": 1}', {"\ufffd": 1}),
    ],
)
def test_lone_surrogate_escapes_become_replacement_characters(written: bytes, read: object) -> None:
    message = parse(request_with(written))

    assert isinstance(message.params, Raw)
    assert json.loads(bytes(message.params)) == read


def test_replacing_a_surrogate_changes_no_other_byte() -> None:
    before = rb'{"n":123456789012345678901234567890,"f":0.10,"d":1,"d":2, "s":"\u00e9"'

    message = parse(request_with(before + rb',"x":"\ud800"}'))

    assert isinstance(message.params, Raw)
    assert bytes(message.params) == before + rb',"x":"\ufffd"}'


def test_a_frame_with_too_many_surrogates_is_left_unchanged() -> None:
    most, more = (b'"%b"' % (rb"\ud800" * count) for count in (MAX_SURROGATES, MAX_SURROGATES + 1))

    assert repair_surrogates(most) == most.replace(b"d800", b"fffd")
    assert repair_surrogates(more) is more


def test_other_encodings_than_utf_8_are_not_guessed() -> None:
    """U+755C in UTF-16 is a backslash and a `u`."""
    frame = '{"jsonrpc":"2.0","method":"m","params":"\u755c"}'

    assert refusal(frame.encode("utf-16-le")).error.code == -32700
    assert refusal(frame.encode("utf-16-be")).error.code == -32700


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_is_allowed_to_the_limit_and_no_further(opening: bytes, closing: bytes) -> None:
    inner = MAX_DEPTH - 1  # the message itself is the first level

    parse(request_with(opening * inner + b"1" + closing * inner))
    for too_deep in (inner + 1, 100_000):
        assert "200 levels" in refusal(request_with(opening * too_deep + b"1" + closing * too_deep)).error.message


def test_brackets_inside_strings_do_not_count_as_nesting() -> None:
    parse(request_with(b'"' + b"[" * 1000 + b'\\"{{"'))


def test_an_incomplete_deep_text_is_rejected_for_its_depth() -> None:
    assert "200 levels" in refusal(b"[" * 100_000).error.message


@pytest.mark.parametrize(
    "frame",
    [
        b'"' + b'\\"' * 500_000,
        b'"\\' * 500_000,
        b'{"a":"' + b"\\ud800" * 170_000,
        request_with(b'"' + b"\\ud800" * 170_000 + b'"'),
        b"[" * 1_000_000,
        b"1" * 1_000_000,
        b'{"a":' * 200_000,
    ],
    ids=lambda frame: repr(frame[:20]),
)
def test_a_megabyte_of_hostile_json_is_parsed_in_linear_time(frame: bytes) -> None:
    """Quadratic time would take minutes; a second allows for slow machines."""
    began = time.process_time()
    try:
        parse(frame)
    except Malformed:
        pass

    assert time.process_time() - began < 1


def test_numbers_just_below_the_limit_cost_linear_time() -> None:
    frame = b"[" + b",".join([b"1" * (MAX_NUMBER_CHARS - 1)] * 10_000) + b"]"

    began = time.process_time()
    assert not has_long_number(frame)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("frame", "is_long"),
    [
        (b'{"a":%s}' % (b"1" * 401), True),
        (b'{"a":-1.%s}' % (b"1" * 400), True),
        (b'{"a":%s}' % (b"1" * 400), False),
        (b'{"a":"%s"}' % (b"1" * 500), False),
        (b'{"a":"\\"%s"}' % (b"1" * 500), False),
    ],
)
def test_long_numbers_are_found_outside_strings(frame: bytes, is_long: bool) -> None:
    assert has_long_number(frame) is is_long


@pytest.mark.parametrize(
    ("id", "is_legal"),
    [
        ("", True),
        ("a" * MAX_ID_CHARS, True),
        ("a" * (MAX_ID_CHARS + 1), False),
        (-5, True),
        (2**64, True),
        (10**MAX_NUMBER_CHARS, False),
        (-(10**MAX_NUMBER_CHARS), False),
    ],
)
def test_ids_are_legal_up_to_a_length(id: int | str, is_legal: bool) -> None:
    assert is_legal_id(id) is is_legal


def test_an_id_that_is_too_long_is_not_repeated_in_the_error() -> None:
    assert refusal(b'{"jsonrpc":"1.0","method":"m","id":"' + b"a" * 1025 + b'"}').id is None


class Point(Struct, rename="camel", omit_defaults=True):
    some_where: int
    label: str = ""
    tags: tuple[str, ...] = ()


def test_messages_are_serialized_in_one_line_and_in_a_fixed_order() -> None:
    assert serialize_request(1, "m", Point(3)) == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"someWhere":3}}'
    assert serialize_notification("m", Raw(b'{"a":1}')) == b'{"jsonrpc":"2.0","method":"m","params":{"a":1}}'
    assert serialize_notification("m", UNSET) == b'{"jsonrpc":"2.0","method":"m"}'
    assert serialize_result("a", {"text": "\n\r"}) == b'{"jsonrpc":"2.0","id":"a","result":{"text":"\\n\\r"}}'


def test_an_error_is_written_with_its_data_only_if_it_has_some() -> None:
    plain = serialize_error(None, ParseError("no"))
    assert plain == b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}'
    assert serialize_error(2, InvalidParams(data=[1])) == (
        b'{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"InvalidParams","data":[1]}}'
    )


def test_lone_surrogates_are_serialized_as_replacement_characters() -> None:
    value = {"\ud800": [Point(1, "x\udfff", ("\udc00",))], "raw": Raw(b'{"n":1}'), "n": 1.5}

    written = json.loads(serialize_result(1, value).decode())

    assert written["result"] == {
        "\ufffd": [{"someWhere": 1, "label": "x\ufffd", "tags": ["\ufffd"]}],
        "raw": {"n": 1},
        "n": 1.5,
    }


class Hostile:
    """A value whose own code fails when it is looked at."""

    @property
    def __dataclass_fields__(self) -> Any:
        raise KeyError("do not touch")


def cyclic_list() -> list[Any]:
    itself: list[Any] = []
    itself.append(itself)
    return itself


@pytest.mark.parametrize(
    "value",
    [object(), cyclic_list(), {(1, 2): 3}, Hostile(), ["\ud800", object()]],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_json_raises_an_encode_error_and_nothing_else(value: object) -> None:
    with pytest.raises(EncodeError, match="cannot be written as JSON"):
        serialize_result(1, value)


@given(json_values)
def test_every_json_value_is_serialized_as_one_line_and_parsed_back(value: Any) -> None:
    frame = serialize_notification("m", value)

    assert b"\n" not in frame
    assert json.loads(frame.decode())["params"] == value


@given(st.text(st.characters(min_codepoint=0xD700, max_codepoint=0xE100), max_size=20))
def test_any_text_is_written_as_valid_utf_8(text: str) -> None:
    frame = serialize_error("id", InternalError(text, data={text: text}))

    assert json.loads(frame.decode())["error"]["data"] == {repaired(text): repaired(text)}


def repaired(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def outcome(frame: bytes) -> JsonRpcMessage | Malformed:
    """Return the message or the error of a frame; nothing else may happen."""
    try:
        return parse(frame)
    except Malformed as bad:
        assert type(bad.error) in (ParseError, InvalidRequest)
        assert bad.error.message
        return bad


def reject_constant(name: str) -> None:
    raise ValueError(name)


def standard_library_result(frame: bytes) -> Any:
    """Return what the standard library reads, or the error it raises."""
    try:
        return json.loads(frame.decode(), parse_constant=reject_constant)
    except (ValueError, RecursionError) as error:
        return error


@given(frames() | broken_frames() | st.binary(max_size=60))
def test_every_frame_is_a_message_or_malformed_and_the_standard_library_agrees(frame: bytes) -> None:
    found = outcome(frame)
    expected = standard_library_result(frame)

    if isinstance(found, Malformed):
        if found.error.code == -32700:
            assert isinstance(expected, Exception)
        elif "out of range" not in found.error.message:
            assert not isinstance(expected, Exception)
        return
    assert isinstance(expected, dict)
    members = cast("dict[str, Any]", expected)
    assert members["jsonrpc"] == "2.0"
    for name in ("id", "method"):
        value: object = getattr(found, name)
        assert value == (repaired(members[name]) if isinstance(members.get(name), str) else members.get(name, UNSET))
    for name in ("params", "result", "error"):
        assert (getattr(found, name) is not UNSET) == (name in members)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (b'"plain"', True),
        ('"naïve"'.encode(), True),
        (b'"\xff"', False),
        (b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1), True),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, False),
        (b'"' + b"[" * 1000 + b'"', True),
    ],
)
def test_is_well_formed_checks_what_a_typed_decode_does_not(params: bytes, expected: bool) -> None:
    frame = request_with(params)

    assert is_well_formed(frame) is expected
    assert isinstance(outcome(frame), Malformed) is not expected


def test_the_text_of_malformed_is_the_reason() -> None:
    assert str(Malformed(RequestError("why"))) == "why"


@pytest.mark.parametrize("backslashes", [0, 1, 63, 64, 65, 1023, 1024, 1025])
def test_a_lone_surrogate_behind_backslashes_is_replaced_only_if_it_is_an_escape(
    backslashes: int,
) -> None:
    escaped = b'{"jsonrpc":"2.0","method":"m","params":{"a":"' + b"\\\\" * backslashes + b'\\ud800"}}'
    plain = b'{"jsonrpc":"2.0","method":"m","params":{"a":"' + b"\\\\" * backslashes + b'ud800 \\ud800"}}'

    assert json.loads(params_of(escaped))["a"] == "\\" * backslashes + "\ufffd"
    assert json.loads(params_of(plain))["a"] == "\\" * backslashes + "ud800 \ufffd"


def params_of(frame: bytes) -> bytes:
    message = parse(frame)
    assert isinstance(message, JsonRpcMessage)
    return bytes(cast("Raw", message.params))


def test_the_memory_of_a_text_is_estimated_by_its_values_and_not_by_its_strings() -> None:
    values = b"[" + b"[]," * 100_000 + b"[]]"
    text = b'"' + b"[]," * 100_000 + b'"'

    assert decoded_bytes(b"{}") < 1000
    assert decoded_bytes(values) > 10 * len(values)
    assert decoded_bytes(text) < 2 * len(text)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], True),
        ([b'{"jsonrpc":"2.0","method":"z"}'], True),
        ([b'{"jsonrpc":"2.0","id":1,"method":"a"}'], False),
        ([b'{"jsonrpc":"2.0","result":{},"id":1}'], False),
        ([b""], False),
    ],
)
def test_frames_are_notifications_if_each_of_them_begins_like_one(others: list[bytes], expected: bool) -> None:
    assert are_notifications([b'{"jsonrpc":"2.0","method":"b"}', *others]) is expected
