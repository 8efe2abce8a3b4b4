"""Rules: each is one difference between a seed document and today's v1, with a rewrite for each direction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from duologue.compat.json_access import Edit, any_changed
from duologue.compat.message import OpenMessage, Target
from duologue.schema import v1
from duologue.schema.base import JsonObject, Method, Notification

Side: TypeAlias = Literal["agent", "client"]

SESSION_OPENERS = (v1.SESSION_NEW, v1.SESSION_LOAD, v1.SESSION_RESUME, v1.SESSION_FORK)

Source: TypeAlias = Literal["seed-001", "seed-003", "seed-004", "transport draft", "models"]
"""The document that has the other form. `models` is the model list of the October 2025 schema, adapted on request."""

Rewrite: TypeAlias = Callable[[OpenMessage], bool]
"""Changes a message if the rule applies to it; returns True if it did."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table.

    Attributes:
        sources: The documents that have the other form; `write` is used only for a peer that uses one of them.
        seed_form: A description of the other form.
        today: A description of today's form.
        targets: The bodies that the rule looks at.
        read: Rewrites the other form to today's.
        write: Rewrites today's form to the other, where the peer needs it.
    """

    name: str
    sources: tuple[Source, ...]
    seed_form: str
    today: str
    targets: tuple[Target, ...]
    read: Rewrite | None = None
    write: Rewrite | None = None


def each(find: Callable[[OpenMessage], Iterable[JsonObject]], edit: Edit) -> Rewrite:
    """Return a rewrite that applies an edit to every object that `find` returns of a message."""
    return lambda message: any_changed(map(edit, find(message)))


def body(message: OpenMessage) -> list[JsonObject]:
    """Return the body itself: the params, the result or the error."""
    return [message.fields]


def params(*methods: Method[Any, Any] | Notification[Any]) -> tuple[Target, ...]:
    """Return the params of these methods as targets."""
    return tuple(("params", method.name) for method in methods)


def results(*methods: Method[Any, Any]) -> tuple[Target, ...]:
    """Return the results of these methods as targets."""
    return tuple(("result", method.name) for method in methods)
