"""Lenient decoding: invalid values are tolerated exactly as the schema marks them, or rejected with their path."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from duologue.errors import InvalidParams
from duologue.schema import v1
from duologue.schema.base import Other
from duologue.schema.codec import Defaulted, decode, encode
from duologue.schema.lenient_errors import is_array, is_object
from scripts.schema.shapes import Enumeration, Field, HalfTagged, ListOf, Merged, Named, Structure, TaggedUnion
from tests.schema.instances import UNKNOWN, Everything, Maker, Sprinkled, varieties
from tests.schema.official import UNSTABLE, Official
from tests.schema.oracle import Bad, Oracle
from tests.schema.reading import assert_reads_as_the_schema_requires, canonical, read_back, refusal, wire

JSON_TYPES: list[Any] = [None, True, 5, -1, 1.5, 2**70, "x", [], {}, [5], {"a": 5}]


class FieldCase(NamedTuple):
    """A field of a class."""

    official: Official
    structure: Structure
    field: Field

    def __str__(self) -> str:
        return f"{self.official.version}-{self.structure.name}-{self.field.wire}"


class Union(NamedTuple):
    """A union by a tag."""

    official: Official
    shape: TaggedUnion

    def __str__(self) -> str:
        return f"{self.official.version}-{self.shape.name}"


SHAPES = [(official, shape) for official in UNSTABLE.values() for shape in official.schema.shapes.values()]
STRUCTURES = [
    pytest.param(official, shape, id=f"{official.version}-{shape.name}")
    for official, shape in SHAPES
    if isinstance(shape, Structure)
]
FIELD_CASES = [
    FieldCase(official, shape, field)
    for official, shape in SHAPES
    if isinstance(shape, Structure) and shape.parent is None
    for field in shape.fields
]
UNIONS = [Union(official, shape) for official, shape in SHAPES if isinstance(shape, TaggedUnion)]
METAS = [case for case in FIELD_CASES if case.field.wire == "_meta"]
CALLS = [
    pytest.param(official, name, id=f"{official.version}-{name}")
    for official in UNSTABLE.values()
    for call in official.schema.calls
    for name in (call.params, call.result)
    if name is not None
]


def full(official: Official, structure: Structure) -> dict[str, Any]:
    return Maker(official.schema, Everything()).tagged(structure)


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything inside a JSON value."""
    entries: list[tuple[Any, Any]] = []
    if is_object(value):
        entries = list(value.items())
    elif is_array(value):
        entries = list(enumerate(value))
    for key, item in entries:
        yield (*path, key)
        yield from paths_in(item, (*path, key))


def changed(value: Any, path: tuple[Any, ...], change: Any) -> Any:
    """Return a copy in which `change(container, key)` was applied at the path."""
    if len(path) == 1:
        copy = value.copy()
        change(copy, path[0])
        return copy
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], change)
    return copy


def remove(container: Any, key: Any) -> None:
    del container[key]


# --- each class by itself


@pytest.mark.fault("SCH-01")
@pytest.mark.parametrize(("official", "structure"), STRUCTURES)
def test_a_missing_required_field_is_named(official: Official, structure: Structure) -> None:
    value = full(official, structure)
    for field in structure.fields:
        if field.required:
            without = {key: item for key, item in value.items() if key != field.wire}
            assert refusal(official.type_of(structure.name), without) == f"$.{field.wire}: missing"


@pytest.mark.fault("SCH-02")
@pytest.mark.parametrize("case", FIELD_CASES, ids=str)
def test_a_field_of_the_wrong_type_is_decoded_by_its_marks(case: FieldCase) -> None:
    official, structure, field = case
    oracle = Oracle(official.schema)
    type_ = official.type_of(structure.name)
    value = full(official, structure)
    without = {key: item for key, item in value.items() if key != field.wire}
    for wrong in JSON_TYPES:
        try:
            oracle.read(field.type, wrong, "$")
            continue
        except Bad:
            pass
        broken = {**value, field.wire: wrong}
        if wrong is None and (field.nullable or "N" in field.mark):
            # An elicitation without a session has no scope.
            assert (refusal(type_, broken) is None) is not (structure.scope and field.wire == "sessionId")
        elif "S" in field.mark and isinstance(wrong, list):
            assert read_back(type_, broken).get(field.wire, []) == []
        elif "E" in field.mark and not field.required:
            assert canonical(read_back(type_, broken)) == canonical(read_back(type_, without))
        elif "E" in field.mark:
            assert read_back(type_, broken)[field.wire] == []
        elif isinstance(structure.discriminator, str) and field.wire == structure.discriminator and wrong == "x":
            assert read_back(type_, broken) == broken
        else:
            validation_error = refusal(type_, broken)
            assert validation_error is not None, f"{field.wire} = {wrong}"
            assert validation_error.startswith(f"$.{field.wire}")


@pytest.mark.fault("SCH-03")
@pytest.mark.parametrize("case", [case for case in FIELD_CASES if "S" in case.field.mark], ids=str)
def test_invalid_items_are_dropped_and_reported_and_valid_ones_stay(case: FieldCase) -> None:
    official, structure, field = case
    good = Maker(official.schema, Everything()).type(field.type)[0]
    bad = 5 if not isinstance(good, int) else "x"
    value = {**full(official, structure), field.wire: [good, bad, good]}
    defaulted: list[Defaulted] = []
    model = decode(official.type_of(structure.name), wire(value), defaulted.append)
    back: Any = decode(dict[str, Any], encode(model))

    assert len(back[field.wire]) == 2
    assert [entry.path for entry in defaulted] == [f"$.{field.wire}[1]"]
    assert defaulted[0].problem.endswith("item dropped")


@pytest.mark.parametrize(
    "case", [p for p in FIELD_CASES if isinstance(p.field.type, ListOf) and not set("SE") & set(p.field.mark)], ids=str
)
def test_without_a_mark_one_invalid_item_fails_the_message(case: FieldCase) -> None:
    official, structure, field = case
    good = Maker(official.schema, Everything()).type(field.type)[0]
    value: Any = {**full(official, structure), field.wire: [good, ["no", "item"]]}
    validation_error = refusal(official.type_of(structure.name), value)

    assert validation_error is not None
    assert validation_error.startswith(f"$.{field.wire}[1]: expected ")


@pytest.mark.parametrize("case", [case for case in FIELD_CASES if "N" in case.field.mark], ids=str)
def test_null_is_read_as_empty_where_the_schema_marks_it(case: FieldCase) -> None:
    official, structure, field = case
    value = full(official, structure)
    defaulted: list[Defaulted] = []
    decode(official.type_of(structure.name), wire({**value, field.wire: None}), defaulted.append)

    assert defaulted == []
    empty: Any = [] if isinstance(field.type, ListOf) else {}
    assert read_back(official.type_of(structure.name), {**value, field.wire: None}) == read_back(
        official.type_of(structure.name), {**value, field.wire: empty}
    )


# --- whole messages


@pytest.mark.fault("SCH-01", "SCH-02")
@pytest.mark.parametrize(("official", "definition"), CALLS)
def test_one_fault_anywhere_in_a_message_is_decoded_as_the_schema_marks_it(official: Official, definition: str) -> None:
    source = random.Random(definition)
    for value in varieties(official.schema, definition):
        paths = list(paths_in(value))
        for path in source.sample(paths, min(len(paths), 60)):
            if isinstance(path[-1], str):
                assert_reads_as_the_schema_requires(official, definition, changed(value, path, remove))
            wrong = source.choice(JSON_TYPES)

            def replace(container: Any, key: Any, wrong: Any = wrong) -> None:
                container[key] = wrong

            assert_reads_as_the_schema_requires(official, definition, changed(value, path, replace))


@pytest.mark.fault("SCH-04")
@pytest.mark.parametrize(("official", "definition"), CALLS)
def test_unknown_fields_at_every_level_change_nothing(official: Official, definition: str) -> None:
    type_ = official.type_of(official.schema.roots[definition])
    plain = varieties(official.schema, definition)
    sprinkled = varieties(official.schema, definition, Sprinkled())
    for one, other in zip(plain, sprinkled, strict=True):
        assert_reads_as_the_schema_requires(official, definition, other)
        if definition != "MessageMcpResponse":  # an error of MCP is passed on with all it has
            assert decode(type_, wire(other)) == decode(type_, wire(one))


def test_a_class_with_a_tag_is_not_read_from_another_tag() -> None:
    assert decode(v1.TextContent, b'{"text":"no tag is fine where only one class is due"}').text.startswith("no tag")
    assert refusal(v1.TextContent, {"type": "image", "text": "x"}) == "$.type: expected 'text'"


# --- the unknown is kept


def has_enumeration(case: FieldCase) -> bool:
    type_ = case.field.type
    return isinstance(type_, Named) and isinstance(case.official.schema.shapes.get(type_.name), Enumeration)


@pytest.mark.fault("SCH-05")
@pytest.mark.parametrize("union", UNIONS, ids=str)
def test_an_unknown_union_member_is_kept_unchanged_in_both_versions(union: Union) -> None:
    official, shape = union
    check = official.schema.shapes[shape.other] if shape.other else None
    rest = full(official, check) if isinstance(check, Structure) else {}
    value = {shape.tag: UNKNOWN, **rest, "x": [1, {"y": None}]}
    found = decode(official.type_of(shape.name), wire(value))

    assert isinstance(found, Other)
    assert found.tag == UNKNOWN
    assert encode(found) == encode(value)


@pytest.mark.fault("SCH-05")
@pytest.mark.parametrize("union", [union for union in UNIONS if union.shape.other], ids=str)
def test_an_unknown_union_member_still_needs_the_common_fields(union: Union) -> None:
    official, shape = union
    validation_error = refusal(official.type_of(shape.name), {shape.tag: UNKNOWN})

    assert validation_error is not None
    assert validation_error.endswith((": missing", "sessionId or requestId"))


@pytest.mark.parametrize("union", UNIONS, ids=str)
def test_a_known_tag_with_a_bad_payload_never_becomes_other(union: Union) -> None:
    official, shape = union
    for tag, name in shape.members.items():
        structure = official.schema.shapes[name]
        assert isinstance(structure, Structure)
        if any(field.required for field in structure.fields):
            validation_error = refusal(official.type_of(shape.name), {shape.tag: tag})
            assert validation_error is not None
            assert validation_error.endswith(": missing")


@pytest.mark.fault("SCH-05")
@pytest.mark.parametrize("case", [case for case in FIELD_CASES if has_enumeration(case)], ids=str)
def test_an_unknown_enumeration_value_is_kept(case: FieldCase) -> None:
    official, structure, field = case
    value = {**full(official, structure), field.wire: "_later"}
    defaulted: list[Defaulted] = []
    model = decode(official.type_of(structure.name), wire(value), defaulted.append)
    back: Any = decode(dict[str, Any], encode(model))

    assert defaulted == []
    assert back[field.wire] == "_later"


@pytest.mark.fault("SCH-05")
@pytest.mark.parametrize("official", UNSTABLE.values(), ids=str)
def test_an_unknown_state_is_kept_unchanged(official: Official) -> None:
    [merged] = [shape for shape in official.schema.shapes.values() if isinstance(shape, Merged)]
    value = {"state": "_dreaming", "of": ["sheep"]}
    found = decode(official.type_of(merged.name), wire(value))

    assert isinstance(found, Other)
    assert (found.tag, dict(found)) == ("_dreaming", value)


@pytest.mark.fault("SCH-05")
@pytest.mark.parametrize("official", UNSTABLE.values(), ids=str)
def test_a_half_tagged_union_decodes_an_unknown_tag_as_the_schema_says(official: Official) -> None:
    for shape in official.schema.shapes.values():
        if not isinstance(shape, HalfTagged):
            continue
        absent = official.schema.shapes[shape.absent]
        assert isinstance(absent, Structure)
        value = {shape.tag: UNKNOWN, **full(official, absent)}
        found = decode(official.type_of(shape.name), wire(value))
        expected = official.type_of(shape.unknown) if shape.unknown else Other

        assert type(found) is expected


# --- _meta


@pytest.mark.fault("SCH-06")
@pytest.mark.parametrize("case", METAS, ids=str)
def test_meta_may_be_null_and_an_invalid_one_is_tolerated(case: FieldCase) -> None:
    official, structure, field = case
    type_ = official.type_of(structure.name)
    value = full(official, structure)
    without = {key: item for key, item in value.items() if key != "_meta"}
    defaulted: list[Defaulted] = []
    decode(type_, wire({**value, "_meta": None}), defaulted.append)

    assert defaulted == []
    assert ("_meta" in read_back(type_, {**value, "_meta": None})) is field.patch
    for bad in JSON_TYPES[1:8]:
        assert read_back(type_, {**value, "_meta": bad}) == read_back(type_, without)


@pytest.mark.fault("SCH-06")
@pytest.mark.parametrize("official", UNSTABLE.values(), ids=str)
def test_large_and_deep_meta_is_kept_unchanged(official: Official) -> None:
    large = {f"key {number}": number for number in range(10_000)}
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"deeper": deep}
    for meta in (large, deep):
        value = {"sessionId": "s", "_meta": meta}
        assert read_back(official.type_of("CloseSessionRequest"), value) == value


def test_a_mode_update_without_any_name_of_the_mode_is_refused_by_path() -> None:
    with pytest.raises(InvalidParams, match="currentModeId"):
        decode(v1.CurrentModeUpdate, b'{"currentModeId":5}')
    with pytest.raises(InvalidParams, match="missing"):
        decode(v1.CurrentModeUpdate, b"{}")


def test_a_mode_update_with_the_former_name_of_the_mode_is_read_and_reported() -> None:
    reported: list[Defaulted] = []

    assert decode(v1.CurrentModeUpdate, b'{"modeId":"ask"}', reported.append).current_mode_id == "ask"
    assert [defaulted.problem for defaulted in reported] == ["read as currentModeId"]
