"""A kind of update is declared on its class; nothing that depends on the kinds may have forgotten one."""

from __future__ import annotations

from types import UnionType
from typing import Any, get_args, get_origin

import msgspec
import pytest

from duologue.conversation.content import TextContent
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import KINDS, Update
from duologue.events import event_of
from duologue.protocol.v1 import updates as v1_updates
from duologue.protocol.v2 import updates as v2_updates
from duologue.protocol.values import ClientCapabilities
from duologue.schema import v1, v2

VERSIONS = pytest.mark.parametrize(("schema", "updates"), [(v1, v1_updates), (v2, v2_updates)], ids=["v1", "v2"])

VALUES: dict[Any, Any] = {str: "x", int: 1, float: 1.0, bool: True, bytes: b"x", list: [], dict: {}, UnionType: None}


def smallest(kind: Any) -> Update:
    """Return an update of this kind with its required fields only."""
    required = [field for field in msgspec.structs.fields(kind) if field.required]
    values = {field.name: VALUES.get(get_origin(field.type) or field.type, "agent") for field in required}
    if "content" in values and values["content"] != []:
        values["content"] = TextContent("x")
    update: Update = kind(**values)
    return update


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_an_event(kind: Any) -> None:
    update = smallest(kind)

    event = event_of(update, Transcript().apply(update), b"{}", is_late=True)

    assert (event.raw, event.is_late) == (b"{}", True)


@VERSIONS
def test_every_kind_has_a_form_in_each_version_or_is_named_as_without_one(schema: Any, updates: Any) -> None:
    assert set(KINDS) - set(updates.converter.writers) == set(updates.WITHOUT_FORM)


@VERSIONS
def test_every_update_of_a_schema_can_be_read(schema: Any, updates: Any) -> None:
    assert set(get_args(schema.SessionUpdate)) <= set(updates.converter.readers)


@pytest.mark.parametrize("kind", KINDS)
def test_the_names_that_a_kind_declares_exist(kind: Any) -> None:
    assert kind.capability is None or kind.capability in ClientCapabilities.__struct_fields__
    assert set(kind.entity[1:]) <= set(kind.__struct_fields__)
    members = {member.__name__ for schema in (v1, v2) for member in get_args(schema.SessionUpdate)}
    assert kind.wire_name is None or kind.wire_name in members
