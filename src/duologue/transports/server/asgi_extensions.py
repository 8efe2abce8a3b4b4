"""What our own web server can do beyond ASGI: cut a client off, and write many messages at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from starlette.types import Scope

__all__ = ["ABORT", "WRITE", "Write", "abort_of", "write_of"]

ABORT = "duologue.abort"
"""Where our own web server puts, in the state of a request, how to cut its client off."""

WRITE = "duologue.write"
"""Where it puts, in the state of a WebSocket, how to write many texts at once."""

Write: TypeAlias = Callable[[list[bytes]], Awaitable[None]]


def write_of(scope: Scope) -> Write | None:
    """How to write many texts at once, if this web server can."""
    state: dict[str, Any] = scope.get("state") or {}
    return state.get(WRITE)


def abort_of(scope: Scope) -> Callable[[], object]:
    """How to cut off who sent this request; other web servers have their own ideas, and are left to them."""
    state: dict[str, Any] = scope.get("state") or {}
    abort: Callable[[], object] = state.get(ABORT, _leave)
    return abort


def _leave() -> None:
    """Nothing more can be done."""
