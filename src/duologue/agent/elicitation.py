"""Elicitation: ask the user to fill in a form or to visit a URL, for the agent or for its MCP servers.

A dataclass describes a form, and the user's input becomes an instance of it:

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
from contextlib import suppress
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec

from duologue.conversation.content import JsonObject
from duologue.errors import ConnectionLost, InvalidParams, ProtocolViolation
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.values import Elicitation, ElicitationAnswer

F = TypeVar("F")

_SECRET = re.compile(r"passw(or)?d|passphrase|secret|api_?key|private_?key|access_?token", re.IGNORECASE)

_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


async def elicit(client: ClientProxy, elicitation: Elicitation) -> ElicitationAnswer:
    """Send an elicitation to the client; a malformed response counts as cancelled."""
    try:
        return await client.elicit(elicitation)
    except ProtocolViolation:
        return ElicitationAnswer(action="cancel")


async def elicit_form(
    client: ClientProxy, session_id: str, form: type[F], message: str, tool_call_id: str | None
) -> F | None:
    """Send a form, if the client supports forms; return the input, or `None` unless it was accepted and is valid."""
    schema = form_schema(form)
    if not client.capabilities.forms:
        return None
    answer = await elicit(
        client, Elicitation(message=message, session_id=session_id, tool_call_id=tool_call_id, schema=schema)
    )
    if answer.action != "accept":
        return None
    try:
        return msgspec.convert(answer.content or {}, form)
    except msgspec.ValidationError:
        return None


async def elicit_url(client: ClientProxy, session_id: str, message: str, url: str, elicitation_id: str) -> bool:
    """Send a URL; return True if the user agreed to visit it.

    Raises:
        InvalidParams: The client does not support URL elicitation.
        ValueError: The URL is not allowed.
    """
    check_url(url)
    if not client.capabilities.urls:
        raise InvalidParams("the client does not support URL elicitation")
    elicitation = Elicitation(message=message, session_id=session_id, url=url, elicitation_id=elicitation_id)
    return (await elicit(client, elicitation)).action == "accept"


def check_url(url: str) -> None:
    """Check that a URL may be shown to the user.

    Raises:
        ValueError: The scheme is not `http` or `https`, or the URL contains a user name or password.
    """
    from urllib.parse import urlsplit

    from duologue.conversation.urls import host_of  # with the tables of Unicode: later than the first session

    host_of(url)
    if "@" in urlsplit(url).netloc:
        raise ValueError("the URL must not contain a user name or password")


class ElicitationForwarder:
    """Forwards elicitations of a session's MCP servers to its client, by the same rules as the agent's own."""

    def __init__(self, client: ClientProxy, session_id: str) -> None:
        self._client = client
        self._session_id = session_id

    async def ask(self, elicitation: Elicitation) -> ElicitationAnswer:
        """Send the elicitation to the client and return the user's answer.

        Raises:
            InvalidParams: The client does not support it, the form asks for a secret, or the URL is not allowed.
            RequestError: The client answered with an error.
        """
        if elicitation.url is None:
            self._check_form(elicitation)
        else:
            self._check_url(elicitation.url)
        return await elicit(self._client, msgspec.structs.replace(elicitation, session_id=self._session_id))

    async def completed(self, elicitation_id: str) -> None:
        """Notify the client that a URL elicitation is complete."""
        if self._client.capabilities.urls:
            with suppress(ConnectionLost):
                await self._client.complete_elicitation(elicitation_id)

    def _check_form(self, elicitation: Elicitation) -> None:
        if not self._client.capabilities.forms:
            raise InvalidParams("the client does not support form elicitation")
        properties = (elicitation.schema or {}).get("properties")
        for name in cast("JsonObject", properties) if isinstance(properties, dict) else ():
            if is_secret_name(name):
                raise InvalidParams(f"a form must not ask for a secret ({name}); use a URL elicitation instead")

    def _check_url(self, url: str) -> None:
        if not self._client.capabilities.urls:
            raise InvalidParams("the client does not support URL elicitation")
        try:
            check_url(url)
        except ValueError as error:
            raise InvalidParams(f"url: {error}") from error


def form_schema(form: type) -> JsonObject:
    """Return the JSON schema of a form: strings, numbers, booleans, one or several values of a list.

    Raises:
        TypeError: A field's type cannot be part of a form, or a field asks for a secret.
    """
    if not dataclasses.is_dataclass(form):
        raise TypeError(f"a form must be a dataclass, not {form!r}")
    hints = typing.get_type_hints(form)
    properties: JsonObject = {}
    required: list[str] = []
    for field in dataclasses.fields(form):
        if is_secret_name(field.name):
            raise TypeError(f"{field.name}: a form must not ask for a secret; use `turn.elicit_url` instead")
        properties[field.name] = _property(field, hints[field.name])
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.append(field.name)
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if form.__doc__ and not form.__doc__.startswith(f"{form.__name__}("):
        schema["description"] = form.__doc__.strip()
    return schema


def is_secret_name(name: str) -> bool:
    """Return True if a field of this name asks for a secret, which a form must not do."""
    return _SECRET.search(name) is not None


def _property(field: dataclasses.Field[Any], hint: Any) -> JsonObject:
    hint = _without_none(hint)
    described = {
        key: field.metadata[key]
        for key in ("title", "description", "minimum", "maximum", "minLength", "maxLength", "pattern", "format")
        if key in field.metadata
    }
    schema = _type_schema(field.name, hint)
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if default is not dataclasses.MISSING and default is not None:
        schema["default"] = default
    return schema | described


def _type_schema(name: str, hint: Any) -> JsonObject:
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if _is_choice(hint):
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) is list and _is_choice(get_args(hint)[0]):
        return {"type": "array", "items": {"type": "string", "enum": list(get_args(get_args(hint)[0]))}}
    raise TypeError(
        f"{name}: {hint!r} cannot be part of a form; use str, int, float, bool, Literal or a list of Literal"
    )


def _is_choice(hint: Any) -> bool:
    return get_origin(hint) is Literal and all(isinstance(value, str) for value in get_args(hint))


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        members = [member for member in get_args(hint) if member is not type(None)]
        if len(members) == 1:
            return members[0]
    return hint
