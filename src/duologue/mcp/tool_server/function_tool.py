"""A Python function as an MCP tool: name, description from the docstring, schema from the annotations."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, cast, get_type_hints

import msgspec
from msgspec import Struct

from duologue.conversation.content import (
    AudioContent,
    ImageContent,
    JsonObject,
    Resource,
    ResourceLink,
    TextContent,
    UnknownContent,
    as_content,
)
from duologue.mcp.results import McpResult, write_content

_CONTENT = (TextContent, ImageContent, AudioContent, ResourceLink, Resource, UnknownContent)
_ROOT = "arguments"

log = logging.getLogger(__name__)


class FunctionTool:
    """A function that models may call.

    The return value becomes the result: text, content or a list of both as they are, anything else as JSON. An
    exception becomes a failed call that names it. A coroutine function is awaited; a plain one runs in a thread and may
    block.

    Attributes:
        name: The name of the function.
        definition: The entry in `tools/list`.

    Raises:
        TypeError: The function has no name, or a parameter cannot be passed by name or decoded from JSON.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name: str = function.__name__
        if not self.name.isidentifier():
            raise TypeError(f"a tool must be a named function, not {self.name}")
        self._function = function
        self._arguments = _arguments_of(function)
        self.definition: JsonObject = {
            "name": self.name,
            "description": inspect.getdoc(function) or "",
            "inputSchema": _schema_of(self._arguments),
        }

    async def __call__(self, arguments: JsonObject) -> JsonObject:
        """Return the result of `tools/call`; invalid arguments are a failed call too, which the model can correct."""
        try:
            given = msgspec.convert(arguments, self._arguments)
            values = {field: getattr(given, field) for field in self._arguments.__struct_fields__}
            if inspect.iscoroutinefunction(self._function):
                value = await self._function(**values)
            else:
                value = await asyncio.to_thread(self._function, **values)
            return _result_of(value)
        except Exception as error:
            log.debug("the tool %s failed", self.name, exc_info=True)
            return {"content": [{"type": "text", "text": f"{type(error).__name__}: {error}"}], "isError": True}


def _arguments_of(function: Callable[..., Any]) -> type[Struct]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{function.__name__}: {parameter} cannot be passed by name")
        hint = hints.get(name, Any)
        fields.append((name, hint) if parameter.default is parameter.empty else (name, hint, parameter.default))
    return msgspec.defstruct(_ROOT, fields, kw_only=True, forbid_unknown_fields=True)


def _schema_of(arguments: type[Struct]) -> JsonObject:
    _, definitions = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema: JsonObject = definitions.pop(_ROOT)
    del schema["title"]
    return {**schema, "$defs": definitions} if definitions else schema


def _result_of(value: Any) -> JsonObject:
    match value:
        case McpResult():
            return value.raw
        case None:
            items: list[Any] = []
        case [*items]:
            pass
        case _:
            items = [value]
    if all(isinstance(item, (str, *_CONTENT)) for item in items):
        return {"content": [write_content(as_content(item)) for item in items]}
    structured: Any = msgspec.to_builtins(value, str_keys=True)
    text = msgspec.json.encode(structured).decode()
    whole = cast("JsonObject", structured) if isinstance(structured, dict) else {"result": structured}
    return {"content": [{"type": "text", "text": text}], "structuredContent": whole}
