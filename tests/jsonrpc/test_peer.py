"""The state machine of one end: received frames become events and responses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from msgspec import UNSET, Raw

from duologue.errors import (
    EncodeError,
    InternalError,
    InvalidParams,
    MessageTooLarge,
    ProtocolViolation,
    RequestError,
    ResourceNotFound,
)
from duologue.jsonrpc.framing import Oversized
from duologue.jsonrpc.messages import Cancel, Id, JsonRpcMessage, Response
from duologue.jsonrpc.peer import CANCEL_METHOD, MAX_PENDING, Peer
from tests.jsonrpc.frames import broken_frames, frames


def frame(**members: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members})


def request(id: Id, method: str = "m") -> bytes:
    return frame(id=id, method=method)


def replies(peer: Peer) -> list[Any]:
    return [json.loads(reply) for reply in peer.frames_to_send()]


def error_responses(peer: Peer) -> list[tuple[Id | None, int]]:
    """Return the id and the code of each error response to bad input."""
    return [(reply["id"], reply["error"]["code"]) for reply in replies(peer)]


# --- requests of the peer


def test_a_request_is_an_event_and_is_answered_once() -> None:
    peer = Peer()

    event = peer.receive(frame(id="a", method="ping", params={"x": 1}))

    assert isinstance(event, JsonRpcMessage)
    assert (event.id, event.method) == ("a", "ping")
    assert peer.respond("a", {}) == b'{"jsonrpc":"2.0","id":"a","result":{}}'
    assert peer.respond("a", {}) is None
    assert peer.respond_error("a", InternalError("late")) is None
    assert peer.frames_to_send() == []


def test_a_batch_is_refused_once_and_nothing_in_it_runs() -> None:
    """Spec: ACP has no batches; an array is an invalid request with a null id."""
    peer = Peer()

    assert peer.receive(b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]') is None
    assert peer.frames_to_send() == [
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not part of ACP"}}'
    ]
    assert peer.frames_to_send() == []


def test_a_duplicate_id_in_flight_is_rejected_and_the_first_request_is_answered() -> None:
    peer = Peer()
    peer.receive(request(1))

    assert peer.receive(request(1)) is None
    assert error_responses(peer) == [(None, -32600)]
    assert peer.respond(1, {}) is not None
    assert isinstance(peer.receive(request(1)), JsonRpcMessage)


def test_the_number_1_and_the_string_1_are_different_ids() -> None:
    peer = Peer()

    assert isinstance(peer.receive(request(1)), JsonRpcMessage)
    assert isinstance(peer.receive(request("1")), JsonRpcMessage)
    assert peer.respond("1", {}) == b'{"jsonrpc":"2.0","id":"1","result":{}}'
    assert peer.respond(1, {}) == b'{"jsonrpc":"2.0","id":1,"result":{}}'


@pytest.mark.parametrize(
    ("bad", "answered_to"),
    [
        (frame(id="a" * 1025, method="m"), None),
        (frame(id=10**400, method="m"), None),
        (frame(id=7, method=""), 7),
        (frame(id=7, method="m" * 1025), 7),
        (frame(id=7), 7),
        (frame(id="a" * 1025), None),
        (b'{"jsonrpc":"2.0","result":1}', None),
        (b'{"jsonrpc":"2.0"}', None),
        (b'{"jsonrpc":"1.0","id":7,"method":"m"}', 7),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_invalid_requests_are_answered_with_an_error(bad: bytes, answered_to: Id | None) -> None:
    peer = Peer()

    assert peer.receive(bad) is None
    assert error_responses(peer) == [(answered_to, -32600)]


@pytest.mark.parametrize(
    "bad", [frame(id=1), b'{"jsonrpc":"1.0","id":1,"method":"m"}', Oversized(b'{"id":1,"method":"m","params":', 99)]
)
def test_bad_input_with_the_id_of_a_running_request_does_not_answer_that_request(bad: bytes) -> None:
    peer = Peer()
    peer.receive(request(1))

    peer.receive(bad)

    assert error_responses(peer) == [(None, -32600)]
    assert peer.respond(1, {}) is not None


def test_a_cancellation_sent_as_a_request_is_an_unknown_method() -> None:
    peer = Peer()

    assert peer.receive(frame(id=1, method=CANCEL_METHOD, params={"requestId": 1})) is None
    assert error_responses(peer) == [(1, -32601)]


def test_requests_beyond_the_limit_are_answered_as_busy() -> None:
    peer = Peer(max_pending=2)
    first, second, third = (peer.receive(request(id)) for id in (1, 2, 3))

    assert isinstance(first, JsonRpcMessage)
    assert isinstance(second, JsonRpcMessage)
    assert third is None
    assert error_responses(peer) == [(3, -32603)]
    peer.respond(1, {})
    assert isinstance(peer.receive(request(3)), JsonRpcMessage)


def test_a_notification_is_an_event_and_never_answered() -> None:
    peer = Peer()

    event = peer.receive(frame(method="update", params={"a": 1}))

    assert isinstance(event, JsonRpcMessage)
    assert event.id is UNSET
    assert peer.receive(frame(method="m" * 1025)) is None
    assert peer.frames_to_send() == []


def test_an_error_is_sent_with_its_code_message_and_data() -> None:
    peer = Peer()
    peer.receive(request(1))

    written = peer.respond_error(1, ResourceNotFound("gone", data={"uri": "x"}))

    assert written == (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"gone","data":{"uri":"x"}}}')


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InvalidParams("bad", data=object()), -32602, "bad"),
        (InvalidParams(ValueError("not text")), -32603, "InvalidParams"),  # type: ignore[arg-type]  # what users do
        (RequestError("odd", code="x"), -32603, "RequestError"),  # type: ignore[arg-type]  # what users do
    ],
)
def test_an_error_whose_data_is_not_json_is_sent_without_it(error: RequestError, code: int, message: str) -> None:
    peer = Peer()
    peer.receive(request(1))
    error.data = object()

    written = json.loads(peer.respond_error(1, error) or b"")

    assert written["error"] == {"code": code, "message": message}


def test_a_result_that_is_not_json_leaves_the_request_open_for_an_error() -> None:
    peer = Peer()
    peer.receive(request(1))

    with pytest.raises(EncodeError):
        peer.respond(1, object())
    assert peer.respond_error(1, InternalError("sorry")) is not None


# --- the first request


def test_before_the_first_request_others_are_rejected_and_notifications_ignored() -> None:
    peer = Peer(first_method="initialize")

    assert peer.receive(request(1)) is None
    assert peer.receive(frame(id=2, method=CANCEL_METHOD)) is None
    assert peer.receive(frame(method="update")) is None
    assert error_responses(peer) == [(1, -32600), (2, -32600)]
    assert isinstance(peer.receive(request(1, "initialize")), JsonRpcMessage)
    assert isinstance(peer.receive(request(2)), JsonRpcMessage)


def test_the_first_request_is_accepted_once() -> None:
    peer = Peer(first_method="initialize")
    peer.receive(request(1, "initialize"))

    assert peer.receive(request(2, "initialize")) is None
    peer.respond(1, {})
    assert peer.receive(request(3, "initialize")) is None
    assert error_responses(peer) == [(2, -32600), (3, -32600)]
    assert isinstance(peer.receive(frame(method="update")), JsonRpcMessage)


def test_the_first_request_may_be_repeated_after_it_failed() -> None:
    peer = Peer(first_method="initialize")
    peer.receive(request(1, "initialize"))
    peer.respond_error(1, InternalError("not yet"))

    assert peer.receive(request(2)) is None
    assert isinstance(peer.receive(request(3, "initialize")), JsonRpcMessage)


def test_a_repeatable_first_request_is_accepted_until_another_request() -> None:
    peer = Peer(first_method="initialize")
    peer.receive(request(1, "initialize"))
    peer.respond(1, {})
    peer.repeats_first = True

    assert isinstance(peer.receive(request(2, "initialize")), JsonRpcMessage)
    assert isinstance(peer.receive(request(3)), JsonRpcMessage)
    assert peer.receive(request(4, "initialize")) is None
    assert error_responses(peer) == [(4, -32600)]


# --- requests of ours


def test_a_response_is_returned_with_its_call() -> None:
    peer = Peer()
    id, written = peer.request("ping", {"a": 1}, "my call")

    assert written == b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1}}'
    assert peer.pending == 1
    event = peer.receive(frame(id=id, result={"b": 2}))
    assert isinstance(event, Response)
    assert event.call == "my call"
    assert isinstance(event.result, Raw)
    assert bytes(event.result) == b'{"b":2}'
    assert peer.pending == 0


def test_a_request_whose_params_are_not_json_is_not_started() -> None:
    peer = Peer()

    with pytest.raises(EncodeError):
        peer.request("ping", object(), "call")
    with pytest.raises(EncodeError):
        peer.notification("ping", object())
    assert peer.pending == 0


def test_a_notification_is_serialized_as_a_frame() -> None:
    assert Peer().notification("update", {"a": 1}) == b'{"jsonrpc":"2.0","method":"update","params":{"a":1}}'


def error_of(members: dict[str, Any]) -> Exception | None:
    peer = Peer()
    id, _ = peer.request("ping", {}, "call")
    event = peer.receive(frame(id=id, **members))
    assert isinstance(event, Response)
    assert event.call == "call"
    assert peer.pending == 0
    assert peer.frames_to_send() == []
    return event.error


def test_an_error_response_is_raised_as_the_class_of_its_code() -> None:
    error = error_of({"error": {"code": -32002, "message": "gone", "data": {"uri": "x"}}})

    assert isinstance(error, ResourceNotFound)
    assert (error.message, error.data) == ("gone", {"uri": "x"})


def test_an_unknown_error_code_is_kept() -> None:
    error = error_of({"error": {"code": 12345, "message": "odd"}, "result": None})

    assert type(error) is RequestError
    assert error.code == 12345


@pytest.mark.parametrize("members", [{"result": {}, "error": None}, {"result": None, "error": None}, {"result": None}])
def test_a_null_error_is_no_error(members: dict[str, Any]) -> None:
    assert error_of(members) is None


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"result": {}, "error": {"code": 1}},
        {"error": None},
        {"error": "text"},
        {"error": {}},
        {"error": {"code": "1"}},
        {"error": {"code": 1.5}},
        {"error": {"code": 10**4000}, "x": 10**4000},
        {"error": {"code": 1, "message": 5}},
        {"jsonrpc": "1.0", "result": {}},
        {"jsonrpc": "1.0", "error": {"code": 1}},
    ],
    ids=lambda members: repr(members)[:40],
)
def test_an_invalid_response_fails_its_call(members: dict[str, Any]) -> None:
    error = error_of(members)

    if isinstance(error, RequestError):
        assert error.code == 10**4000  # any integer is a code
    else:
        assert isinstance(error, ProtocolViolation)


def test_unmatched_responses_are_counted_and_not_answered() -> None:
    peer = Peer()
    peer.receive(request(5))

    for stray in (
        frame(id=99, result={}),
        frame(id="1", result={}),
        frame(id=5, result={}),
        frame(id=None, error={"code": -32700, "message": "x"}),
        frame(error={"code": 1}),
        b'{"jsonrpc":"1.0","id":99,"result":1}',
    ):
        assert peer.receive(stray) is None
    assert peer.frames_to_send() == []
    assert peer.unmatched_responses == 6
    assert peer.respond(5, {}) is not None


def test_a_second_response_is_counted_as_unmatched() -> None:
    peer = Peer()
    id, _ = peer.request("ping", {}, "call")

    assert peer.receive(frame(id=id, result=1)) is not None
    assert peer.receive(frame(id=id, result=2)) is None
    assert peer.unmatched_responses == 1


def test_a_cancelled_call_is_sent_to_the_peer_and_its_late_response_dropped() -> None:
    peer = Peer()
    id, _ = peer.request("ping", {}, "call")

    assert peer.cancel(id) == b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}'
    assert peer.cancel(id) is None
    assert peer.receive(frame(id=id, error={"code": -32800, "message": ""})) is None
    assert peer.unmatched_responses == 0
    assert peer.receive(frame(id=id, result={})) is None
    assert peer.unmatched_responses == 1


@pytest.mark.parametrize("members", [{"result": {}}, {"error": {"code": 1, "message": ""}}])
def test_the_late_response_to_a_cancelled_call_is_returned_for_late(members: dict[str, Any]) -> None:
    peer = Peer()
    id, _ = peer.request("ping", {}, "call")
    peer.cancel(id, late="late")

    answer = peer.receive(frame(id=id, **members))
    assert isinstance(answer, Response)
    assert answer.call == "late"
    assert peer.receive(frame(id=id, **members)) is None
    assert peer.unmatched_responses == 1


def test_the_table_of_cancelled_calls_is_bounded() -> None:
    peer = Peer()
    for _ in range(MAX_PENDING + 1):
        id, _frame = peer.request("ping", {}, "call")
        peer.cancel(id)

    peer.receive(frame(id=1, result={}))
    peer.receive(frame(id=2, result={}))
    assert peer.unmatched_responses == 1


def test_close_returns_the_unanswered_calls() -> None:
    peer = Peer()
    peer.request("a", {}, "first")
    peer.request("b", {}, "second")
    peer.receive(request(1))

    assert peer.close() == ["first", "second"]
    assert peer.pending == 0
    assert peer.respond(1, {}) is None


# --- cancellation by the peer


def test_a_running_request_can_be_cancelled_and_still_has_to_be_answered() -> None:
    peer = Peer()
    peer.receive(request("a"))

    assert peer.receive(frame(method=CANCEL_METHOD, params={"requestId": "a"})) == Cancel("a")
    assert peer.respond("a", {}) is not None


@pytest.mark.parametrize("params", [{"requestId": 2}, {"requestId": "1"}, {"requestId": None}, {}, [], 5, None])
def test_a_cancellation_of_nothing_that_runs_is_ignored(params: object) -> None:
    peer = Peer()
    peer.receive(request(1))

    assert peer.receive(frame(method=CANCEL_METHOD, params=params)) is None
    assert peer.receive(frame(method=CANCEL_METHOD)) is None
    assert peer.frames_to_send() == []


# --- noise and over-long lines


def test_lines_that_are_not_json_are_counted_as_stray_output() -> None:
    peer = Peer(ignore_stray_output=True)

    for stray in (b"\x1b[1mWelcome\x1b[0m", b" \tplain", b"1", b'"a"', Oversized(b"x" * 10, 50)):
        assert peer.receive(stray) is None
    assert peer.frames_to_send() == []
    assert (peer.stray_lines, peer.stray_bytes) == (5, 15 + 7 + 1 + 3 + 50)
    assert peer.first_stray_line == b"\x1b[1mWelcome\x1b[0m"


@pytest.mark.parametrize("line", [b"{oops", b" [oops", b"{}"])
def test_a_line_that_begins_like_json_is_never_stray_output(line: bytes) -> None:
    peer = Peer(ignore_stray_output=True)
    peer.receive(line)

    assert [id for id, _ in error_responses(peer)] == [None]
    assert peer.stray_lines == 0


def test_an_oversized_request_is_rejected_by_its_id() -> None:
    peer = Peer()

    assert (
        peer.receive(Oversized(b'{"jsonrpc": "2.0" ,\t"id":"x", "method": "write", "params": {"t":"aaaa', 5000)) is None
    )
    assert error_responses(peer) == [("x", -32600)]


def test_an_oversized_response_fails_its_call() -> None:
    peer = Peer()
    id, _ = peer.request("read", {}, "call")

    event = peer.receive(Oversized(f'{{"jsonrpc":"2.0","id":{id},"result":{{"content":"aaaa'.encode(), 5000))

    assert isinstance(event, Response)
    assert isinstance(event.error, MessageTooLarge)
    assert "5000 bytes" in str(event.error)
    assert peer.receive(Oversized(b'{"jsonrpc":"2.0","id":77,"error":{"code', 5000)) is None
    assert peer.unmatched_responses == 1


@pytest.mark.parametrize(
    "head",
    [
        b"aaaa",
        b"",
        b"{",
        b"[1,2",
        b'{[1]:"id"',
        b'{"id" 5',
        b'{"method":"update","params":{"a":"aaaa',
        b'{"jsonrpc":"2.0","id":1',
        b'{"result":"aaaa',
        b'{"method":"m","id":1',
        b'{"id":null,"method":"m","params":',
        b'{"id":true,"method":"m","params":',
        b'{"id":1.5,"method":"m","params":',
        b'{"id":1,"other":"aaaa',
        b'{"id":"' + b"a" * 1025 + b'","method":"m"',
        b'{"id":' + b"[" * 4000,
        b'{"id":1,"\xff',
    ],
    ids=lambda head: repr(head[:30]),
)
def test_an_oversized_line_without_a_readable_id_ends_the_connection(head: bytes) -> None:
    peer = Peer()
    peer.request("m", {}, "call")

    with pytest.raises(MessageTooLarge, match="does not show which"):
        peer.receive(Oversized(head, 5000))
    assert peer.pending == 1


# --- any frames in any order


@given(st.lists(frames() | broken_frames() | st.binary(max_size=30), max_size=8), st.booleans())
def test_every_frame_is_an_event_or_an_error_response(incoming: list[bytes], ignore_stray_output: bool) -> None:
    peer = Peer(first_method="initialize", ignore_stray_output=ignore_stray_output)
    for frame in incoming:
        event = peer.receive(frame)
        refused = replies(peer)
        assert event is None or isinstance(event, (JsonRpcMessage, Response, Cancel))
        assert len(refused) <= (event is None)
        assert all(set(reply) == {"jsonrpc", "id", "error"} for reply in refused)


class Conversation(RuleBasedStateMachine):
    """Two peers joined by two queues, with every interleaving of requests, answers, cancellations and deliveries."""

    running: Bundle[Id] = Bundle("running")
    asked: Bundle[Id] = Bundle("asked")

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = Peer(), Peer()
        self.to_far: list[bytes] = []
        self.to_near: list[bytes] = []
        self.answers: dict[Id, int] = {}
        self.cancelled: set[Id] = set()
        self.sent_answers: dict[Id, int] = {}

    @rule(target=asked)
    def ask(self) -> Id:
        number = len(self.answers) + 1
        id, written = self.near.request("m", {}, number)
        assert id == number
        self.answers[id] = 0
        self.to_far.append(written)
        return id

    @rule(id=asked)
    def cancel_request(self, id: Id) -> None:
        written = self.near.cancel(id)
        assert (written is None) == (id in self.cancelled or self.answers[id] > 0)
        if written is not None:
            self.cancelled.add(id)
            self.to_far.append(written)

    @rule(target=running)
    def deliver_to_far(self) -> Any:
        event = self.far.receive(self.to_far.pop(0)) if self.to_far else None
        if isinstance(event, Cancel):
            assert not self.sent_answers.get(event.id)
        return event.id if isinstance(event, JsonRpcMessage) else -1

    @rule(id=running, is_success=st.booleans())
    def answer(self, id: Id, is_success: bool) -> None:
        written = self.far.respond(id, {}) if is_success else self.far.respond_error(id, InternalError())
        assert (written is not None) == (id != -1 and not self.sent_answers.get(id))
        if written is not None:
            self.sent_answers[id] = self.sent_answers.get(id, 0) + 1
            self.to_near.append(written)

    @rule()
    def deliver_to_near(self) -> None:
        event = self.near.receive(self.to_near.pop(0)) if self.to_near else None
        if isinstance(event, Response):
            self.answers[event.call] += 1
            assert event.call not in self.cancelled

    @rule(id=consumes(asked))
    def forget(self, id: Id) -> None:
        """Forget a request; its response may still arrive."""

    @invariant()
    def no_request_is_answered_twice_and_nothing_is_rejected(self) -> None:
        assert all(count <= 1 for count in self.answers.values())
        assert all(count <= 1 for count in self.sent_answers.values())
        assert self.near.frames_to_send() == self.far.frames_to_send() == []
        assert self.near.unmatched_responses == 0
        open_calls = [id for id, count in self.answers.items() if not count and id not in self.cancelled]
        assert self.near.pending == len(open_calls)

    def teardown(self) -> None:
        """Once everything is delivered and answered, every request has had its answer."""
        while self.to_far:
            self.deliver_to_far()
        for id in self.answers:
            written = self.far.respond(id, {})
            if written is not None:
                self.to_near.append(written)
        while self.to_near:
            self.deliver_to_near()
        assert all(count == (id not in self.cancelled) for id, count in self.answers.items())
        assert self.near.pending == 0


test_any_interleaving_answers_each_request_exactly_once = Conversation.TestCase
