"""Decoding of strings, numbers and booleans."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from duologue.errors import InvalidParams
from duologue.schema.codec import decode
from duologue.schema.constraints import (
    Fraction,
    Int32,
    Int64,
    Number,
    PositiveUint16,
    PositiveUint32,
    Uint16,
    Uint32,
    Uint64,
)
from duologue.schema.lenient import UnknownType, reader_for
from duologue.schema.lenient_errors import Rejected

RANGES: list[tuple[Any, int, int]] = [
    (Uint16, 0, 2**16 - 1),
    (Uint32, 0, 2**32 - 1),
    (Int32, -(2**31), 2**31 - 1),
    (Int64, -(2**63), 2**63 - 1),
    (PositiveUint16, 1, 2**16 - 1),
    (PositiveUint32, 1, 2**32 - 1),
]


@pytest.mark.parametrize(("type_", "low", "high"), RANGES)
def test_an_integer_is_exact_at_both_ends_and_refused_beyond(type_: Any, low: int, high: int) -> None:
    for inside in (low, high):
        assert decode(type_, str(inside).encode()) == inside
    for outside in (low - 1, high + 1):
        with pytest.raises(InvalidParams, match=r"^\$: out of range$"):
            decode(type_, str(outside).encode())


def test_the_lenient_decoder_rejects_integers_over_64_bits() -> None:
    """msgspec can not carry that bound; classes with such a field check it when they are made."""
    read = reader_for(Uint64)

    assert read(2**64 - 1, None, []) == 2**64 - 1
    for outside in (2**64, -1):
        with pytest.raises(Rejected, match="out of range"):
            read(outside, None, [])


@pytest.mark.parametrize("raw", [b"true", b"1.0", b"1e2", b'"1"', b"null"])
def test_nothing_but_an_integer_is_an_integer(raw: bytes) -> None:
    with pytest.raises(InvalidParams, match=r"^\$: expected int, got "):
        decode(int, raw)


def test_a_number_is_any_number_but_no_boolean() -> None:
    number: Any = Number

    assert decode(number, b"5") == 5
    assert decode(number, b"5.5") == 5.5
    with pytest.raises(InvalidParams, match=r"^\$: expected number, got bool$"):
        decode(number, b"true")


def test_a_fraction_lies_between_zero_and_one() -> None:
    fraction: Any = Fraction

    assert decode(fraction, b"1") == 1
    assert decode(fraction, b"0.5") == 0.5
    for outside in (b"2", b"-0.1"):
        with pytest.raises(InvalidParams, match="out of range"):
            decode(fraction, outside)


def test_a_plain_float_takes_an_integer_unless_it_is_too_large() -> None:
    assert reader_for(float)(5, None, []) == 5.0
    with pytest.raises(InvalidParams, match="number out of range"):
        decode(list[float], b"[1" + b"0" * 400 + b"]")


def test_a_string_may_have_a_least_length() -> None:
    title: Any = Annotated[str, Meta(min_length=1)]

    with pytest.raises(InvalidParams, match=r"^\$: too short$"):
        decode(title, b'""')
    with pytest.raises(InvalidParams, match=r"^\$: expected str, got null$"):
        decode(title, b"null")


def test_the_error_of_an_enumeration_names_the_expected_values_and_cuts_the_received_one() -> None:
    kind: Any = Literal["object"]
    read = reader_for(kind)

    assert read("object", None, []) == "object"
    with pytest.raises(Rejected, match="expected 'object', got 'aaaa"):
        read("a" * 500, None, [])
    with pytest.raises(Rejected, match="expected str, got array"):
        read([], None, [])
    try:
        read("a" * 500, None, [])
    except Rejected as refused:
        assert len(str(refused)) < 120


def test_null_and_nothing_else_is_null() -> None:
    null: Any = type(None)
    read = reader_for(null)

    assert read(None, None, []) is None
    with pytest.raises(Rejected, match="expected null, got int"):
        read(0, None, [])


@pytest.mark.parametrize(
    "type_",
    [
        Annotated[str, Meta(pattern="x")],
        Annotated[int, Meta(gt=3)],
        dict[int, str],
        set[int],
        Literal[1, 2],
        int | list[int] | dict[str, int],
    ],
)
def test_a_type_the_schema_does_not_have_is_left_to_msgspec(type_: Any) -> None:
    with pytest.raises(UnknownType):
        reader_for(type_)
