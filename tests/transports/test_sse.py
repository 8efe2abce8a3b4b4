"""Event streams are read as the event-stream rules say, however they are sliced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.errors import MessageTooLarge
from duologue.transports.remote.sse import EventParser

LIMIT = 1000


def read(*pieces: bytes, limit: int = LIMIT) -> list[tuple[bytes, str]]:
    parser = EventParser(limit)
    return [(event.data, event.id) for piece in pieces for event in parser.feed(piece)]


STREAM = (
    b"\xef\xbb\xbf: hello\n"
    b"id: 1\ndata: first\n\n"
    b"data:second\ndata\ndata:  third line\r\n\r\n"
    b"retry: 1000000000\nevent: message\rdata: fourth\r\r"
    b"unknown: field\nnonsense\nid: 5\n\n"
    b"event: ping\ndata: not for us\n\n"
    b"id: a\0b\ndata: \xf0\x9f\x8e\x88\n\n"
    b"data: never finished\n"
)
EVENTS = [
    (b"first", "1"),
    (b"second\n\n third line", "1"),
    (b"fourth", "1"),
    ("🎈".encode(), "5"),
]


@pytest.mark.fault("HTT-21")
def test_a_stream_is_the_same_wherever_it_is_cut_in_two() -> None:
    for cut in range(len(STREAM) + 1):
        assert read(STREAM[:cut], STREAM[cut:]) == EVENTS, f"cut at {cut}"


@pytest.mark.fault("HTT-21")
def test_a_stream_is_the_same_byte_by_byte() -> None:
    assert read(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == EVENTS


@pytest.mark.fault("HTT-21")
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_is_there_as_soon_as_its_blank_line_is(end: bytes) -> None:
    parser = EventParser(LIMIT)

    assert parser.feed(b"data: x" + end) == []
    assert [event.data for event in parser.feed(end)] == [b"x"]
    assert [event.data for event in parser.feed(b"data: y" + end + end)] == [b"y"]


@pytest.mark.fault("HTT-21")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"1000000000", 60.0), (b"2500", 2.5), (b"9" * 400, 60.0), (b"-1", None), (b"soon", None), (b"", None)],
)
def test_a_server_cannot_ask_for_more_than_a_minute(value: bytes, seconds: float | None) -> None:
    parser = EventParser(LIMIT)
    parser.feed(b"retry: " + value + b"\n\n")

    assert parser.retry == seconds


@pytest.mark.fault("HTT-21")
@pytest.mark.parametrize("nothing", [b"\n\n\n", b"id: 3\n\n", b"event: x\n\n", b"data\n\n", b":\n\n", b"data:\n\n"])
def test_an_event_without_data_is_none(nothing: bytes) -> None:
    assert read(nothing) == []


def test_a_field_that_only_we_know_tells_what_comes_before() -> None:
    [event, other] = EventParser(LIMIT).feed(b"id: 7\nafter: 42\ndata: {}\n\ndata: {}\n\n")

    assert (event.after, other.after) == ("42", "")


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * LIMIT + b"\n"],
        [b"data: xxxxxxxxx\n"] * 200,
        [b"x" * 100] * 20,
        [b": " + b"x" * 100] * 20,
    ],
)
def test_an_event_longer_than_the_limit_ends_the_stream_before_it_is_stored(pieces: list[bytes]) -> None:
    with pytest.raises(MessageTooLarge, match="1000 bytes"):
        read(*pieces)


def test_comments_are_never_too_many() -> None:
    assert read(*([b": still here\n"] * 1000), b"data: x\n\n") == [(b"x", "")]


@given(st.lists(st.binary(max_size=20)))
def test_any_bytes_are_read_without_complaint_and_in_any_slices_alike(pieces: list[bytes]) -> None:
    assert read(*pieces) == read(b"".join(pieces))
