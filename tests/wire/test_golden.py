"""Golden vectors are decoded to their models, and encoded byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duologue.schema.base import Other
from duologue.schema.codec import decode, decode_result, encode
from scripts.schema.shapes import Merged, Structure, TaggedUnion
from tests.schema.official import MODULES, UNSTABLE
from tests.wire.vectors import Vector, expression, vectors

GOLDEN = [pytest.param(version, vector, id=name) for version in ("v1", "v2") for name, vector in vectors(version)]


def type_of(version: str, vector: Vector) -> Any:
    official = UNSTABLE[version]
    return official.type_of(official.schema.roots[vector.definition])


def read(version: str, vector: Vector) -> Any:
    reader = decode_result if vector.definition.endswith("Response") else decode
    return reader(type_of(version, vector), vector.wire)


@pytest.mark.parametrize(("version", "vector"), GOLDEN)
def test_a_vector_decodes_to_its_model(version: str, vector: Vector) -> None:
    found = read(version, vector)

    assert found == eval(vector.reads_as, {"Other": Other, **vars(MODULES[version])})
    assert expression(found) == vector.reads_as


@pytest.mark.parametrize(("version", "vector"), GOLDEN)
def test_a_vector_is_encoded_byte_for_byte(version: str, vector: Vector) -> None:
    assert encode(read(version, vector)) == vector.written
    assert encode(decode(type_of(version, vector), vector.written)) == vector.written


@pytest.mark.parametrize(("version", "vector"), GOLDEN)
def test_a_vector_is_valid_by_the_official_schema_unless_it_says_why_not(version: str, vector: Vector) -> None:
    validation_error = UNSTABLE[version].validation_error(vector.definition, json.loads(bytes(vector.wire)))

    assert (validation_error is None) is (vector.beyond_schema is None)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_method_has_a_vector_for_its_params_and_its_result(version: str) -> None:
    shown = {vector.definition for _, vector in vectors(version)}
    needed = {name for call in UNSTABLE[version].schema.calls for name in (call.params, call.result) if name}

    assert needed - shown == set()


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_member_of_every_union_has_a_vector(version: str) -> None:
    schema = UNSTABLE[version].schema
    text = " ".join(vector.reads_as for _, vector in vectors(version))
    for shape in schema.shapes.values():
        if isinstance(shape, TaggedUnion):
            for name in shape.members.values():
                assert f"{name}(" in text
        if isinstance(shape, Merged):
            structure = schema.shapes[shape.structure]
            assert isinstance(structure, Structure)
            assert f"{structure.name}(" in text
