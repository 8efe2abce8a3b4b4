"""Validation of elicitation forms: what the user filled in, completed by the defaults.

A `pattern` is not checked: a regular expression of an agent could block this process, and the agent validates the reply
itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from duologue.conversation.content import JsonObject


def completed(form: JsonObject, content: JsonObject) -> JsonObject:
    """Return what was filled in, with the defaults of missing fields."""
    defaults = {name: field["default"] for name, field in _fields(form).items() if field.get("default") is not None}
    return {**defaults, **content}


def validation_error(form: JsonObject, content: JsonObject) -> str | None:
    """Return the name of the first invalid field and what is wrong; `None` if the content is valid."""
    fields = _fields(form)
    required: list[str] = form.get("required") or []
    for name in required:
        if name not in content:
            return f"{name}: required"
    for name, value in content.items():
        wrong = field_error(fields[name], value) if name in fields else "no such field"
        if wrong is not None:
            return f"{name}: {wrong}"
    return None


def field_error(field: JsonObject, value: Any) -> str | None:
    """Return what is wrong with the value of a field; `None` if it is valid, or the type of field is unknown."""
    match field.get("type"):
        case "boolean":
            return None if isinstance(value, bool) else "yes or no?"
        case "integer":
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return (
                _range_error(value, field.get("minimum"), field.get("maximum"))
                if is_whole
                else "a whole number, please"
            )
        case "number":
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            return _range_error(value, field.get("minimum"), field.get("maximum")) if is_number else "a number, please"
        case "array":
            return _list_error(field, value)
        case "string":
            return _text_error(field, value)
        case _:
            return None


def choices_of(field: JsonObject) -> list[str]:
    """Return the values that a field can have; empty if it can have any."""
    of_items: JsonObject = field.get("items") or {}
    for where in (field, of_items):
        if where.get("enum"):
            return [str(each) for each in where["enum"]]
        for key in ("oneOf", "anyOf"):
            if where.get(key):
                return [str(each.get("const")) for each in where[key]]
    return []


def _fields(form: JsonObject) -> dict[str, JsonObject]:
    fields: dict[str, JsonObject] = form.get("properties") or {}
    return fields


def _range_error(size: float, least: float | None, most: float | None, unit: str = "") -> str | None:
    if least is not None and size < least:
        return f"at least {least}{unit}, please"
    return f"at most {most}{unit}, please" if most is not None and size > most else None


def _list_error(field: JsonObject, value: Any) -> str | None:
    if not isinstance(value, list):
        return "a list, please"
    chosen: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
    wrong_count = _range_error(len(chosen), field.get("minItems"), field.get("maxItems"), " of them")
    if wrong_count is not None:
        return wrong_count
    choices = choices_of(field)
    wrong = [each for each in chosen if choices and each not in choices]
    return f"{wrong[0]} is none of: {', '.join(choices)}" if wrong else None


def _text_error(field: JsonObject, value: Any) -> str | None:
    if not isinstance(value, str):
        return "a text, please"
    choices = choices_of(field)
    if choices and value not in choices:
        return f"one of: {', '.join(choices)}"
    wrong_length = _range_error(len(value), field.get("minLength"), field.get("maxLength"), " characters")
    if wrong_length is not None:
        return wrong_length
    wanted, parse = _FORMATS.get(field.get("format") or "", ("", str))
    with suppress(ValueError):
        parse(value)
        return None
    return f"{wanted}, please"


def _read_email(text: str) -> None:
    name, _, host = text.rpartition("@")
    if not name or not host or any(character.isspace() for character in text):
        raise ValueError(text)


def _read_url(text: str) -> None:
    if not urlsplit(text).scheme:
        raise ValueError(text)


_FORMATS: dict[str, tuple[str, Callable[[str], object]]] = {
    "email": ("an e-mail address", _read_email),
    "uri": ("a URL such as https://example.com", _read_url),
    "date": ("a date such as 2026-01-31", date.fromisoformat),
    "date-time": ("a date and time such as 2026-01-31T12:00:00Z", datetime.fromisoformat),
}
