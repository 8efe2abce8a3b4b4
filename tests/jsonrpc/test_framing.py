"""Any slicing of the bytes gives the same frames."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.errors import MessageTooLarge
from duologue.jsonrpc.framing import ABORT_FACTOR, HEAD_BYTES, LineFramer, Oversized, to_ascii

BOM = b"\xef\xbb\xbf"
MESSAGE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"text":"\xc3\xa9\xe2\x82\xac"}}'


def frames_of(slices: Iterable[bytes], limit: int = 1000) -> list[bytes | str]:
    """Return all frames of a stream, with an oversized line as text, and a failure as the last item."""
    framer = LineFramer(limit)
    frames: list[bytes] = []
    failure: list[bytes | str] = []
    try:
        for data in slices:
            frames += framer.feed(data)
        frames += framer.finish()
    except MessageTooLarge as error:
        failure.append(str(error))
    return [f"{frame.size}: {bytes(frame)!r}" if isinstance(frame, Oversized) else frame for frame in frames] + failure


def expected_frames(stream: bytes, limit: int) -> list[bytes | str]:
    """Apply the rules of the framing in the simplest way, without regard to memory or slices."""
    frames: list[bytes | str] = []
    for number, line in enumerate(stream.split(b"\n")):
        size = len(line)
        if size > ABORT_FACTOR * limit:
            return [*frames, f"a line of more than {ABORT_FACTOR * limit} bytes; the limit is {limit}"]
        text = line.removeprefix(BOM) if number == 0 else line
        if size - line.endswith(b"\r") > limit:
            head = text[:limit].rstrip(b" \t\r}]")
            frames.append(f"{size}: {head!r}")
        elif text.removesuffix(b"\r").strip(b" \t"):
            frames.append(text.removesuffix(b"\r"))
    return frames


def sliced(stream: bytes, positions: Iterable[int]) -> Iterator[bytes]:
    start = 0
    for position in sorted({position % (len(stream) + 1) for position in positions}):
        yield stream[start:position]
        start = position
    yield stream[start:]


streams = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"\t", b"{}", b'{"a":1}', b"[]}", BOM, b"\x00", b"\x0b", b"x" * 9]),
    max_size=40,
).map(b"".join)


@given(stream=streams, positions=st.lists(st.integers(0, 400)), limit=st.integers(1, 20))
def test_frames_follow_the_rules_however_the_stream_is_sliced(stream: bytes, positions: list[int], limit: int) -> None:
    assert frames_of(sliced(stream, positions), limit) == expected_frames(stream, limit)


@pytest.mark.fault("FRM-01")
def test_a_message_cut_at_any_byte_is_one_message() -> None:
    line = MESSAGE + b"\n"
    for position in range(len(line) + 1):
        assert frames_of([line[:position], line[position:]]) == [MESSAGE]


@pytest.mark.fault("FRM-02")
def test_a_message_delivered_byte_by_byte_is_one_message() -> None:
    assert frames_of(bytes([byte]) for byte in MESSAGE + b"\n") == [MESSAGE]


@pytest.mark.fault("FRM-02")
def test_the_cost_of_a_line_delivered_byte_by_byte_is_linear() -> None:
    def seconds(size: int) -> float:
        framer = LineFramer()
        started = time.perf_counter()
        for _ in range(size):
            framer.feed(b"x")
        return time.perf_counter() - started

    # Quadratic cost would be sixteen times as much; a busy machine is granted half of that.
    assert min(seconds(400_000) for _ in range(3)) < 8 * max(seconds(100_000) for _ in range(3))


@pytest.mark.fault("FRM-03")
def test_a_thousand_messages_in_one_slice_keep_their_order() -> None:
    messages = [b'{"id":%d}' % number for number in range(1000)]

    assert frames_of([b"\n".join(messages) + b"\n"], limit=100_000) == messages


@pytest.mark.fault("FRM-04")
def test_several_whole_lines_at_once_are_split() -> None:
    assert frames_of([b"1\n", b"2\n3\n", b" \n4\n"]) == [b"1", b"2", b"3", b"4"]


def test_a_line_of_exactly_the_limit_is_whole_and_one_byte_more_is_oversized() -> None:
    framer = LineFramer(10_000)

    assert framer.feed(b"x" * 10_000 + b"\n") == [b"x" * 10_000]
    [oversized] = framer.feed(b"x" * 10_001 + b"\n")
    assert isinstance(oversized, Oversized)
    assert (bytes(oversized), oversized.size) == (b"x" * HEAD_BYTES, 10_001)
    assert framer.feed(b"{}\n") == [b"{}"]


@pytest.mark.fault("FRM-05")
def test_an_endless_line_fails_in_bounded_memory() -> None:
    limit = 1024 * 1024
    framer = LineFramer(limit)
    chunk = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(ABORT_FACTOR * limit // len(chunk)):
            assert framer.feed(chunk) == []
        with pytest.raises(MessageTooLarge, match="limit is 1048576"):
            framer.feed(chunk)
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit
    assert left < 65_536
    with pytest.raises(MessageTooLarge):
        framer.feed(b"{}\n")
    with pytest.raises(MessageTooLarge):
        framer.finish()


def test_frames_before_an_endless_line_are_delivered_before_the_failure() -> None:
    framer = LineFramer(2)

    assert framer.feed(b"{}\n" + b"x" * 9) == [b"{}"]
    assert isinstance(framer.failure, MessageTooLarge)


def test_nothing_after_an_endless_line_is_delivered() -> None:
    framer = LineFramer(10)
    framer.feed(b"x" * 40)

    with pytest.raises(MessageTooLarge):
        framer.feed(b"x\n{}\n")


def test_the_rest_of_an_oversized_line_is_dropped_as_it_arrives() -> None:
    limit = 1024 * 1024
    framer = LineFramer(limit)
    tracemalloc.start()
    try:
        framer.feed(b'{"id":7,' + b"x" * limit)
        for _ in range(40):
            framer.feed(b"x" * 65_536)
        held, _ = tracemalloc.get_traced_memory()
        [oversized] = framer.feed(b"x}\n")
    finally:
        tracemalloc.stop()

    assert held < 32_768
    assert isinstance(oversized, Oversized)
    assert oversized.startswith(b'{"id":7,')
    assert oversized.size == 8 + limit + 40 * 65_536 + 2


def test_an_oversized_line_never_parses_as_a_message() -> None:
    [oversized] = LineFramer(8).feed(b'{"a":1} \t]}' + b" " * 20 + b"\n")

    assert oversized == b'{"a":1'


@pytest.mark.fault("FRM-06")
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1024 * 1024])
def test_long_lines_within_the_limit_are_whole(size: int) -> None:
    line = b"y" * size

    assert LineFramer().feed(line + b"\n") == [line]


@pytest.mark.fault("FRM-07")
def test_carriage_return_before_newline_belongs_to_the_line_end() -> None:
    assert frames_of([b"{}\r\n[]\r\n"]) == [b"{}", b"[]"]
    assert frames_of([b"{}\r", b"\n[]\r", b"\n"]) == [b"{}", b"[]"]


@pytest.mark.fault("FRM-08")
def test_a_lone_carriage_return_does_not_end_a_line() -> None:
    assert frames_of([b'{}\r{"a":1}\n']) == [b'{}\r{"a":1}']


@pytest.mark.fault("FRM-09")
def test_blank_lines_are_skipped() -> None:
    assert frames_of([b"\n\r\n   \n\t \t\n{}\n \t\r\n"]) == [b"{}"]


@pytest.mark.fault("FRM-10")
def test_only_a_newline_ends_a_line() -> None:
    line = '{"text":"a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"}'.encode()

    assert frames_of([line + b"\n"]) == [line]


@pytest.mark.fault("FRM-11")
def test_a_byte_order_mark_is_accepted_once_at_the_start() -> None:
    assert frames_of([BOM[:1], BOM[1:] + b"{}\n" + BOM + b"{}\n"]) == [b"{}", BOM + b"{}"]
    assert frames_of([BOM + BOM + b"{}\n"]) == [BOM + b"{}"]
    assert frames_of([b"\n" + BOM + b"{}\n"]) == [BOM + b"{}"]


@pytest.mark.fault("FRM-12", "FRM-13")
def test_lines_are_split_at_newlines_whatever_json_they_contain() -> None:
    assert frames_of([b'{"a":1}{"b":2}\n{"c":\n3}\n{}\n']) == [b'{"a":1}{"b":2}', b'{"c":', b"3}", b"{}"]


@pytest.mark.fault("FRM-14")
def test_the_last_line_needs_no_newline() -> None:
    assert frames_of([b'{}\n{"a":1}']) == [b"{}", b'{"a":1}']
    assert frames_of([b'{}\n{"a":1}\r']) == [b"{}", b'{"a":1}']
    assert frames_of([b"{}\n  "]) == [b"{}"]


@pytest.mark.fault("FRM-18")
def test_nul_bytes_are_left_to_the_parser() -> None:
    assert frames_of([b'\x00\n{"a":"\x00"}\n{}\n']) == [b"\x00", b'{"a":"\x00"}', b"{}"]


def test_a_frame_for_a_terminal_means_the_same_and_is_printable_ascii() -> None:
    frame = '{"a":"é\u202e\U0001f600",\t"b":1}'.encode()

    shown = to_ascii(frame)

    assert json.loads(shown) == json.loads(frame)
    assert all(0x20 <= byte < 0x7F for byte in shown)
