"""Rules: what is allowed, asked about or rejected, whatever order they are written in.

For each kind of act there is a word, or a table of patterns with a word each. Of all patterns that match, the strictest
counts: reject before ask, ask before allow. `*` is what holds where none matches. Several sets of rules (files) are
judged each by itself, and again the strictest word counts; a set that says nothing about a kind has no say in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

from duologue.client.permissions.actions import KINDS, Action, ActionContext, CommandInvocation
from duologue.client.permissions.patterns import CommandPattern, PathPattern, Pattern, runs_anything
from duologue.private_files import PrivateFile

__all__ = ["DEFAULTS", "Rule", "Rules", "Verdict", "Word", "evaluate", "strictest"]

Word: TypeAlias = Literal["allow", "ask", "reject"]
Rule: TypeAlias = Word | Mapping[str, Word]

STRICTNESS: dict[Word, int] = {"allow": 0, "ask": 1, "reject": 2}
DEFAULTS: dict[str, Word] = {"read": "allow"}
"""Nothing but reading, and that only inside the session's directories; everything else is asked about."""

NEEDS_A_FILE = frozenset({"read", "edit", "delete", "move"})
"""A plain `allow` of these is about files inside the session's directories: without a file nobody knows."""


@dataclass(frozen=True)
class Verdict:
    """A word, and the rule that said it."""

    word: Word
    rule: str


@dataclass(frozen=True)
class _Table:
    """The rules for one kind."""

    kind: str
    default: Word
    patterns: tuple[tuple[Pattern, Word], ...]
    is_bounded: bool

    def evaluate(self, effect: Action, scene: ActionContext) -> Verdict:
        matching = [
            Verdict(word, f"{self.kind}: {pattern.text}")
            for pattern, word in self.patterns
            if _matches(pattern, word, effect, scene)
        ]
        if matching:
            return strictest(matching)
        if self.default == "allow" and not self._covers(effect, scene):
            return Verdict("ask", f"{self.kind}: beyond what is allowed")
        return Verdict(self.default, f"{self.kind}: *")

    def _covers(self, effect: Action, scene: ActionContext) -> bool:
        """Whether a general `allow` is meant for this too."""
        if not self.is_bounded:
            return True
        if effect.path is not None:
            return _is_inside(effect, scene)
        if self.kind in NEEDS_A_FILE:
            return False
        is_plain = all(word == "allow" for _, word in self.patterns)
        if effect.command is None:
            return is_plain
        return is_plain or self._is_known(effect.command)

    def _is_known(self, command: CommandInvocation) -> bool:
        """Whether a command can be read, and is not known to run others that another rule may forbid."""
        if not command.words or command.env or runs_anything(command.words):
            return False
        return not any(
            isinstance(pattern, CommandPattern) and word != "allow" and pattern.is_hidden_in(command)
            for pattern, word in self.patterns
        )


class Rules:
    """One set of rules, as a program or a file gives them.

    Args:
        rules: A word, or a table of patterns, for each kind it has a say in.
        file: Where they stand. A file inside a session's own directories, where its agent works, allows nothing.
        is_bounded: Whether a general `allow` is about files inside the session's directories only.

    Raises:
        ValueError: An unknown kind, a word that is none, or a pattern that is none or allows more than it says.
    """

    def __init__(self, rules: Mapping[str, Rule], file: PrivateFile | None = None, *, is_bounded: bool = True) -> None:
        unknown = sorted(set(rules) - set(KINDS))
        if unknown:
            raise ValueError(f"there is no kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
        self._tables = {kind: _table(kind, rule, is_bounded) for kind, rule in rules.items()}
        self.file = file
        self._state = None if file is None else file.state()

    def evaluate(self, effect: Action, scene: ActionContext) -> Verdict | None:
        """What this set says; None if it says nothing about the kind."""
        table = self._tables.get(effect.kind)
        if table is None:
            return None
        ruling = table.evaluate(effect, scene)
        if ruling.word == "allow" and self.file is not None and any(map(self.file.is_beneath, scene.roots)):
            return Verdict("ask", f"{effect.kind}: rules inside the session's directories allow nothing")
        return ruling

    def notice_change(self) -> bool:
        """Whether the file is another than it was when this was last asked. These rules stay what they were."""
        if self.file is None or (state := self.file.state()) == self._state:
            return False
        self._state = state
        return True


def evaluate(sets: Iterable[Rules], effect: Action, scene: ActionContext) -> Verdict:
    """The strictest word of all sets; the defaults where none has a say."""
    said = [ruling for rules in sets if (ruling := rules.evaluate(effect, scene)) is not None]
    return strictest(said) if said else evaluate([_defaults()], effect, scene)


@cache
def _defaults() -> Rules:
    return Rules({kind: DEFAULTS.get(kind, "ask") for kind in KINDS})


def strictest(rulings: Iterable[Verdict]) -> Verdict:
    """The one that lets through the least."""
    return max(rulings, key=lambda ruling: STRICTNESS[ruling.word])


def _table(kind: str, rule: Rule, is_bounded: bool) -> _Table:
    words: dict[str, Word] = {"*": rule} if isinstance(rule, str) else dict(rule)
    for word in words.values():
        if word not in get_args(Word):
            raise ValueError(f"{kind}: {word!r} is none of allow, ask, reject")
    default = words.pop("*", DEFAULTS.get(kind, "ask"))
    patterns: list[tuple[Pattern, Word]] = [(_pattern(kind, text, word), word) for text, word in words.items()]
    return _Table(kind, default, tuple(patterns), is_bounded)


def _pattern(kind: str, text: str, word: Word) -> Pattern:
    try:
        return CommandPattern(text, allows=word == "allow") if kind == "execute" else PathPattern(text)
    except ValueError as error:
        raise ValueError(f"{kind}: {error}") from error


def _matches(pattern: Pattern, word: Word, effect: Action, scene: ActionContext) -> bool:
    if isinstance(pattern, CommandPattern):
        if effect.command is None:
            return False
        # Programs obey files of the directory they run in, and in a deeper one the agent may have put them there.
        is_home = effect.command.place in scene.roots
        return (
            is_home and pattern.matches_strictly(effect.command)
            if word == "allow"
            else pattern.may_match(effect.command)
        )
    if effect.path is None:
        return False
    if word == "allow":
        # A link to elsewhere does not become part of the place it stands in.
        return pattern.matches_strictly(effect.path, scene)
    return any(pattern.may_match(path, scene) for path in {effect.path, effect.spelling or effect.path})


def _is_inside(effect: Action, scene: ActionContext) -> bool:
    return effect.path is not None and scene.beneath(effect.path) is not None
