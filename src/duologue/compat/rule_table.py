"""All rules, in the order in which they read; they write in the opposite order."""

from __future__ import annotations

from duologue.compat import content, models, permissions, servers, sessions, setup, terminals, updates
from duologue.compat import errors as failures
from duologue.compat.dialects import Dialect
from duologue.compat.message import Place
from duologue.compat.methods import HANDLED_BY_CLIENT, Side
from duologue.compat.rules import Rewrite, Rule

__all__ = ["MODEL_RULES", "RULES", "Rewrites", "reading", "writing"]

Rewrites = dict[Place, list[tuple[Rule, Rewrite]]]

RULES: tuple[Rule, ...] = (
    *setup.RULES,
    *servers.RULES,
    *sessions.RULES,
    *terminals.RULES,
    *updates.TAG_RULES,
    *permissions.RULES,
    *content.RULES,
    *updates.MESSAGE_RULES,
    *failures.RULES,
)
MODEL_RULES: tuple[Rule, ...] = models.RULES


def reading(side: Side, rules: tuple[Rule, ...]) -> Rewrites:
    """What may be met in frames that reach this side."""
    return _by_place([(rule, rule.read) for rule in rules], side)


def writing(side: Side, dialect: Dialect | None, *, with_models: bool) -> Rewrites:
    """What frames that reach this side have to look like there."""
    spoken = [rule for rule in RULES if dialect in rule.sources] + list(MODEL_RULES if with_models else ())
    return _by_place([(rule, rule.write) for rule in reversed(spoken)], side)


def _by_place(rules: list[tuple[Rule, Rewrite | None]], side: Side) -> Rewrites:
    rewrites: Rewrites = {}
    for rule, rewrite in rules:
        for place in rule.places:
            if rewrite is not None and _reaches(side, place):
                rewrites.setdefault(place, []).append((rule, rewrite))
    return rewrites


def _reaches(side: Side, place: Place) -> bool:
    """Params reach the side that handles the method, results the other one."""
    part, method = place
    handler = "client" if method in HANDLED_BY_CLIENT else "agent"
    return part == "error" or (part == "params") == (handler == side)
