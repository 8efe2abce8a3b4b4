"""The generator: the committed files are what it writes, and it rejects what it does not understand."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest

from duologue.schema.base import wire_name
from scripts.schema.__main__ import ROOT, differences, generated
from scripts.schema.parse import SchemaParser
from scripts.schema.render import ModelsRenderer, python_name
from scripts.schema.types import type_of
from tests.schema.official import ALL, UNSTABLE, Official


def test_the_committed_files_are_what_the_generator_writes() -> None:
    assert differences(generated()) == []


def test_check_prints_the_difference_and_fails(tmp_path: Any) -> None:
    [path] = [path for path in generated() if path.parts[-2:] == ("v1", "stable.py")]
    changed = {path: path.read_text("utf-8").replace("session/prompt", "session/prompted")}

    lines = differences(changed)

    assert any(line.startswith("-") and "session/prompt" in line for line in lines)
    assert any(line.startswith("+") and "session/prompted" in line for line in lines)


def test_the_command_checks_and_says_so() -> None:
    command = [sys.executable, "-m", "scripts.schema", "--check"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert (found.returncode, found.stdout) == (0, "8 generated files are up to date\n")


@pytest.mark.parametrize("official", ALL, ids=str)
def test_every_field_name_maps_back_to_its_wire_name(official: Official) -> None:
    for body in official.document["$defs"].values():
        for wire in body.get("properties", {}):
            assert wire_name(python_name(wire)) == wire


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_stable_schema_is_part_of_the_unstable_one(version: str) -> None:
    """One class family serves both, so a field may be added to the stable part but never changed."""
    stable = next(official.schema for official in ALL if str(official) == f"{version}-schema")
    whole = UNSTABLE[version].schema
    for name, shape in stable.shapes.items():
        assert type(whole.shapes[name]) is type(shape)
        fields = {field.wire: field for field in getattr(whole.shapes[name], "fields", ())}
        for field in getattr(shape, "fields", ()):
            if field.default is None and name not in ("WorkState", "WorkStateUpdate"):
                assert fields[field.wire] == field


def altered(path: list[str], value: Any) -> dict[str, Any]:
    document = copy.deepcopy(UNSTABLE["v1"].document)
    node: Any = document["$defs"]
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (
            ["TextContent", "properties", "_meta", "x-deserialize-default-on-error"],
            False,
            "bad _meta must be tolerated",
        ),
        (["RunningStateUpdate", "required"], ["_meta"], "can not be merged"),
        (["TextContent", "properties", "text"], {"type": "tuple"}, "unknown type"),
    ],
)
def test_unknown_constructs_of_a_schema_are_rejected_by_the_generator(
    path: list[str], value: Any, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        SchemaParser("v1", altered(path, value)).parse()


def test_a_union_member_without_a_name_is_refused() -> None:
    document = altered(["RequestPermissionOutcome", "oneOf", 0, "properties", "outcome", "const"], "postponed")  # type: ignore[list-item]  # an index
    with pytest.raises(ValueError, match="no name for the member 'postponed'"):
        SchemaParser("v1", document).parse()


def test_an_unknown_form_of_default_is_rejected() -> None:
    document = altered(["FileSystemCapabilities", "properties", "readTextFile", "default"], 5)
    schema = SchemaParser("v1", document).parse()
    with pytest.raises(ValueError, match="unknown default"):
        ModelsRenderer(schema, schema).render()


def test_a_field_that_would_hide_the_type_it_needs_is_refused() -> None:
    listing = {"type": ["array", "null"], "items": {"type": "string"}}
    schema = SchemaParser("v1", altered(["SessionCapabilities", "properties", "list"], listing)).parse()
    with pytest.raises(ValueError, match="hides the type it needs"):
        ModelsRenderer(schema, schema).render()


def test_null_alone_is_a_type() -> None:
    assert type(type_of({"type": "null"})).__name__ == "Null"
