"""Leaving a client that takes nothing, without waiting for it to take the good-bye."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.types import Scope

__all__ = ["ABORT", "abort_of"]

ABORT = "duologue.abort"
"""Where our own web server puts, in the state of a request, how to cut its client off."""


def abort_of(scope: Scope) -> Callable[[], object]:
    """How to cut off who sent this request; other web servers have their own ideas, and are left to them."""
    state: dict[str, Any] = scope.get("state") or {}
    abort: Callable[[], object] = state.get(ABORT, _leave)
    return abort


def _leave() -> None:
    """Nothing more can be done."""
