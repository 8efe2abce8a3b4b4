"""What a rule is: one difference between a seed document and today's v1, and how to cross it each way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from duologue.compat.message import OpenMessage, Part, Place

__all__ = ["Rewrite", "Rule", "Source", "params", "results"]

Source: TypeAlias = Literal["seed-001", "seed-003", "seed-004", "transport draft", "models"]
"""Who writes the other form. `models` is the model list of the October 2025 schema, adapted only on request."""

Rewrite: TypeAlias = Callable[[OpenMessage], bool]
"""Changes the letter where the rule applies; true if it did."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table.

    Attributes:
        sources: Which documents have the other form; `write` is used only towards a peer that speaks one of them.
        seed_form: The other form, for people.
        today: Today's form, for people.
        places: The bodies it looks at.
        read: From the other form to today's.
        write: From today's form to the other, where that is of use to the peer.
    """

    name: str
    sources: tuple[Source, ...]
    seed_form: str
    today: str
    places: tuple[Place, ...]
    read: Rewrite | None = None
    write: Rewrite | None = None


def params(*methods: str) -> tuple[Place, ...]:
    """The params of these methods."""
    return _places("params", methods)


def results(*methods: str) -> tuple[Place, ...]:
    """The results of these methods."""
    return _places("result", methods)


def _places(part: Part, methods: Iterable[str]) -> tuple[Place, ...]:
    return tuple((part, method) for method in methods)
