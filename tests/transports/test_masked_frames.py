"""Masked frames: both functions, and the library, agree on them."""

from __future__ import annotations

import pytest
from websockets.frames import BINARY, CLOSE, CONT, PING, TEXT, Frame
from websockets.streams import StreamReader

from duologue.transports.masked_frames import read_masked_text, write_masked_text

TEXTS = [b"", b"{}", "é😀".encode(), b"x" * 125, b"x" * 126, b"x" * 127, b"x" * 65_535]


@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_a_text_is_read_from_anywhere_in_what_arrived(text: bytes) -> None:
    frame = write_masked_text(text)

    assert read_masked_text(frame, 0) == (text, len(frame))
    assert read_masked_text(b"before" + frame + frame, 6) == (text, 6 + len(frame))


@pytest.mark.parametrize("text", [*TEXTS, b"x" * 65_536], ids=len)
def test_the_library_reads_what_is_written(text: bytes) -> None:
    reader = StreamReader()
    reader.feed_data(write_masked_text(text))

    with pytest.raises(StopIteration) as read:
        next(Frame.parse(reader.read_exact, mask=True))

    assert read.value.value == Frame(TEXT, text)


@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_a_frame_of_the_library_is_read_like_ours(text: bytes) -> None:
    frame = Frame(TEXT, text).serialize(mask=True)

    assert read_masked_text(frame, 0) == (text, len(frame))


def test_two_frames_have_different_masks() -> None:
    assert write_masked_text(b"x" * 100) != write_masked_text(b"x" * 100)


@pytest.mark.parametrize("size", [0, 125, 126, 65_535])
def test_an_incomplete_frame_is_left_to_the_library(size: int) -> None:
    frame = write_masked_text(b"x" * size)

    assert {read_masked_text(frame[:end], 0) for end in [*range(min(len(frame), 20)), len(frame) - 1]} == {None}


@pytest.mark.parametrize(
    "frame",
    [
        Frame(TEXT, b"{}").serialize(mask=False),
        Frame(TEXT, b"x" * 200).serialize(mask=False),
        Frame(TEXT, b"{}", fin=False).serialize(mask=True),
        b"\xc1" + Frame(TEXT, b"{}").serialize(mask=True)[1:],
        Frame(CONT, b"{}").serialize(mask=True),
        Frame(BINARY, b"{}").serialize(mask=True),
        Frame(PING, b"{}").serialize(mask=True),
        Frame(CLOSE, b"\x03\xe8").serialize(mask=True),
        Frame(TEXT, b"\xff\xfe").serialize(mask=True),
        Frame(TEXT, b"\xe2\x82").serialize(mask=True),
        write_masked_text(b"x" * 65_536),
    ],
    ids=(
        "unmasked", "long-unmasked", "first-part", "compressed", "later-part", "binary", "ping", "close", "not-utf-8",
        "cut-utf-8", "too-long",
    ),
)  # fmt: skip
def test_every_other_frame_is_left_to_the_library(frame: bytes) -> None:
    assert read_masked_text(frame, 0) is None
