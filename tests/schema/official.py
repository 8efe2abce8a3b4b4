"""The four official schemas, an independent validator for them, and our type for each of their definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from jsonschema import Draft202012Validator

from duologue.schema import v1, v2
from duologue.schema.lenient_errors import is_array, is_object
from scripts.schema.__main__ import OFFICIAL, VERSIONS, load
from scripts.schema.shapes import Schema

MODULES = {"v1": v1, "v2": v2}
KINDS = ("schema", "schema.unstable")


@dataclass(frozen=True)
class Official:
    """One schema file as published, and as our generator reads it."""

    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.version}-{self.kind.removeprefix('schema.')}"

    @cached_property
    def schema(self) -> Schema:
        return load(self.version, self.kind)

    @cached_property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((OFFICIAL / self.version / f"{self.kind}.json").read_text("utf-8"))
        return found

    def type_of(self, name: str) -> Any:
        """Return our type for a shape, as `decode` takes it."""
        return getattr(MODULES[self.version], name)

    def validation_error(self, definition: str, instance: Any) -> str | None:
        """Return the error that the validator finds in this instance, if any."""
        error = next(_validator(self, definition).iter_errors(instance), None)
        return None if error is None else f"{error.json_path}: {error.message[:300]}"

    def unknown_fields(self, definition: str, instance: Any) -> list[str]:
        """Return the fields in an instance that the definition does not name; the schema allows them, we do not."""
        return list(self._unknown_fields(self.document["$defs"][definition], instance, "$"))

    def _unknown_fields(self, schema: dict[str, Any], value: Any, path: str) -> Iterator[str]:
        if is_array(value):
            for index, item in enumerate(value):
                for part in self._parts(schema, value):
                    if "items" in part:
                        yield from self._unknown_fields(part["items"], item, f"{path}[{index}]")
        if not is_object(value):
            return
        named: dict[str, list[dict[str, Any]]] = {}
        for part in self._parts(schema, value):
            for name, below in part.get("properties", {}).items():
                named.setdefault(name, []).append(below)
        for name, item in value.items():
            if name == "_meta" or not named:  # free-form
                continue
            if name not in named:
                yield f"{path}.{name}"
                continue
            yield from self._unknown_fields({"allOf": named[name]}, item, f"{path}.{name}")

    def _parts(self, schema: dict[str, Any], value: Any) -> Iterator[dict[str, Any]]:
        """Return all schemas that apply to a value: those referred to, and of alternatives those it satisfies."""
        yield schema
        if "$ref" in schema:
            yield from self._parts(self.document["$defs"][schema["$ref"].rpartition("/")[2]], value)
        for each in schema.get("allOf", []):
            yield from self._parts(each, value)
        for each in (*schema.get("anyOf", []), *schema.get("oneOf", [])):
            validator: Any = Draft202012Validator({**each, "$defs": self.document["$defs"]})
            if validator.is_valid(value):
                yield from self._parts(each, value)


@cache
def _validator(official: Official, definition: str) -> Any:
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": official.document["$defs"]})


ALL = tuple(Official(version, kind) for version in VERSIONS for kind in KINDS)
STABLE = {version: Official(version, "schema") for version in VERSIONS}
UNSTABLE = {version: Official(version, "schema.unstable") for version in VERSIONS}
