"""The stderr of a child process."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.sanitize import escape_bytes
from duologue.transports.process.transport import StderrTail


@pytest.mark.fault("PRC-09")
@given(st.binary())
def test_escaped_text_can_do_no_harm(data: bytes) -> None:
    text = escape_bytes(data)
    assert all(character in "\n\t" or ord(character) >= 32 for character in text)
    assert "\x7f" not in text
    assert "\x9b" not in text
    text.encode("utf-8")


def test_plain_text_stays_as_it_is() -> None:
    text = "Traceback:\n\tnaïve – 日本語 😀\n"
    assert escape_bytes(text.encode()) == text
    assert escape_bytes(b"one\r\ntwo\rthree") == "one\ntwo\\rthree"
    assert escape_bytes("left\u202eright".encode()) == "left\\u202eright"


@pytest.mark.fault("PRC-08")
@given(st.lists(st.binary(max_size=30), max_size=30))
def test_the_end_is_kept_whatever_the_pieces(pieces: list[bytes]) -> None:
    tail = StderrTail(limit=16)
    for piece in pieces:
        tail.data_received(piece)
        assert len(tail._tail) <= 32 + 30
    assert str(tail) == escape_bytes(b"".join(pieces)[-16:])
