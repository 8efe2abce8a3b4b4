"""Reading the envelope of a frame without its content."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET

from duologue.jsonrpc.envelope import MAX_MEMBERS, Ambiguous, PendingRequests, check_names, read_envelope, with_id
from duologue.jsonrpc.messages import Id


def test_a_request_has_an_id_a_method_and_perhaps_a_session() -> None:
    envelope = read_envelope(
        b'{"jsonrpc":"2.0","id":"1","method":"x","params":{"a":{"sessionId":"no"},"sessionId":"s"}}'
    )

    assert envelope is not None
    assert (envelope.id, envelope.method, envelope.session, envelope.made_session) == ("1", "x", "s", None)


def test_a_response_may_announce_a_session_or_be_an_error() -> None:
    made = read_envelope(b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}')
    empty = read_envelope(b'{"jsonrpc":"2.0","id":1,"result":null}')
    failed = read_envelope(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}')

    assert made is not None
    assert (made.method, made.made_session, made.is_error) == (UNSET, "s", False)
    assert empty is not None
    assert (empty.made_session, empty.is_error) == (None, False)
    assert failed is not None
    assert failed.is_error


@pytest.mark.parametrize("params", ["[1]", '"text"', '{"sessionId":1}', "null", "{}"])
def test_id_and_method_are_read_when_the_params_have_no_valid_session(params: str) -> None:
    envelope = read_envelope(b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b}' % params.encode())

    assert envelope is not None
    assert (envelope.id, envelope.method, envelope.session) == (1, "x", None)


def test_an_envelope_is_read_despite_a_lone_surrogate() -> None:
    envelope = read_envelope(b'{"id":1,"method":"x","params":{"sessionId":"s","text":"\\ud800"}}')

    assert envelope is not None
    assert (envelope.id, envelope.method, envelope.session) == (1, "x", "s")


@pytest.mark.parametrize(
    "frame", [b"", b"[]", b"1", b"nonsense", b'{"id":1.5}', b'{"id":{}}', b'{"method":1}', b"[" * 5000]
)
def test_no_envelope_is_read_from_a_frame_without_one(frame: bytes) -> None:
    assert read_envelope(frame) is None


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ('{"id":1,"id":1}', "id"),
        ('{"method":"x","id":1,"method":"x"}', "method"),
        ('{"params":{"sessionId":"a","sessionId":"b"}}', "sessionId"),
        ('{"params":{"sessionId":"mine"},"id":1,"params":{"sessionId":"yours"}}', "params"),
        ('{"params":null,"params":[]}', "params"),
        ('{"id":1,"result":{},"result":{}}', "result"),
        ('{"id":1,"error":{},"error":{}}', "error"),
        ('{"jsonrpc":"1.0","jsonrpc":"2.0"}', "jsonrpc"),
        ('{"id":1,"\\u0069d":2}', "id"),
        ('{"params":{"sessionI\\u0064":"a","sessionId":"b"}}', "sessionId"),
        ('{"id":1,"id":2,"text":"\\ud800"}', "id"),
        ('{"params":{"sessionId":"a","sessionId":"b","text":"\\\\\\udc00 \\ud800\\ud800"}}', "sessionId"),
    ],
)
def test_a_duplicate_name_used_for_routing_is_found(frame: str, name: str) -> None:
    with pytest.raises(Ambiguous, match=f"'{name}' occurs twice"):
        check_names(frame.encode())


@pytest.mark.parametrize(
    "frame",
    [
        '{"id":1,"method":"x"}',
        '{"id":1,"params":{"id":1,"a":[{"id":1},{"id":2}]}}',
        '{"id":1,"params":{"id":1,"a":{"id":1,"id":2,"sessionId":"a","sessionId":"b"}}}',
        '{"sessionId":1,"sessionId":2}',
        '{"text":"\\u00e9"}',
        '{"x":1,"x":2}',
        '{"id":1,"text":"\\"id\\""}',
        '["id","id"]',
        '{"id":1,"a":"id","b":"id","c":' + "[" * 100_000,
    ],
)
def test_duplicates_of_other_names_pass(frame: str) -> None:
    check_names(frame.encode())


@pytest.mark.fault("JSN-18")
def test_an_object_with_too_many_names_is_rejected() -> None:
    many = ",".join(f'"{number}":0' for number in range(MAX_MEMBERS + 1))
    with pytest.raises(Ambiguous, match="more than 10000 names"):
        check_names(f'{{"id":1,"x":"id","params":{{{many}}},"y":"\\u0000"}}'.encode())


def test_pending_requests_are_stored_until_they_are_answered() -> None:
    requests: PendingRequests[str] = PendingRequests()
    requests.add(1, "one")
    requests.add("1", "another")
    requests.add(2, "two")

    assert len(requests) == 3
    assert requests.get("1") == "another"
    assert requests.answered(1) == "one"
    assert requests.answered(1) is None
    assert requests.get(1) is None
    assert requests.items() == [("1", "another"), (2, "two")]
    assert requests.ids() == ["1", 2]
    assert requests.values() == ["another", "two"]
    requests.clear()
    assert not requests


def test_envelope_values_are_those_of_the_json_text() -> None:
    message = {"jsonrpc": "2.0", "id": 2**60, "method": "é", "params": {"sessionId": "\ud83d\ude00"}}
    envelope = read_envelope(json.dumps(message).encode())

    assert envelope is not None
    assert (envelope.id, envelope.method, envelope.session) == (2**60, "é", "😀")


@pytest.mark.parametrize(
    ("frame", "request_id", "response_id", "is_notification"),
    [
        ('{"id":1,"method":"a"}', 1, None, False),
        ('{"id":"","method":"a"}', "", None, False),
        ('{"method":"a"}', None, None, True),
        ('{"id":null,"method":"a"}', None, None, True),
        ('{"id":0,"result":{}}', None, 0, False),
        ('{"id":null,"error":{}}', None, None, False),
        ("{}", None, None, False),
    ],
)
def test_an_envelope_is_a_request_a_response_a_notification_or_neither(
    frame: str, request_id: Id | None, response_id: Id | None, is_notification: bool
) -> None:
    envelope = read_envelope(frame.encode())

    assert envelope is not None
    assert (envelope.request_id, envelope.is_request) == (request_id, request_id is not None)
    assert (envelope.response_id, envelope.is_response) == (response_id, response_id is not None)
    assert envelope.is_notification is is_notification


def test_a_message_gets_another_id_and_keeps_its_other_members() -> None:
    frame = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"big":12345678901234567890123},"_more":null}'
    assert with_id(frame, "other") == frame.replace(b'"id":1', b'"id":"other"')
