"""All rules, in the order in which they read; they write in the opposite order."""

from __future__ import annotations

from duologue.compat import content, errors, models, permissions, servers, sessions, setup, terminals, updates
from duologue.compat.dialects import Dialect
from duologue.compat.message import Target
from duologue.compat.rules import Rewrite, Rule, Side
from duologue.schema import v1

_CLIENT_METHODS = frozenset(
    [name for name, method in v1.METHODS.items() if method.side == "client"]
    + [name for name, notification in v1.NOTIFICATIONS.items() if notification.side == "client"]
)

Rewrites = dict[Target, list[tuple[Rule, Rewrite]]]

RULES: tuple[Rule, ...] = (
    *setup.RULES,
    *servers.RULES,
    *sessions.RULES,
    *terminals.RULES,
    *updates.TAG_RULES,
    *permissions.RULES,
    *content.RULES,
    *updates.MESSAGE_RULES,
    *errors.RULES,
)
MODEL_RULES: tuple[Rule, ...] = models.RULES


def reading(side: Side, rules: tuple[Rule, ...]) -> Rewrites:
    """Return the rewrites of frames that this side receives."""
    return _by_target([(rule, rule.read) for rule in rules], side)


def writing(side: Side, dialect: Dialect | None, *, with_models: bool) -> Rewrites:
    """Return the rewrites of frames that are sent to this side."""
    rules = [rule for rule in RULES if dialect in rule.sources] + list(MODEL_RULES if with_models else ())
    return _by_target([(rule, rule.write) for rule in reversed(rules)], side)


def _by_target(rules: list[tuple[Rule, Rewrite | None]], side: Side) -> Rewrites:
    rewrites: Rewrites = {}
    for rule, rewrite in rules:
        for target in rule.targets:
            if rewrite is not None and _reaches(side, target):
                rewrites.setdefault(target, []).append((rule, rewrite))
    return rewrites


def _reaches(side: Side, target: Target) -> bool:
    """Return True if this side receives the target: params reach the handler of a method, results the other side."""
    part, method = target
    handler = "client" if method in _CLIENT_METHODS else "agent"
    return part == "error" or (part == "params") == (handler == side)
