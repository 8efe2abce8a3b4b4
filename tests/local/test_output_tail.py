"""The end of a command's output: never over the limit, never half a character, nothing changed that was valid."""

from __future__ import annotations

import codecs
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.local.output_tail import OutputTail


def tail_of(limit: int, *pieces: bytes, is_final: bool = True) -> tuple[str, bool]:
    tail = OutputTail(limit)
    for piece in pieces:
        tail.data_received(piece)
    return tail.text(is_final=is_final)


@pytest.mark.fault("TRM-01")
@pytest.mark.rule(107)
@pytest.mark.parametrize(
    ("text", "endings"),
    [
        ("abcdefgh", ["", "h", "gh", "fgh", "efgh", "defgh"]),
        ("éüßøåñ", ["", "", "ñ", "ñ", "åñ", "åñ"]),
        ("日本語文字", ["", "", "", "字", "字", "字"]),
        ("😀😁😂", ["", "", "", "", "😂", "😂"]),
        ("日a😂é", ["", "", "é", "é", "é", "é"]),
    ],
)
def test_the_newest_whole_characters_that_fit_are_kept(text: str, endings: list[str]) -> None:
    assert [tail_of(limit, text.encode()) for limit in range(6)] == [(ending, True) for ending in endings]


@pytest.mark.fault("TRM-02")
@pytest.mark.parametrize("text", ["", "abc", "日本語", "😀"])
def test_output_that_fits_is_whole(text: str) -> None:
    size = len(text.encode())

    assert tail_of(size, text.encode()) == (text, False)
    assert tail_of(size + 1, text.encode()) == (text, False)
    assert tail_of(10**6, text.encode()) == (text, False)


@pytest.mark.fault("TRM-04")
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"\x80\x80", "\ufffd\ufffd"),
        (b"\xc3(", "\ufffd("),
        (b"\xe6\x97", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"nul \x00 esc \x1b[0m", "nul \x00 esc \x1b[0m"),
    ],
)
def test_only_what_is_truly_invalid_is_replaced(data: bytes, text: str) -> None:
    assert tail_of(100, data) == (text, False)
    assert tail_of(100, *(data[n : n + 1] for n in range(len(data)))) == (text, False)


@pytest.mark.fault("TRM-04")
def test_a_character_that_is_still_coming_is_waited_for_until_the_end() -> None:
    tail = OutputTail(100)

    tail.data_received("日".encode()[:2])
    assert tail.text(is_final=False) == ("", False)
    tail.data_received("日".encode()[2:] + b"\xe6")
    assert tail.text(is_final=False) == ("日", False)
    assert tail.text(is_final=True) == ("日\ufffd", False)


@pytest.mark.fault("TRM-01")
def test_marks_of_invalid_bytes_count_as_what_they_take() -> None:
    assert tail_of(5, b"\xff" * 5) == ("\ufffd", True)
    assert tail_of(6, b"\xff" * 2) == ("\ufffd\ufffd", False)
    assert tail_of(2, b"\xff" * 2) == ("", True)


@pytest.mark.fault("TRM-01", "TRM-04")
@given(st.lists(st.binary(max_size=20) | st.text(max_size=10).map(str.encode)), st.integers(0, 40), st.booleans())
def test_any_output_in_any_pieces_gives_its_end(pieces: list[bytes], limit: int, is_final: bool) -> None:
    data = b"".join(pieces)
    whole = codecs.getincrementaldecoder("utf-8")("replace").decode(data, is_final)

    text, is_cut = tail_of(limit, *pieces, is_final=is_final)

    assert (text, is_cut) == tail_of(limit, data, is_final=is_final)
    assert len(text.encode()) <= limit
    assert is_cut == (len(data) > limit or len(whole.encode()) > limit)
    assert is_cut or text == whole
    if not is_cut or data.decode("utf-8", "ignore").encode() == data:
        assert whole.endswith(text)


def test_a_callback_sees_every_piece_and_is_left_alone_once_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[bytes] = []

    def failing(data: bytes) -> None:
        seen.append(data)
        if len(seen) == 2:
            raise ValueError("enough")

    tail = OutputTail(10, failing)
    with caplog.at_level(logging.ERROR):
        for piece in (b"a", b"b", b"c"):
            tail.data_received(piece)

    assert seen == [b"a", b"b"]
    assert tail.text(is_final=True) == ("abc", False)
    assert [record.message for record in caplog.records] == ["the output callback failed; it is not called again"]
