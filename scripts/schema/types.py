"""The smaller parts of a schema: references, scalar types, the fields of an object, the list of methods."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from scripts.schema.shapes import (
    AnyObject,
    Anything,
    Boolean,
    Call,
    Field,
    Integer,
    ListOf,
    MapOf,
    Named,
    Null,
    Number,
    Text,
    Type,
)

Json: TypeAlias = dict[str, Any]

MARKS = {"default-on-error": "E", "skip-invalid-items": "S", "default-on-null": "N"}
RANGES = {
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
CONSTANT_NAMES = {"$/cancel_request": "CANCEL_REQUEST"}


def is_reference(node: Json) -> bool:
    """Return True if the node is only a reference, perhaps with a title."""
    return "$ref" in node or ("allOf" in node and "properties" not in node)


def reference(node: Json) -> str:
    """Return the name of the definition that the node refers to."""
    if "allOf" in node:
        [node] = node["allOf"]
    return str(node["$ref"]).removeprefix("#/$defs/")


def type_of(node: Json) -> Type:
    """Return the type of a property, item or scalar definition; whether it may be null is part of the field."""
    if is_reference(node):
        return Named(reference(node))
    if "anyOf" in node:
        [node] = [member for member in node["anyOf"] if member.get("type") != "null"]
        return type_of(node)
    kind = node.get("type")
    if isinstance(kind, list):
        [kind] = [name for name in cast("list[str]", kind) if name != "null"]
    match kind:
        case None:
            return Anything()
        case "null":
            return Null()
        case "string":
            return Text(node.get("minLength", 0))
        case "boolean":
            return Boolean()
        case "integer":
            low, high = RANGES[node["format"]]
            return Integer(max(low, node.get("minimum", low)), min(high, node.get("maximum", high)))
        case "number":
            return Number(node.get("minimum"), node.get("maximum"))
        case "array":
            return ListOf(type_of(node["items"]), node.get("minItems", 0))
        case "object":
            values = node.get("additionalProperties", True)
            return AnyObject() if values is True else MapOf(type_of(values))
        case _:
            raise ValueError(f"unknown type: {node}")


def fields_of(body: Json, patches: set[str]) -> tuple[Field, ...]:
    """Return the properties of an object: required first, `_meta` last."""
    required = set(body.get("required", ()))
    fields = [
        Field(
            wire,
            type_of(node),
            wire in required,
            _is_nullable(node),
            "".join(letter for name, letter in MARKS.items() if node.get(f"x-deserialize-{name}")),
            wire in patches and wire not in required,
            node.get("default"),
        )
        for wire, node in body.get("properties", {}).items()
    ]
    if any(field.wire == "_meta" and field.mark != "E" for field in fields):
        raise ValueError("a bad _meta must be tolerated everywhere (x-deserialize-default-on-error)")
    return tuple(sorted(fields, key=lambda field: (field.wire == "_meta", not field.required)))


def _is_nullable(node: Json) -> bool:
    kinds = node.get("type")
    return (isinstance(kinds, list) and "null" in kinds) or any(m.get("type") == "null" for m in node.get("anyOf", ()))


def admits_null(type_: Type, definitions: dict[str, Json]) -> bool:
    """Return True if null is a value of this type, rather than its absence."""
    if isinstance(type_, Named):
        return any(member.get("type") == "null" for member in definitions[type_.name].get("anyOf", ()))
    return isinstance(type_, Null)


def calls(definitions: dict[str, Json]) -> list[Call]:
    """Return every method and notification, from the marks on their parameters and results."""
    by_method: dict[str, dict[str, str]] = {}
    sides: dict[tuple[str, str], str] = {}
    for name, body in definitions.items():
        if (method := body.get("x-method")) is None:
            continue
        kind = next(kind for kind in ("Request", "Response", "Notification") if name.endswith(kind))
        by_method.setdefault(method, {})[kind] = name
        sides[method, kind] = body["x-side"]
    found: list[Call] = []
    for method, parts in by_method.items():
        constant = CONSTANT_NAMES.get(method) or method.upper().replace("/", "_")
        if "Request" in parts:
            found.append(Call(method, constant, sides[method, "Request"], parts["Request"], parts["Response"]))
        if "Notification" in parts:
            suffix = "_NOTIFICATION" if "Request" in parts else ""
            found.append(Call(method, constant + suffix, sides[method, "Notification"], parts["Notification"], None))
    return found
