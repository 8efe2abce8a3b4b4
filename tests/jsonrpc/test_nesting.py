"""The nesting depth found by operations on the whole text, compared with that found byte by byte."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.jsonrpc.codec import MAX_SURROGATES, repair_surrogates
from duologue.jsonrpc.nesting import PIECE, is_nested_deeper, outside_strings


def depth(text: bytes) -> int:
    """Return the nesting depth, found byte by byte."""
    deepest = now = 0
    is_inside = is_escaped = False
    for byte in text:
        if is_escaped:
            is_escaped = False
        elif is_inside and byte == ord("\\"):
            is_escaped = True
        elif byte == ord('"'):
            is_inside = not is_inside
        elif not is_inside:
            now += (byte in b"[{") - (byte in b"]}")
            deepest = max(deepest, now)
    return deepest


TEXTS = st.text('"\\[]{}a', max_size=12)
VALUES = st.recursive(
    st.none() | TEXTS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3)
)


@given(VALUES, st.integers(0, 70))
def test_the_depth_is_that_of_the_brackets_outside_strings(value: object, more: int) -> None:
    text = b"[" * more + json.dumps(value).encode() + b"]" * more

    assert not is_nested_deeper(text, depth(text))
    assert depth(text) == 0 or is_nested_deeper(text, depth(text) - 1)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 200, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 3])
def test_brackets_are_counted_across_pieces(size: int) -> None:
    for text in (b"[" * size + b"]" * size, b'"' + b"\\" * 2 * size + b'"' + b"{" * size, b'["["],' * size):
        assert not is_nested_deeper(text, depth(text))
        assert is_nested_deeper(text, depth(text) - 1)


@pytest.mark.parametrize("text", [b'["\\\\", 12]', b'["\\"", 12]', b'["a","b"  , 12]', b'["\\\\\\"", 12, "unfinished'])
def test_text_outside_strings_is_kept(text: bytes) -> None:
    assert b"12" in b"".join(outside_strings(text))
    assert b"a" not in b"".join(outside_strings(text))
    assert b"unfinished" not in b"".join(outside_strings(text))


PIECES = st.sampled_from(["\\ud83d", "\\uDE00", "\\\\", "\\n", '\\"', "\\u0041", "ud800", "a", '"'])


@given(st.lists(PIECES, max_size=8))
def test_lone_surrogates_are_replaced_and_no_other_byte_changes(pieces: list[str]) -> None:
    text = "".join(pieces).encode()
    escape = rb"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F]..|(\\.)"
    expected = re.sub(escape, lambda found: found[1] or found[2] or b"\\ufffd", text)

    assert repair_surrogates(text) == expected


def test_a_text_with_too_many_surrogates_is_left_unchanged() -> None:
    text = b"\\ud800" * (MAX_SURROGATES + 1)

    assert repair_surrogates(text) is text
