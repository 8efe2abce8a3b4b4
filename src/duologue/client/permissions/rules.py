"""Rules: which actions are allowed, asked about or rejected, independent of the order they are written in.

For each kind of action there is an outcome, or a table of patterns with an outcome each. Of all patterns that match,
the strictest outcome counts: reject before ask, ask before allow. `*` is for actions that match no pattern. Each set of
rules (each file) is evaluated by itself, and again the strictest outcome counts; a set without a rule for a kind has no
influence on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

from duologue.client.permissions.actions import KINDS, Action, ActionContext, CommandInvocation
from duologue.client.permissions.patterns import CommandPattern, PathPattern, Pattern, runs_anything
from duologue.private_files import PrivateFile

Outcome: TypeAlias = Literal["allow", "ask", "reject"]
Rule: TypeAlias = Outcome | Mapping[str, Outcome]

STRICTNESS: dict[Outcome, int] = {"allow": 0, "ask": 1, "reject": 2}
DEFAULTS: dict[str, Outcome] = {"read": "allow"}
"""Only reading is allowed, inside the session's directories; everything else is asked about."""

NEEDS_A_FILE = frozenset({"read", "edit", "delete", "move"})
"""Kinds whose plain `allow` covers files inside the session's directories, so that the file must be known."""


@dataclass(frozen=True)
class Verdict:
    """An outcome, and the rule that led to it."""

    outcome: Outcome
    rule: str


@dataclass(frozen=True)
class _Table:
    """The rules for one kind of action."""

    kind: str
    default: Outcome
    patterns: tuple[tuple[Pattern, Outcome], ...]
    is_bounded: bool

    def evaluate(self, action: Action, context: ActionContext) -> Verdict:
        matching = [
            Verdict(outcome, f"{self.kind}: {pattern.text}")
            for pattern, outcome in self.patterns
            if _matches(pattern, outcome, action, context)
        ]
        if matching:
            return strictest(matching)
        if self.default == "allow" and not self._covers(action, context):
            return Verdict("ask", f"{self.kind}: not covered by `allow`")
        return Verdict(self.default, f"{self.kind}: *")

    def _covers(self, action: Action, context: ActionContext) -> bool:
        """Return True if a plain `allow` covers this action."""
        if not self.is_bounded:
            return True
        if action.path is not None:
            return _is_inside(action, context)
        if self.kind in NEEDS_A_FILE:
            return False
        is_plain = all(outcome == "allow" for _, outcome in self.patterns)
        if action.command is None:
            return is_plain
        return is_plain or self._is_known(action.command)

    def _is_known(self, command: CommandInvocation) -> bool:
        """Return True if a command is understood, and not known to run others that another rule may reject."""
        if not command.words or command.env or runs_anything(command.words):
            return False
        return not any(
            isinstance(pattern, CommandPattern) and outcome != "allow" and pattern.is_hidden_in(command)
            for pattern, outcome in self.patterns
        )


class Rules:
    """One set of rules, from a program or a file.

    Args:
        rules: An outcome, or a table of patterns, for each kind.
        file: File that they come from. Rules inside a session's directories, where its agent works, allow nothing.
        is_bounded: Let a plain `allow` cover only files inside the session's directories.

    Raises:
        ValueError: A kind or an outcome is unknown, or a pattern is not valid or allows more than it shows.
    """

    def __init__(self, rules: Mapping[str, Rule], file: PrivateFile | None = None, *, is_bounded: bool = True) -> None:
        unknown = sorted(set(rules) - set(KINDS))
        if unknown:
            raise ValueError(f"unknown kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
        self._tables = {kind: _table(kind, rule, is_bounded) for kind, rule in rules.items()}
        self.file = file
        self._state = None if file is None else file.state()

    def evaluate(self, action: Action, context: ActionContext) -> Verdict | None:
        """Return the verdict of this set; `None` if it has no rule for the kind."""
        table = self._tables.get(action.kind)
        if table is None:
            return None
        verdict = table.evaluate(action, context)
        if verdict.outcome == "allow" and self.file is not None and any(map(self.file.is_beneath, context.roots)):
            return Verdict("ask", f"{action.kind}: rules inside the session's directories allow nothing")
        return verdict

    def notice_change(self) -> bool:
        """Return True if the file has changed since the last call. The rules in memory stay as they were."""
        if self.file is None or (state := self.file.state()) == self._state:
            return False
        self._state = state
        return True


def evaluate(sets: Iterable[Rules], action: Action, context: ActionContext) -> Verdict:
    """Return the strictest verdict of all sets, or that of the defaults if no set has a rule for the kind."""
    verdicts = [verdict for rules in sets if (verdict := rules.evaluate(action, context)) is not None]
    return strictest(verdicts) if verdicts else evaluate([_defaults()], action, context)


@cache
def _defaults() -> Rules:
    return Rules({kind: DEFAULTS.get(kind, "ask") for kind in KINDS})


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that permits least."""
    return max(verdicts, key=lambda verdict: STRICTNESS[verdict.outcome])


def _table(kind: str, rule: Rule, is_bounded: bool) -> _Table:
    outcomes: dict[str, Outcome] = {"*": rule} if isinstance(rule, str) else dict(rule)
    for outcome in outcomes.values():
        if outcome not in get_args(Outcome):
            raise ValueError(f"{kind}: expected allow, ask or reject, not {outcome!r}")
    default = outcomes.pop("*", DEFAULTS.get(kind, "ask"))
    patterns: list[tuple[Pattern, Outcome]] = [
        (_pattern(kind, text, outcome), outcome) for text, outcome in outcomes.items()
    ]
    return _Table(kind, default, tuple(patterns), is_bounded)


def _pattern(kind: str, text: str, outcome: Outcome) -> Pattern:
    try:
        return CommandPattern(text, allows=outcome == "allow") if kind == "execute" else PathPattern(text)
    except ValueError as error:
        raise ValueError(f"{kind}: {error}") from error


def _matches(pattern: Pattern, outcome: Outcome, action: Action, context: ActionContext) -> bool:
    if isinstance(pattern, CommandPattern):
        if action.command is None:
            return False
        # Programs obey files of the directory they run in, and in a deeper one the agent may have put them there.
        is_home = action.command.cwd in context.roots
        return (
            is_home and pattern.matches_strictly(action.command)
            if outcome == "allow"
            else pattern.may_match(action.command)
        )
    if action.path is None:
        return False
    if outcome == "allow":
        # A link to another directory does not become part of the directory that it is in.
        return pattern.matches_strictly(action.path, context)
    return any(pattern.may_match(path, context) for path in {action.path, action.spelling or action.path})


def _is_inside(action: Action, context: ActionContext) -> bool:
    return action.path is not None and context.relative_path(action.path) is not None
