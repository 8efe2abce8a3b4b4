"""Thousands of random messages of both versions, whole and damaged; and bytes that are no messages at all."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.errors import InvalidParams
from duologue.schema import v1, v2
from duologue.schema.codec import decode
from duologue.schema.lenient_errors import is_array, is_object
from tests.schema.instances import ANYTHING, AtRandom, Maker
from tests.schema.official import UNSTABLE, Official
from tests.schema.reading import assert_reads_as_the_schema_requires, refusal

MESSAGES = 1_000
"""Per version; the catalogue asks for 200,000 in all, which `make chaos` runs."""


def random_message(official: Official, source: random.Random) -> tuple[str, Any]:
    call = source.choice(official.schema.calls)
    definition = call.params if call.result is None else source.choice([call.params, call.result])
    return definition, Maker(official.schema, AtRandom(source)).definition(definition)


@pytest.mark.fault("SCH-15")
@pytest.mark.parametrize("official", UNSTABLE.values(), ids=str)
def test_random_messages_are_accepted_and_one_mutation_never_crashes(
    official: Official, chaos_factor: int, record_property: Any
) -> None:
    source = random.Random(official.version)
    count = MESSAGES * chaos_factor
    for _ in range(count):
        definition, value = random_message(official, source)
        assert refusal(official.type_of(official.schema.roots[definition]), value) is None
        assert_reads_as_the_schema_requires(official, definition, value)
        assert_reads_as_the_schema_requires(official, definition, mutated(value, source))
    record_property("count", count)


def mutated(value: Any, source: random.Random) -> Any:
    """Return the message with one part replaced, removed, added or doubled."""
    if is_object(value) and value and source.random() < 0.8:
        return mutated_object(value, source)
    if is_array(value) and value and source.random() < 0.8:
        index = source.randrange(len(value))
        copy = list(value)
        copy[index] = mutated(value[index], source)
        return copy
    return source.choice(ANYTHING)


def mutated_object(value: dict[str, Any], source: random.Random) -> dict[str, Any]:
    key = source.choice(list(value))
    copy = dict(value)
    match source.randrange(4):
        case 0:
            del copy[key]
        case 1:
            copy[f"{key}Also"] = copy.pop(key)
        case _:
            copy[key] = mutated(value[key], source)
    return copy


@given(st.binary(max_size=200))
def test_bytes_that_are_not_json_raise_invalid_params_only(raw: bytes) -> None:
    for type_ in (v1.SessionNotification, v2.UpdateSessionNotification):
        with pytest.raises(InvalidParams):
            decode(type_, raw)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_message_with_one_wrong_byte_is_decoded_or_rejected(position: int, byte: int) -> None:
    message = bytearray(
        b'{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"Edit","kind":"edit",'
        b'"locations":[{"path":"/a","line":12}],"rawInput":{"n":1.5e3},"content":[{"type":"diff","path":"/a",'
        b'"oldText":null,"newText":"\\ud83d\\ude00"}],"_meta":{"a":[true,null]}}}'
    )
    message[position % len(message)] = byte
    try:
        decode(v1.SessionNotification, bytes(message))
    except InvalidParams as error:
        assert str(error).startswith("$")
