"""The report of a check."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from duologue.conformance.raw_peer import Json
from duologue.conformance.verdicts import CaseResult, CheckedSide, RuleResult, RuleVerdict

FORMAT = 1
"""Version of reports as JSON."""


class Report(Struct, kw_only=True):
    """The findings of a check.

    Attributes:
        side: What was checked.
        target: Its command or URL.
        info: Name and version that it reported.
        transport: How it was reached.
        versions: Versions of the protocol that were checked.
        rule_set: Name of the frozen set of rules.
        profile: Name of the profile.
        started: When the check began: UTC, ISO 8601.
        seconds: How long it took.
        results: The result of each rule in each version.
        cases: The cases with their messages.
        fixed: Rules of the baseline that no longer fail, as `number/version`.
        unjudged: Entries of the baseline about which this check says nothing, each with the reason.
        problem: Why the peer could not be checked at all; empty if it could.
        format: Version of this structure as JSON.
    """

    side: CheckedSide
    target: str
    transport: str
    versions: tuple[int, ...]
    rule_set: str
    info: Json = {}
    profile: str = ""
    started: str = ""
    seconds: float = 0.0
    results: list[RuleResult] = []
    cases: list[CaseResult] = []
    fixed: list[str] = []
    unjudged: list[str] = []
    problem: str = ""
    format: int = FORMAT

    @property
    def counts(self) -> Counter[RuleVerdict]:
        """How many rules have each verdict."""
        return Counter(each.verdict for each in self.results)

    @property
    def harness_errors(self) -> list[str]:
        """Mistakes of the checker itself."""
        return [f"{each.case}: {error}" for each in self.cases for error in each.harness_errors]

    def failures(self, level: str | None = None) -> list[RuleResult]:
        """Return the results that fail and are not known to, of all levels or of one."""
        failed = [each for each in self.results if each.verdict is RuleVerdict.FAIL and not each.is_known]
        return [each for each in failed if level is None or each.rule.level == level]

    def unobserved(self) -> list[RuleResult]:
        """Return the rules of level MUST that should have been observed and were not."""
        return [
            each
            for each in self.results
            if each.verdict is RuleVerdict.NOT_OBSERVED and each.rule.level == "MUST" and each.rule.check != "none"
        ]
