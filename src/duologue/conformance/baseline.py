"""A baseline: failures that are known, so that a check fails only for new ones."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from duologue.conformance.report import Report
from duologue.conformance.verdicts import RuleResult, RuleVerdict
from duologue.trace.rules.catalogue import CATALOGUE

FORMAT = 1
"""Version of the file format; newer files are rejected."""


class KnownFailure(Struct, frozen=True, forbid_unknown_fields=True):
    """One failure that is known.

    Attributes:
        rule: Number of the rule.
        version: Version of the protocol; None for every one.
        reason: Why it is accepted for now.
    """

    rule: int
    version: int | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """The rule, and the version if there is one."""
        return str(self.rule) if self.version is None else f"{self.rule}/{self.version}"

    def covers(self, result: RuleResult) -> bool:
        """Return True if this entry is about a result."""
        return self.rule == result.rule.number and self.version in (None, result.version)


class Baseline(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a baseline file.

    Attributes:
        format: Version of the file format.
        known: The failures.
    """

    format: int = FORMAT
    known: tuple[KnownFailure, ...] = ()


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        ValueError: It cannot be read, or is not a baseline; the message says what is wrong.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
        version = content.get("format", FORMAT)
        if isinstance(version, int) and version > FORMAT:
            raise ValueError(f"its format {version} is newer than this version of duologue reads ({FORMAT})")
        return msgspec.convert(content, Baseline)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ValueError(f"the baseline {path} cannot be used: {error}") from None


def apply_baseline(report: Report, baseline: Baseline) -> None:
    """Mark the failures of a report that are known; list the known ones that are fixed, and those it did not judge."""
    results: list[RuleResult] = []
    fixed: list[str] = []
    for result in report.results:
        is_listed = any(each.covers(result) for each in baseline.known)
        if is_listed and result.verdict is RuleVerdict.PASS:
            fixed.append(f"{result.rule.number}/{result.version}")
        is_known = is_listed and result.verdict is RuleVerdict.FAIL
        results.append(msgspec.structs.replace(result, is_known=is_known))
    report.results = results
    report.fixed = fixed
    reasons = ((each, _unjudged(each, report)) for each in baseline.known)
    report.unjudged = [f"{each.name} ({reason})" for each, reason in reasons if reason]


def _unjudged(known: KnownFailure, report: Report) -> str:
    """Say why a check did not judge what an entry is about; empty if it did, or the user left the rule out."""
    rule = CATALOGUE.get(known.rule)
    if rule is None:
        return "there is no such rule"
    if rule.binds not in (report.side, "both"):
        return f"it binds the {rule.binds}"
    if known.version is not None and known.version not in rule.versions:
        return f"it is no rule of version {known.version}"
    if known.version is not None and known.version not in report.versions:
        return f"version {known.version} was not checked"
    verdicts = {each.verdict for each in report.results if known.covers(each)}
    if verdicts.intersection((RuleVerdict.FAIL, RuleVerdict.PASS)):
        return ""
    return " and ".join(sorted(verdicts))


def baseline_of(report: Report) -> str:
    """Return the failures of a report as the text of a baseline file."""
    lines = ["# Known failures of `duologue check`; remove an entry when it is fixed.", f"format = {FORMAT}", ""]
    for result in report.results:
        if result.verdict is RuleVerdict.FAIL:
            lines += ["[[known]]", f"rule = {result.rule.number}  # {result.rule.text}", f"version = {result.version}"]
            lines += ['reason = ""', ""]
    return "\n".join(lines)
