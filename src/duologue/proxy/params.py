"""Params and results of methods as the types of this library, and changes of them written back into the JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Raw, structs

from duologue.conversation.fields import convert_fields
from duologue.conversation.session_setup import SessionParams
from duologue.conversation.updates import KINDS as UPDATE_KINDS
from duologue.errors import InvalidParams
from duologue.protocol.client_requests import KINDS, request_from_wire, request_to_wire, result_to_wire
from duologue.protocol.shared.session_setup import session_params_from_wire, session_params_to_wire
from duologue.protocol.v1 import content as v1_content
from duologue.protocol.v1 import updates as v1_updates
from duologue.protocol.v2 import content as v2_content
from duologue.protocol.v2 import tools as v2_tools
from duologue.protocol.v2 import updates as v2_updates
from duologue.protocol.values import PermissionOption
from duologue.proxy.json_patch import patched
from duologue.proxy.values import PermissionQuestion, Prompt
from duologue.schema import v1, v2
from duologue.schema.base import Method, Model, Notification
from duologue.schema.codec import decode, decode_result

_SCHEMAS: dict[int, Any] = {1: v1, 2: v2}
_CONTENT: dict[int, Any] = {1: v1_content, 2: v2_content}


def _methods(schema: Any) -> dict[tuple[str, bool], Any]:
    constants = cast("dict[str, Any]", vars(schema.methods))
    return {
        (each.name, isinstance(each, Method)): each
        for each in constants.values()
        if isinstance(each, Method | Notification)
    }


_METHODS = {version: _methods(schema) for version, schema in _SCHEMAS.items()}
"""The methods of each version, by name and whether they are requests."""

OPENING = ("session/new", "session/load", "session/resume", "session/fork")
"""Methods whose params are `SessionParams`."""
PERMISSION = "session/request_permission"


class Converter(NamedTuple):
    """How the params of one method become a type of this library, and how such a value is written."""

    types: tuple[type, ...]
    """Types that a rule may return instead."""
    read: Callable[[int, Any], Any]
    write: Callable[[int, Any, Any], Any]


def _prompt(version: int, params: Any) -> Prompt:
    return Prompt(session_id=params.session_id, content=_CONTENT[version].blocks_from_wire(params.prompt))


def _write_prompt(version: int, params: Any, prompt: Prompt) -> Any:
    blocks = _CONTENT[version].blocks_to_wire(prompt.content)
    return structs.replace(params, session_id=prompt.session_id, prompt=blocks)


def _session(version: int, params: Any) -> SessionParams:
    return session_params_from_wire(_SCHEMAS[version], params, _CONTENT[version].blocks_from_wire)


def _write_session(version: int, params: Any, session: SessionParams) -> Any:
    fields = session_params_to_wire(_SCHEMAS[version], session, _CONTENT[version].blocks_to_wire)
    return structs.replace(params, **fields)


def _update(version: int, params: Any) -> Any:
    return (v1_updates if version == 1 else v2_updates).update_from_wire(params.update)


def _write_update(version: int, params: Any, update: Any) -> Any:
    written = v1_updates.update_to_wire(update) if version == 1 else v2_updates.update_to_wire(update)
    if written is None:
        raise TypeError(f"version 1 of the protocol has no {type(update).__name__}")
    return structs.replace(params, update=written)


def _question(version: int, params: Any) -> PermissionQuestion:
    if version == 1:
        tool = v1_updates.permission_tool_from_wire(params.tool_call)
    else:
        tool = v2_tools.permission_tool_from_wire(params)
    options = [convert_fields(option, PermissionOption) for option in params.options]
    return PermissionQuestion(session_id=params.session_id, tool=tool, options=options)


def _write_question(version: int, params: Any, question: PermissionQuestion) -> Any:
    if question.tool != _question(version, params).tool:
        raise TypeError("only the options of a permission request can be changed")
    options = [convert_fields(option, _SCHEMAS[version].PermissionOption) for option in question.options]
    return structs.replace(params, options=options)


_CONVERTERS: dict[str, Converter] = {
    "session/prompt": Converter((Prompt,), _prompt, _write_prompt),
    "session/update": Converter(tuple(UPDATE_KINDS), _update, _write_update),
    PERMISSION: Converter((PermissionQuestion,), _question, _write_question),
    **dict.fromkeys(OPENING, Converter((SessionParams,), _session, _write_session)),
}
_CLIENT_REQUESTS = {getattr(v1, kind.method).name: kind for kind in KINDS}


def side_of(method: str, *, is_request: bool) -> str | None:
    """Return the side that handles a method, `agent` or `client`; None if it is either, or not known."""
    found = _METHODS[1].get((method, is_request)) or _METHODS[2].get((method, is_request))
    return found.side if found is not None and found.side in ("agent", "client") else None


class TypedContent:
    """The params of a request or notification, or the result of a response, as a type.

    Args:
        text: The JSON text.
        version: Version of the protocol.
        method: The method.
        kind: `request`, `notification` or `response`.

    Attributes:
        types: Types that a rule may return instead of it.

    Raises:
        InvalidParams: The text does not have the form that the schema gives it.
    """

    def __init__(self, text: bytes | Raw, version: int, method: str, kind: str) -> None:
        self._text = text
        self._version = version
        declared = _METHODS[version].get((method, kind != "notification"))
        is_result = kind == "response"
        self._type: Any = None if declared is None else declared.result if is_result else declared.params
        self._is_result = is_result
        self._converter = None if is_result or declared is None else _converter_of(method)
        value = self.read()
        self.types: tuple[type, ...] = (type(value),) if self._converter is None else self._converter.types

    def _wire(self) -> Any:
        if self._type is None:
            return msgspec.json.decode(self._text)
        return (decode_result if self._is_result else decode)(self._type, bytes(self._text))

    def read(self) -> Any:
        """Return the value, a new one each time, so that a rule cannot change what it is compared with."""
        wire = self._wire()
        return wire if self._converter is None else self._converter.read(self._version, wire)

    def changed_to(self, value: Any) -> bytes:
        """Return the JSON text with another value; what the type does not know stays as it is.

        Raises:
            TypeError: The value cannot be written.
        """
        wire = self._wire()
        before, after = wire, value
        if self._converter is not None:
            before = self._converter.write(self._version, wire, self._converter.read(self._version, wire))
            after = self._converter.write(self._version, wire, value)
        return patched(self._text, _plain(before), _plain(after))


def _converter_of(method: str) -> Converter | None:
    kind = _CLIENT_REQUESTS.get(method)
    if kind is None:
        return _CONVERTERS.get(method)

    def read(version: int, params: Any) -> Any:
        return request_from_wire(kind, params)

    return Converter((kind,), read, _write_request)


def _write_request(version: int, params: Any, request: Any) -> Any:
    return request_to_wire(_SCHEMAS[version], request)


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def result_text(version: int, method: str, result: Any) -> bytes:
    """Return the JSON text of an answer to a request.

    Args:
        version: Version of the protocol.
        method: The method of the request.
        result: A JSON object, a class of the schema, or the plain result of a request to the client: the text of a
            file, the id of a terminal, the id of the option that is chosen (None: cancelled).

    Raises:
        TypeError: This is no result of the method.
    """
    text = msgspec.json.encode(_result(_SCHEMAS[version], method, result))
    declared = _METHODS[version].get((method, True))
    if declared is not None:
        try:
            decode_result(declared.result, text)
        except InvalidParams as error:
            raise TypeError(f"this is no result of {method}: {error}") from None
    return text


def _result(schema: Any, method: str, result: Any) -> Any:
    kind = _CLIENT_REQUESTS.get(method)
    if isinstance(result, dict | Model):
        return cast("object", result)
    if method == PERMISSION:
        return schema.RequestPermissionResponse(outcome=permission_outcome(schema, result))
    if kind is not None:
        return result_to_wire(schema, kind, result)
    return {} if result is None else result


def permission_outcome(schema: Any, option_id: str | None) -> Any:
    """Return the outcome of a permission request: the chosen option, or None for "cancelled"."""
    if option_id is None:
        return schema.CancelledPermissionOutcome()
    return schema.SelectedPermissionOutcome(option_id=option_id)
