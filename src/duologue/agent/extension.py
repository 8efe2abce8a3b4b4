"""Custom methods of an agent: their wire types from the annotations of a function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

from duologue.agent.diagnostics.checks import check_handler
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method, Notification
from duologue.schema.codec import check_readable


class Extension:
    """A coroutine function of one parameter that serves a custom method and the notification of the same name.

    Raises:
        TypeError: The function does not take one parameter, or its annotation cannot be decoded from JSON.
    """

    def __init__(self, name: str, handler: Callable[[Any], Awaitable[Any]]) -> None:
        params, result = _types_of(handler)
        check_readable(params)
        self.name = name
        self._method: Method[Any, Any] = Method(name, params, result, stable=False)
        self._notification: Notification[Any] = Notification(name, params, side="agent")
        self._handler = handler

    def register(self, handlers: Handlers) -> None:
        """Serve the method and the notification on a connection with these handlers."""
        handlers.on(self._method)(self._call)
        handlers.on(self._notification)(self._call)

    async def _call(self, context: Context, params: Any) -> Any:
        return await self._handler(params)


def _types_of(handler: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the types of parameter and result from the annotations; without any, a JSON object."""
    check_handler("custom method", handler, "params")
    hints = get_type_hints(handler)
    parameter = next(iter(inspect.signature(handler).parameters))
    result = hints.get("return", Any)
    return hints.get(parameter, dict[str, Any]), dict[str, Any] if result is type(None) else result
