"""What is told of a frame without reading it."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET

from duologue.jsonrpc.outline import Unanswered, outline, repeated_name


def test_a_request_has_an_id_a_method_and_perhaps_a_session() -> None:
    shape = outline(b'{"jsonrpc":"2.0","id":"1","method":"x","params":{"a":{"sessionId":"no"},"sessionId":"s"}}')

    assert shape is not None
    assert (shape.id, shape.method, shape.session, shape.made_session) == ("1", "x", "s", None)


def test_a_response_may_make_a_session_or_fail() -> None:
    made = outline(b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}')
    empty = outline(b'{"jsonrpc":"2.0","id":1,"result":null}')
    failed = outline(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}')

    assert made is not None
    assert (made.method, made.made_session, made.is_error) == (UNSET, "s", False)
    assert empty is not None
    assert (empty.made_session, empty.is_error) == (None, False)
    assert failed is not None
    assert failed.is_error


@pytest.mark.parametrize("params", ["[1]", '"text"', '{"sessionId":1}', "null", "{}"])
def test_parameters_without_a_session_hide_nothing_else(params: str) -> None:
    shape = outline(b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b}' % params.encode())

    assert shape is not None
    assert (shape.id, shape.method, shape.session) == (1, "x", None)


@pytest.mark.parametrize(
    "frame", [b"", b"[]", b"1", b"nonsense", b'{"id":1.5}', b'{"id":{}}', b'{"method":1}', b"[" * 5000]
)
def test_what_has_no_envelope_has_no_outline(frame: bytes) -> None:
    assert outline(frame) is None


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ('{"id":1,"method":"x"}', None),
        ('{"id":1,"id":1}', "id"),
        ('{"method":"x","id":1,"method":"x"}', "method"),
        ('{"params":{"sessionId":"a","sessionId":"b"}}', "sessionId"),
        ('{"id":1,"params":{"id":1,"a":[{"id":1},{"id":2}]}}', None),
        ('{"id":1,"\\u0069d":2}', "id"),
        ('{"text":"\\u00e9"}', None),
        ('{"x":1,"x":2}', None),
        ('{"id":1,"text":"\\"id\\""}', None),
        ('{"id":1,"id":', None),
    ],
)
def test_a_name_that_is_there_twice_is_found_where_it_matters(frame: str, name: str | None) -> None:
    assert repeated_name(frame.encode()) == name


def test_a_frame_too_deep_to_look_into_repeats_nothing() -> None:
    deep = '{"id":1,"id":2,"a":' + "[" * 100_000

    assert repeated_name(deep.encode()) is None


def test_requests_are_remembered_until_they_are_answered() -> None:
    requests: Unanswered[str] = Unanswered()
    requests.asked(1, "one")
    requests.asked("1", "another")
    requests.asked(2, "two")

    assert len(requests) == 3
    assert requests.about("1") == "another"
    assert requests.answered(1) == "one"
    assert requests.answered(1) is None
    assert requests.about(1) is None
    assert requests.items() == [("1", "another"), (2, "two")]
    assert requests.values() == ["another", "two"]
    requests.clear()
    assert not requests


def test_what_json_says_is_what_is_outlined() -> None:
    message = {"jsonrpc": "2.0", "id": 2**60, "method": "é", "params": {"sessionId": "\ud83d\ude00"}}
    shape = outline(json.dumps(message).encode())

    assert shape is not None
    assert (shape.id, shape.method, shape.session) == (2**60, "é", "😀")
