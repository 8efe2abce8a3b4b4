"""Golden vectors: real messages, the clause they show, and the models they are decoded to.

A file holds a list of vectors; each has
    clause        the clause of the specification that it shows
    definition    the definition of the official schema it is an instance of
    wire          the message as received
    canonical     the same as we encode it, where that differs (fields in our order, nothing meaningless)
    reads_as      a Python expression that builds the decoded model
    beyond_schema why we accept it although the official schema rejects it, where that is so
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from duologue.schema.base import Model, Other
from duologue.schema.lenient_errors import is_array, is_object

HERE = Path(__file__).parent


class Vector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message."""

    clause: str
    definition: str
    wire: msgspec.Raw
    reads_as: str
    canonical: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    beyond_schema: str | None = None

    @property
    def written(self) -> bytes:
        """The encoded bytes: canonical form, no whitespace."""
        source = self.wire if isinstance(self.canonical, msgspec.UnsetType) else self.canonical
        return json.dumps(json.loads(bytes(source)), separators=(",", ":"), ensure_ascii=False).encode()


def vectors(version: str) -> Iterator[tuple[str, Vector]]:
    """Yield every vector of a version with a name for it."""
    for path in sorted((HERE / version).glob("*.json")):
        for number, vector in enumerate(msgspec.json.decode(path.read_bytes(), type=list[Vector])):
            yield f"{version}-{path.stem}-{number}-{vector.definition}", vector


def expression(value: Any) -> str:
    """Return a Python expression for a model without defaults; the inverse of `eval` with the names of its version."""
    if isinstance(value, Other):
        return f"Other({value.tag!r}, {dict(value)!r})"
    if isinstance(value, Model):
        info = zip(value.__struct_fields__, _defaults(type(value)), strict=True)
        given = [(name, getattr(value, name)) for name, default in info if getattr(value, name) != default]
        return f"{type(value).__name__}({', '.join(f'{name}={expression(item)}' for name, item in given)})"
    if is_array(value):
        return f"[{', '.join(map(expression, value))}]"
    if is_object(value):
        return f"{{{', '.join(f'{key!r}: {expression(item)}' for key, item in value.items())}}}"
    return repr(value)


def _defaults(cls: type[Model]) -> Iterator[Any]:
    required = len(cls.__struct_fields__) - len(cls.__struct_defaults__)
    yield from [msgspec.NODEFAULT] * required
    for default in cls.__struct_defaults__:
        factory = getattr(default, "factory", None)
        yield default if factory is None else factory()
