"""A dataclass becomes a form, and the user's answers become an instance of it.

@dataclass
class Release:
    version: str
    notes: str = field(default="", metadata={"title": "What is new", "description": "Markdown"})
    channel: Literal["stable", "beta"] = "stable"
    announce: bool = True
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from duologue.conversation.content import JsonObject
from duologue.errors import ProtocolViolation
from duologue.protocol.interfaces import ClientProxy
from duologue.protocol.values import Elicitation, ElicitationAnswer

__all__ = ["ask_elicitation", "ask_form", "form_schema", "is_secret"]

F = TypeVar("F")

_SECRET = re.compile(r"passw(or)?d|passphrase|secret|api_?key|private_?key|access_?token", re.IGNORECASE)

_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def form_schema(form: type) -> JsonObject:
    """The flat form the protocol knows: strings, numbers, switches, one or several of a list.

    Raises:
        TypeError: A field's type has no place in a form.
    """
    if not dataclasses.is_dataclass(form):
        raise TypeError(f"a form is a dataclass, not {form!r}")
    hints = typing.get_type_hints(form)
    properties: JsonObject = {}
    required: list[str] = []
    for field in dataclasses.fields(form):
        if is_secret(field.name):
            raise TypeError(f"{field.name}: a form never asks for a secret; send the user to an address with `ask_url`")
        properties[field.name] = _property(field, hints[field.name])
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.append(field.name)
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if form.__doc__ and not form.__doc__.startswith(f"{form.__name__}("):
        schema["description"] = form.__doc__.strip()
    return schema


def is_secret(name: str) -> bool:
    """Whether a field of this name asks for what no form may ask for."""
    return _SECRET.search(name) is not None


async def ask_form(editor: ClientProxy, question: Elicitation, form: type[F]) -> F | None:
    """Put the question and read the answer; `None` unless it was accepted and fits."""
    answer = await ask_elicitation(editor, question)
    if answer.action != "accept":
        return None
    try:
        return msgspec.convert(answer.content or {}, form)
    except msgspec.ValidationError:
        return None


async def ask_elicitation(editor: ClientProxy, question: Elicitation) -> ElicitationAnswer:
    """Put the question; an answer that makes no sense is none."""
    try:
        return await editor.elicit(question)
    except ProtocolViolation:
        return ElicitationAnswer(action="cancel")


def _property(field: dataclasses.Field[Any], hint: Any) -> JsonObject:
    hint = _without_none(hint)
    described = {
        key: field.metadata[key]
        for key in ("title", "description", "minimum", "maximum", "minLength", "maxLength", "pattern", "format")
        if key in field.metadata
    }
    shape = _shape(field.name, hint)
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if default is not dataclasses.MISSING and default is not None:
        shape["default"] = default
    return shape | described


def _shape(name: str, hint: Any) -> JsonObject:
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if _is_choice(hint):
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) is list and _is_choice(get_args(hint)[0]):
        return {"type": "array", "items": {"type": "string", "enum": list(get_args(get_args(hint)[0]))}}
    raise TypeError(f"{name}: {hint!r} has no place in a form (str, int, float, bool, Literal, list of Literal)")


def _is_choice(hint: Any) -> bool:
    return get_origin(hint) is Literal and all(isinstance(value, str) for value in get_args(hint))


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        members = [member for member in get_args(hint) if member is not type(None)]
        if len(members) == 1:
            return members[0]
    return hint
