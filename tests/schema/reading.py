"""One check for every message: the result of `decode` must be the one that the schema demands."""

from __future__ import annotations

import json
from typing import Any

from duologue.errors import InvalidParams
from duologue.schema.codec import Defaulted, decode, encode
from duologue.schema.lenient import reader_for
from tests.schema.official import Official
from tests.schema.oracle import Bad, Oracle


def wire(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def canonical(value: Any) -> str:
    """Equal JSON, equal text: 1 is not 1.0 and not true."""
    return json.dumps(value, sort_keys=True)


def read_back(type_: Any, value: Any) -> Any:
    return json.loads(encode(decode(type_, wire(value))))


def assert_reads_as_the_schema_requires(official: Official, definition: str, value: Any) -> None:
    type_ = official.type_of(official.schema.roots[definition])
    try:
        expected = Oracle(official.schema).definition(definition, value)
    except Bad as bad:
        validation_error = refusal(type_, value)
        assert validation_error is not None, f"accepted: {value}"
        assert validation_error.startswith(f"{bad}: "), value
    else:
        assert canonical(read_back(type_, value)) == canonical(expected), value


def assert_both_readers_agree(type_: Any, value: Any) -> None:
    """Assert that a valid message needs no leniency, and that both decoders give the same result."""
    defaulted: list[Defaulted] = []
    strictly = decode(type_, wire(value), defaulted.append)
    assert defaulted == []
    leniently = reader_for(type_)(json.loads(wire(value)), None, defaulted)
    assert defaulted == []
    assert leniently == strictly
    assert encode(leniently) == encode(strictly)


def refusal(type_: Any, value: Any) -> str | None:
    """Return the text of the error, if there is one."""
    try:
        decode(type_, wire(value))
    except InvalidParams as error:
        return str(error)
    return None
