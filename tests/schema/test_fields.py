"""Fields of message classes are the ones that msgspec finds by evaluating their annotations."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from duologue.schema import legacy, v1, v2
from duologue.schema.base import Model
from duologue.schema.fields import classes_in, fields_of

CLASSES = [
    kind
    for module in (v1, v2, legacy)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Model)
]


def default_of(field: FieldInfo) -> Any:
    """Return the default; a list or a dict is made anew for each message, and has no value of its own."""
    return ... if field.default_factory is not NODEFAULT else field.default


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__.split('.')[2]}-{kind.__name__}")
def test_every_class_has_the_fields_that_msgspec_finds(kind: type[Struct]) -> None:
    found = list(fields_of(kind))
    evaluated = fields(kind)

    assert [(field.name, field.wire_name) for field in found] == [(each.name, each.encode_name) for each in evaluated]
    assert [set(field.classes) for field in found] == [set(classes_in(each.type)) for each in evaluated]
    assert [field.is_required for field in found] == [each.required for each in evaluated]
    for field, each in zip(found, evaluated, strict=True):
        assert default_of(each) is ... or field.default is each.default
