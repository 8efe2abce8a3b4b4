"""The four official schemas, the independent judge of what they allow, and our type for each of their definitions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from jsonschema import Draft202012Validator

from duologue.schema import v1, v2
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
        """The type that stands for a shape, as `decode` takes it."""
        return getattr(MODULES[self.version], name)

    def complaint(self, definition: str, instance: Any) -> str | None:
        """What the judge has against this instance, if anything."""
        error = next(_validator(self, definition).iter_errors(instance), None)
        return None if error is None else f"{error.json_path}: {error.message[:300]}"


@cache
def _validator(official: Official, definition: str) -> Any:
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": official.document["$defs"]})


ALL = tuple(Official(version, kind) for version in VERSIONS for kind in KINDS)
UNSTABLE = {version: Official(version, "schema.unstable") for version in VERSIONS}
