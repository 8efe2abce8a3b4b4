"""Every definition of every official schema: valid instances are decoded and encoded in their normal form."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis
import pytest

from duologue.schema.lenient_errors import is_array, is_object
from tests.schema.instances import Least, Maker, instances, varieties
from tests.schema.official import ALL, Official
from tests.schema.reading import assert_both_readers_agree, assert_reads_as_the_schema_requires

# The schemas have some 900 definitions: a few examples each are thousands in all.
EXAMPLES = max(4, hypothesis.settings().max_examples // 12)

DEFINITIONS = [
    pytest.param(official, name, id=f"{official}-{name}") for official in ALL for name in official.schema.roots
]


def check_valid(official: Official, definition: str, value: Any) -> None:
    assert official.validation_error(definition, value) is None
    assert_reads_as_the_schema_requires(official, definition, value)
    assert_both_readers_agree(official.type_of(official.schema.roots[definition]), value)


@pytest.mark.parametrize(("official", "definition"), DEFINITIONS)
def test_minimal_and_maximal_instances_round_trip(official: Official, definition: str) -> None:
    check_valid(official, definition, Maker(official.schema, Least()).definition(definition))
    for value in varieties(official.schema, definition):
        check_valid(official, definition, value)


@pytest.mark.parametrize(("official", "definition"), DEFINITIONS)
def test_any_valid_instance_round_trips_to_its_normal_form(official: Official, definition: str) -> None:
    @hypothesis.settings(max_examples=EXAMPLES)
    @hypothesis.given(instances(official.schema, definition))
    def check(value: Any) -> None:
        check_valid(official, definition, value)

    check()


@pytest.mark.parametrize("official", ALL, ids=str)
def test_no_definition_is_left_out(official: Official) -> None:
    """A definition is read by itself, as part of the union that absorbed it, or it is an envelope of JSON-RPC."""
    schema = official.schema
    accounted = {*schema.roots, *schema.absorbed, *schema.envelopes}

    assert accounted == set(official.document["$defs"])
    assert set(schema.absorbed.values()) <= {*schema.roots, *schema.absorbed}
    assert all(name.endswith(("Request", "Response", "Notification")) for name in schema.envelopes)


@pytest.mark.parametrize("official", ALL, ids=str)
def test_the_instances_use_every_property_the_official_schema_has(official: Official) -> None:
    """Otherwise a field that the generator overlooked would be overlooked here as well."""
    used: set[str] = set()
    for name in official.schema.roots:
        for value in varieties(official.schema, name):
            used |= _keys(value)

    assert _properties(official) - used == set()


def _keys(value: Any) -> set[str]:
    if is_object(value):
        return set(value).union(*map(_keys, value.values()))
    return set[str]().union(*map(_keys, value)) if is_array(value) else set()


def _properties(official: Official) -> set[str]:
    """Yield the names of all properties, also of nested schemas."""
    definitions: dict[str, Any] = copy.deepcopy(official.document["$defs"])
    schemas: list[Any] = [body for name, body in definitions.items() if name not in official.schema.envelopes]
    found: set[str] = set()
    while schemas:
        schema = schemas.pop()
        if is_array(schema):
            schemas += schema
        elif is_object(schema):
            properties = schema.pop("properties", {})
            found |= set(properties)
            schemas += [*properties.values(), *schema.values()]
    return found
