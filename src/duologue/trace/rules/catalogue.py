"""The catalogue of rules in `catalogue.toml`: number, name, text and origin of each, and how to check it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

RuleLevel: TypeAlias = Literal["MUST", "SHOULD", "MAY"]
"""Whether a violation is an error or a warning; what is only permitted cannot be violated."""
RuleSide: TypeAlias = Literal["agent", "client", "both"]
RuleCheck: TypeAlias = Literal["passive", "probe", "both", "none"]
"""How a violation can be found: in any traffic, by a case that provokes it, by either of them, or not on the wire."""

CATALOGUE_FILE = Path(__file__).with_name("catalogue.toml")


class CatalogueRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of the protocol.

    Attributes:
        number: Number, which never changes.
        name: Name, in words joined by hyphens.
        binds: The side that it is about.
        level: `MUST` if a violation is an error, `SHOULD` if it is a warning, `MAY` for a permission.
        versions: Versions of the protocol that have it.
        text: The rule in one sentence.
        clause: Page of the specification and heading, or type of the schema.
        hint: How to repair a violation.
        check: How a violation can be found.
        reason: Why the wire cannot show one.
        unstable: It is about a feature that is not stable.
    """

    number: int
    name: str
    binds: RuleSide
    level: RuleLevel
    versions: tuple[Literal[1, 2], ...]
    text: str
    clause: str
    hint: str
    check: RuleCheck
    reason: str = ""
    unstable: bool = False

    @property
    def is_passive(self) -> bool:
        """True if recordings can show a violation."""
        return self.check in ("passive", "both")

    @property
    def needs_case(self) -> bool:
        """True if a case can provoke a violation."""
        return self.check in ("probe", "both")


class _File(Struct, forbid_unknown_fields=True):
    sets: dict[str, tuple[int, ...]]
    rule: tuple[CatalogueRule, ...]


@cache
def _file() -> _File:
    return msgspec.convert(tomllib.loads(CATALOGUE_FILE.read_text("utf-8")), _File)


@cache
def _rules() -> dict[int, CatalogueRule]:
    return {rule.number: rule for rule in _file().rule}


class _Catalogue(Mapping[int, CatalogueRule]):
    """The rules by number; the file is read when it is first needed."""

    def __getitem__(self, number: int) -> CatalogueRule:
        return _rules()[number]

    def __iter__(self) -> Iterator[int]:
        return iter(_rules())

    def __len__(self) -> int:
        return len(_rules())


class _RuleSets(Mapping[str, tuple[int, ...]]):
    """Numbers of the rules of each set."""

    def __getitem__(self, name: str) -> tuple[int, ...]:
        return _file().sets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_file().sets)

    def __len__(self) -> int:
        return len(_file().sets)


CATALOGUE: Mapping[int, CatalogueRule] = _Catalogue()
"""The rules by number."""
RULE_SETS: Mapping[str, tuple[int, ...]] = _RuleSets()
"""Numbers of the rules that held for a release of the schema, by its version; a set never changes."""


@cache
def _by_name() -> dict[str, CatalogueRule]:
    return {rule.name: rule for rule in CATALOGUE.values()}


def rule_by_name(name: str) -> CatalogueRule:
    """Return the rule with this name.

    Raises:
        ValueError: There is no such rule.
    """
    try:
        return _by_name()[name]
    except KeyError:
        raise ValueError(f"there is no rule {name!r}; `duologue trace validate --list-rules` lists them") from None
