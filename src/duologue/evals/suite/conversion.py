"""Convert what a suite file says to structs; a mistake is described with its field and what was probably meant."""

from __future__ import annotations

import re
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from duologue.suggestion import suggestion

S = TypeVar("S", bound=Struct)

_MESSAGE = re.compile(r"(?P<text>.*?)(?: - at `(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+|\.\.\.)\]")


class FieldError(ValueError):
    """A value that does not fit; the message begins with its field."""


def convert(value: object, kind: type[S]) -> S:
    """Return a value as a struct.

    Raises:
        FieldError: It does not fit.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise FieldError(_describe(str(error), value, kind)) from None
    except RecursionError:
        raise FieldError("it is nested too deeply") from None


def _describe(message: str, value: object, kind: type[Struct]) -> str:
    found = _MESSAGE.fullmatch(message)
    assert found is not None, "the pattern fits every text"
    path = (found["path"] or "$").removeprefix("key in ").removeprefix("$")
    text = found["text"]
    if unknown := _UNKNOWN.fullmatch(text):
        field = unknown["name"]
        names = _fields_at(path, value, kind)
        meant = suggestion(field, names) or (f"; the fields are {', '.join(names)}" if names else "")
        text = f"unknown field {field!r}{meant}"
    elif missing := _MISSING.fullmatch(text):
        text = f"the field {missing['name']!r} is missing"
    where = path.removeprefix(".")
    return f"{where}: {text}" if where else text


def _fields_at(path: str, value: object, kind: type[Struct]) -> list[str]:
    """Return the names of the fields that the object at a path may have; none if it is not known."""
    current: Any = kind
    for step in _STEP.finditer(path):
        is_index = step["index"] is not None
        value = _member(value, step)
        current = _element(current) if is_index else _field_type(current, step["name"])
        current = _chosen(current, value)
    if not isinstance(current, type) or not issubclass(current, Struct):
        return []
    tag_field = current.__struct_config__.tag_field
    names = [field.encode_name for field in structs.fields(current)]
    return [tag_field, *names] if tag_field else names


def _member(value: object, step: re.Match[str]) -> object:
    if step["index"] is None:
        return cast("dict[str, object]", value).get(step["name"]) if isinstance(value, dict) else None
    if isinstance(value, list) and step["index"].isdigit():
        items = cast("list[object]", value)
        index = int(step["index"])
        return items[index] if index < len(items) else None
    return None


def _field_type(kind: Any, name: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, Struct):
        return next((field.type for field in structs.fields(kind) if field.encode_name == name), None)
    return None


def _element(kind: Any) -> Any:
    """Return the type of the elements of a list or of the values of a dictionary."""
    arguments = get_args(kind)
    return arguments[-1] if get_origin(kind) in (list, dict) and arguments else None


def _chosen(kind: Any, value: object) -> Any:
    """Return the type that a value is meant to have, without annotations; of a union, the struct with its tag."""
    if get_origin(kind) is Annotated:
        return _chosen(get_args(kind)[0], value)
    if get_origin(kind) not in (Union, UnionType):
        return kind
    members = [_chosen(each, value) for each in get_args(kind) if each is not NoneType]
    found = [each for each in members if isinstance(each, type) and issubclass(each, Struct)]
    if isinstance(value, dict) and len(found) > 1:
        given = cast("dict[str, object]", value)
        tagged = [
            each for each in found if given.get(str(each.__struct_config__.tag_field)) == each.__struct_config__.tag
        ]
        return tagged[0] if tagged else None
    return found[0] if found else members[0]
