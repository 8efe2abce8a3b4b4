"""Extensions of ASGI by the built-in web server: drop a connection, and write many messages at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from starlette.types import Scope

ABORT = "duologue.abort"
"""The key in the state of a request for a function that drops its TCP connection."""

RESET = "duologue.reset"
"""The key in the state of a request for a function that resets its TCP connection: an error for the client."""

WRITE = "duologue.write"
"""The key in the state of a WebSocket for a function that writes many texts at once."""

Write: TypeAlias = Callable[[bytes], asyncio.Event]
"""Returns an event that is set while the client reads what is written."""

LISTEN = "duologue.listen"
"""The key in the state of a WebSocket for a function that sets what is called with texts the moment they arrive."""

OnText: TypeAlias = Callable[[bytes], bool]
"""Processes a text and returns `True`, or returns `False` and it is received like every message of ASGI."""

Listen: TypeAlias = Callable[[OnText], None]


def write_of(scope: Scope) -> Write | None:
    """Return the function that writes WebSocket frames, if the web server has one."""
    state: dict[str, Any] = scope.get("state") or {}
    return state.get(WRITE)


def listen_of(scope: Scope) -> Listen | None:
    """Return the function that sets what is called with texts, if the web server has one."""
    state: dict[str, Any] = scope.get("state") or {}
    return state.get(LISTEN)


def abort_of(scope: Scope) -> Callable[[], object]:
    """Return the function that drops the TCP connection; under other web servers it does nothing."""
    state: dict[str, Any] = scope.get("state") or {}
    abort: Callable[[], object] = state.get(ABORT, lambda: None)
    return abort


def reset_of(scope: Scope) -> Callable[[], object]:
    """Return the function that resets the TCP connection; under other web servers it does nothing."""
    state: dict[str, Any] = scope.get("state") or {}
    reset: Callable[[], object] = state.get(RESET, lambda: None)
    return reset
