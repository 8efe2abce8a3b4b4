"""The results of a check: judgements of rules by cases, and what they say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from duologue.conformance.wire_log import WireFrame
from duologue.trace.rules.catalogue import CatalogueRule

CheckedSide: TypeAlias = Literal["agent", "client"]


class RuleVerdict(StrEnum):
    """The state of a rule after a check."""

    PASS = "PASS"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    SKIPPED = "SKIPPED"
    NOT_OBSERVED = "NOT OBSERVED"


_STRENGTH = {RuleVerdict.NOT_OBSERVED: 0, RuleVerdict.SKIPPED: 1, RuleVerdict.PASS: 2, RuleVerdict.FAIL: 3}
"""Of several judgements of one rule, the strongest counts."""


class Judgement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict of one case about one rule.

    Attributes:
        rule: Number of the rule.
        verdict: The verdict.
        case: Name of the case.
        message: What was received and what was expected, or why the rule was not judged.
        frames: Numbers of the messages concerned, in the wire of the case.
    """

    rule: int
    verdict: RuleVerdict
    case: str
    message: str = ""
    frames: tuple[int, ...] = ()


class CaseResult(Struct, kw_only=True):
    """The findings of one case.

    Attributes:
        case: Name of the case.
        version: Version of the protocol that was used.
        title: What the case does, in one sentence.
        judgements: Its judgements.
        wire: Every message of the case.
        stderr: The end of what the agent wrote to stderr.
        seconds: How long it took.
        harness_errors: What the checker itself did wrong; a check with such an error proves nothing.
        has_timed_out: True if a wait for the peer took longer than its limit.
        is_repeated: True if the case was run again, alone and with more time, because of such a wait.
    """

    case: str
    version: int
    title: str = ""
    judgements: list[Judgement] = []
    wire: list[WireFrame] = []
    stderr: str = ""
    seconds: float = 0.0
    harness_errors: list[str] = []
    has_timed_out: bool = False
    is_repeated: bool = False


class RuleResult(Struct, frozen=True, kw_only=True):
    """The verdict of all cases together about one rule in one version of the protocol.

    Attributes:
        rule: The rule.
        version: Version of the protocol.
        verdict: The strongest of the judgements.
        judgements: Those that have this verdict.
        is_known: True if the baseline lists this failure.
    """

    rule: CatalogueRule
    version: int
    verdict: RuleVerdict
    judgements: tuple[Judgement, ...] = ()
    is_known: bool = False

    @property
    def message(self) -> str:
        """The message of the first judgement with this verdict."""
        return self.judgements[0].message if self.judgements else ""


def combine(rules: Iterable[CatalogueRule], version: int, results: Iterable[CaseResult]) -> list[RuleResult]:
    """Return the result of each rule in one version, in the order of the rules."""
    by_rule: dict[int, list[Judgement]] = {}
    for result in results:
        if result.version == version:
            for judgement in result.judgements:
                by_rule.setdefault(judgement.rule, []).append(judgement)
    return [_combined(rule, version, by_rule) for rule in rules if version in rule.versions]


def _combined(rule: CatalogueRule, version: int, by_rule: Mapping[int, list[Judgement]]) -> RuleResult:
    found = by_rule.get(rule.number, [])
    if not found:
        reason = rule.reason or "no case gave an occasion to observe it"
        found = [Judgement(rule=rule.number, verdict=RuleVerdict.NOT_OBSERVED, case="", message=reason)]
    strongest = max((each.verdict for each in found), key=_STRENGTH.__getitem__)
    chosen = tuple(each for each in found if each.verdict is strongest)
    return RuleResult(rule=rule, version=version, verdict=strongest, judgements=chosen)
