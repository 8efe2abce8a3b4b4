"""A baseline: failures that are known, so that a check fails only for new ones."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from duologue.conformance.report import Report
from duologue.conformance.verdicts import RuleResult, RuleVerdict

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
    """Mark the failures of a report that are known, and list the known ones that are fixed."""
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


def baseline_of(report: Report) -> str:
    """Return the failures of a report as the text of a baseline file."""
    lines = ["# Known failures of `duologue check`; remove an entry when it is fixed.", f"format = {FORMAT}", ""]
    for result in report.results:
        if result.verdict is RuleVerdict.FAIL:
            lines += ["[[known]]", f"rule = {result.rule.number}  # {result.rule.text}", f"version = {result.version}"]
            lines += ['reason = ""', ""]
    return "\n".join(lines)
