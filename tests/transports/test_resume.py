"""The resume protocol: what both ends count, buffer and send."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.transports.resume.buffers import AckCounter, SentFrames
from duologue.transports.resume.protocol import (
    ACKNOWLEDGE_BYTES,
    ACKNOWLEDGE_FRAMES,
    WINDOW_BYTES,
    WINDOW_FRAMES,
    ResumeGrant,
    ResumeNegotiation,
    RetryPolicy,
    control,
    read_control,
)

INITIALIZE = b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":1}}'
GRANTED = b'{"version":1,"connectionId":"c","windowBytes":5,"graceSeconds":2.5}'


def answer(meta: bytes = b"", id: bytes = b"7") -> bytes:
    return b'{"jsonrpc":"2.0","id":' + id + b',"result":{"protocolVersion":1' + meta + b"}}"


def granting(word: bytes) -> bytes:
    return b',"_meta":{"duologue/resume":' + word + b"}"


def test_initialize_requests_resuming_and_its_response_grants_it() -> None:
    negotiation = ResumeNegotiation()
    request = json.loads(negotiation.outgoing(INITIALIZE))

    assert request["params"] == {"protocolVersion": 1, "_meta": {"duologue/resume": {"version": 1}}}
    assert (negotiation.is_asked, negotiation.is_over) == (True, False)
    assert negotiation.incoming(answer(granting(GRANTED))) == answer()
    assert negotiation.is_over
    assert negotiation.grant == ResumeGrant(version=1, connection_id="c", window_bytes=5, grace_seconds=2.5)


@pytest.mark.parametrize("word", [b'{"version":2,"connectionId":"c"}', b'{"version":1}', b"null", b'"yes"', b"[]"])
def test_an_invalid_grant_is_ignored_and_not_passed_on(word: bytes) -> None:
    negotiation = ResumeNegotiation()
    negotiation.outgoing(INITIALIZE)

    assert negotiation.incoming(answer(granting(word))) == answer()
    assert (negotiation.is_over, negotiation.grant) == (True, None)


def test_a_response_without_a_grant_is_passed_on_unchanged() -> None:
    negotiation = ResumeNegotiation()
    negotiation.outgoing(INITIALIZE)
    theirs = answer(b',"_meta":{"theirs":1}')

    assert negotiation.incoming(theirs) == theirs
    assert (negotiation.is_over, negotiation.grant) == (True, None)


@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","method":"initialize","params":{}}',
        b'{"jsonrpc":"2.0","id":null,"method":"initialize","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}',
        *(b"[]", b"not JSON", b"\xff", b""),
    ],
)
def test_other_messages_are_sent_unchanged(frame: bytes) -> None:
    negotiation = ResumeNegotiation()

    assert negotiation.outgoing(frame) == frame
    assert not negotiation.is_asked


@pytest.mark.parametrize(
    "frame", [answer(granting(GRANTED), b"8"), b'{"jsonrpc":"2.0","id":7,"method":"x"}', b"7", b"{", b"\xff"]
)
def test_only_the_response_to_initialize_ends_the_negotiation(frame: bytes) -> None:
    negotiation = ResumeNegotiation()
    negotiation.outgoing(INITIALIZE)

    assert negotiation.incoming(frame) == frame
    assert not negotiation.is_over


def test_initialize_may_be_repeated_after_an_error() -> None:
    negotiation = ResumeNegotiation()
    negotiation.outgoing(INITIALIZE)
    refusal = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"no"}}'

    assert negotiation.incoming(refusal) == refusal
    assert not negotiation.is_over
    negotiation.outgoing(INITIALIZE.replace(b"7", b"8", 1))
    negotiation.incoming(answer(granting(GRANTED), b"8"))
    assert negotiation.grant is not None


@pytest.mark.parametrize(
    ("frame", "word"),
    [
        (control("received", count=5), "received"),
        (control("resume", connectionId="c", received=0), "resume"),
        (b' { "method" : "_duologue/lost" , "params" : {"reason":"old"}, "jsonrpc":"2.0" } ', "lost"),
    ],
)
def test_control_messages_are_read(frame: bytes, word: str) -> None:
    message = read_control(frame)

    assert message is not None
    assert message[0] == word


@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","method":"session/update","params":{"text":"\\"_duologue/received"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"_duologue/received","params":{"count":1}}',
        b'{"jsonrpc":"2.0","method":"_duologue/received"}',
        b'{"jsonrpc":"2.0","method":"_duologue/received","params":{"count":"many"}}',
        b'{"jsonrpc":"2.0","method":"_duologue/received","params":{"count":1},"x":"' + b"x" * 3000 + b'"}',
        b'{"method":"_duologue/',
    ],
)
def test_other_frames_are_no_control_messages(frame: bytes) -> None:
    assert read_control(frame) is None


@given(st.lists(st.one_of(st.binary(max_size=9), st.integers(0, 12))))
def test_a_window_holds_exactly_what_was_sent_and_not_acknowledged(steps: list[bytes | int]) -> None:
    window, sent, known = SentFrames(), list[bytes](), 0
    for step in steps:
        if isinstance(step, bytes):
            window.append(step)
            sent.append(step)
        else:
            is_possible = known <= step <= len(sent)
            assert window.acknowledge(step) is is_possible
            known = step if is_possible else known
        assert (window.count, window.acknowledged) == (len(sent), known)
        assert window.after(known) == sent[known:]
        assert window.size == sum(map(len, sent[known:]))


def test_a_window_is_full_by_bytes_or_by_frames() -> None:
    large, many = SentFrames(), SentFrames()
    was_full: list[bool] = []
    for frame in (b"x" * WINDOW_BYTES, b"x"):
        large.append(frame)
        was_full.append(large.is_full)
    for _ in range(WINDOW_FRAMES + 1):
        was_full.append(many.is_full)
        many.append(b"")
    assert was_full == [False, True] + [False] * (WINDOW_FRAMES + 1)
    assert many.is_full


def test_received_frames_are_acknowledged_by_number_or_by_bytes() -> None:
    counter = AckCounter()
    due: list[bool] = []
    for _ in range(ACKNOWLEDGE_FRAMES):
        counter.add(b"x")
        due.append(counter.is_due)

    assert due == [False] * (ACKNOWLEDGE_FRAMES - 1) + [True]
    assert counter.has_unacknowledged
    assert counter.acknowledge() == ACKNOWLEDGE_FRAMES
    assert [counter.is_due, counter.has_unacknowledged] == [False] * 2
    counter.add(b"x" * ACKNOWLEDGE_BYTES)
    assert [counter.is_due, counter.acknowledge()] == [True, ACKNOWLEDGE_FRAMES + 1]


def test_retries_are_random_ever_rarer_and_limited() -> None:
    retry = RetryPolicy(first=0.1, longest=10.0, limit=120.0)
    pauses = retry.pauses_within(1000.0)
    bounds = [0.1 * 2**number for number in range(7)] + [10.0] * 10
    taken = [next(pauses) for _ in bounds]

    assert all(0 <= pause <= bound for pause, bound in zip(taken, bounds, strict=True))
    assert len(set(taken)) > 10
    assert list(retry.pauses_within(0.0)) == []
    assert list(RetryPolicy(limit=0.0).pauses_within(100.0)) == []
