"""Which rules a check judges: a frozen set of a schema version, less what the user leaves out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from duologue.conformance.case import CheckCase, Run
from duologue.conformance.verdicts import CheckedSide
from duologue.suggestion import suggestion
from duologue.trace.rules.catalogue import CATALOGUE, RULE_SETS, CatalogueRule

NEWEST_SET = "1.15"
"""The set that is used unless the user names another."""


class RuleSelection(Struct, frozen=True, kw_only=True):
    """Rules by their numbers.

    Attributes:
        rule_set: Name of the frozen set.
        only: Rules to judge; empty for all of the set.
        without: Rules not to judge.
    """

    rule_set: str = NEWEST_SET
    only: frozenset[int] = frozenset()
    without: frozenset[int] = frozenset()

    @classmethod
    def of(cls, rule_set: str | None, only: Sequence[str], without: Sequence[str]) -> RuleSelection:
        """Return the selection that a user describes by numbers, ranges (`10-20`) and names.

        Raises:
            ValueError: There is no such set or rule.
        """
        name = rule_set or NEWEST_SET
        if name not in RULE_SETS:
            raise ValueError(f"there is no set of rules {name!r}; the sets are {', '.join(RULE_SETS)}")
        return cls(rule_set=name, only=_numbers(only), without=_numbers(without))

    def wants(self, rules: Collection[int]) -> bool:
        """Return True if one of the rules is selected."""
        return any(self._includes(each) for each in rules)

    def wants_case(self, case: CheckCase[Run], side: CheckedSide) -> bool:
        """Return True if a case is to be run.

        Those that judge a selected rule are; and all of them if the user asks for a rule that no case provokes, because
        the messages of every case may break it. A case that judges a rule which the user leaves out stays out.
        """
        if self.wants(case.rules):
            return True
        needs_all = bool(self.only) and any(rule.check == "passive" for rule in self.rules(side))
        return needs_all and case.is_passive and not self.without.intersection(case.rules)

    def rules(self, side: CheckedSide) -> list[CatalogueRule]:
        """Return the selected rules that bind a side."""
        return [rule for rule in CATALOGUE.values() if self._includes(rule.number) and rule.binds in (side, "both")]

    def _includes(self, number: int) -> bool:
        if number not in RULE_SETS[self.rule_set] or number in self.without:
            return False
        return not self.only or number in self.only


def _number(name: str) -> int:
    numbers = {rule.name: rule.number for rule in CATALOGUE.values()}
    if name not in numbers:
        raise ValueError(f"there is no rule {name!r}{suggestion(name, numbers)}; `duologue check rules` lists them")
    return numbers[name]


def _numbers(words: Sequence[str]) -> frozenset[int]:
    found: set[int] = set()
    for word in (part for each in words for part in each.split(",")):
        first, dash, last = word.partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            found.update(range(int(first), int(last or first) + 1) if dash else [int(first)])
        else:
            found.add(_number(word))
    if unknown := found - set(CATALOGUE):
        raise ValueError(f"there is no rule {min(unknown)}; `duologue check rules` lists them")
    return frozenset(found)
