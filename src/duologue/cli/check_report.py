"""Show the progress and the report of `duologue check` on a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec

from duologue.cli.console.safe_output import SafeOutput, Style
from duologue.conformance.reports.document import ReportDocument, ReportedRule
from duologue.conformance.verdicts import CaseResult, RuleVerdict
from duologue.sanitize import escape_line
from duologue.trace.rules.catalogue import CATALOGUE

FORMAT = 1
"""Version of the lines of `check rules --json`."""
STYLES = {
    RuleVerdict.PASS: Style.GREEN,
    RuleVerdict.FAIL: Style.RED,
    RuleVerdict.SKIPPED: Style.DIM,
    RuleVerdict.NOT_OBSERVED: Style.YELLOW,
}


class CheckProgress:
    """A line that counts the cases, if stderr is a terminal.

    Args:
        out: Where to write it.
    """

    def __init__(self, out: SafeOutput) -> None:
        self._out = out
        self._count = 0
        self._failed = 0
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Erase the line, before something else is printed."""
        if self._is_drawn:
            self._is_drawn = False
            self._out.draw_line()

    def say(self, text: str) -> None:
        """Tell the user something, in a line of its own."""
        self.clear()
        self._out.write(f"duologue check: {text}\n")

    def report(self, result: CaseResult) -> None:
        """Print what a case found, for a person who uses the client meanwhile."""
        failed = [each for each in result.judgements if each.verdict is RuleVerdict.FAIL]
        for each in failed:
            self.say(f"{result.case}: rule {each.rule} FAIL: {escape_line(each.message)}")
        passed = {each.rule for each in result.judgements if each.verdict is RuleVerdict.PASS}
        if not failed:
            self.say(f"{result.case}: {f'rules kept: {len(passed)}' if passed else 'nothing to judge'}")

    def show(self, result: CaseResult) -> None:
        """Count a case that has ended."""
        self._count += 1
        self._failed += any(each.verdict is RuleVerdict.FAIL for each in result.judgements)
        if self._out.isatty():
            broken = f", {self._failed} with findings" if self._failed else ""
            self._is_drawn = True
            self._out.draw_line(f"cases done: {self._count}{broken}; last: {result.case}")


def write_report(out: SafeOutput, document: ReportDocument, *, is_verbose: bool) -> None:
    """Write the broken rules, or all with `is_verbose`, and a summary."""
    if is_verbose:
        for row in document.rules:
            if row.verdict is not RuleVerdict.FAIL:
                _write_line(out, row)
    for row in document.known():
        _write_line(out, row)
    for row in document.failed():
        _write_broken(out, row)
    for error in document.harness_errors:
        out.write(f"the checker failed: {error}\n", Style.RED)
    if document.fixed:
        fixed = ", ".join(document.fixed)
        out.write(f"fixed since the baseline (rule/version): {fixed}; remove them from it\n", Style.GREEN)
    for note in document.notes():
        out.write(f"note: {note}\n", Style.YELLOW)
    _write_summary(out, document)


def _write_line(out: SafeOutput, row: ReportedRule) -> None:
    verdict = "KNOWN" if row.is_known else row.verdict
    out.write(f"{verdict:<13}", STYLES[row.verdict])
    reason = f"  [{escape_line(row.reason)}]" if row.reason else ""
    out.write(f"{row.number:>3}  v{row.version}  {row.level:<7}{row.text}")
    out.write(f"{reason}\n", Style.DIM)


def _write_broken(out: SafeOutput, row: ReportedRule) -> None:
    out.write("FAIL  ", Style.RED)
    out.write(f"{row.number} {row.name}", Style.BOLD)
    out.write(f"  {row.level}, version {row.version}\n", Style.DIM)
    out.write(f"    {row.text}\n")
    for each in row.findings:
        frames = f" (messages {', '.join(map(str, each.frames))})" if each.frames else ""
        out.write(f"    - {escape_line(each.message)}")
        out.write(f"{frames}, case {each.case}\n", Style.DIM)
    if row.more_findings:
        out.write(f"    - {row.more_findings:,} more\n")
    out.write(f"    clause: {row.clause}\n", Style.DIM)
    if row.hint:
        out.write(f"    hint: {row.hint}\n", Style.DIM)


def _write_summary(out: SafeOutput, document: ReportDocument) -> None:
    out.write(f"\n{document.side} {escape_line(document.target)}", Style.BOLD)
    versions = " and ".join(map(str, document.versions))
    out.write(f", {document.transport}, version {versions}, rule set {document.rule_set}, {document.seconds:.1f} s\n")
    for verdict in RuleVerdict:
        out.write(f"  {document.summary[verdict]:>4} {verdict}", STYLES[verdict])
    unobservable = sum(row.is_unobservable for row in document.rules)
    unseen = f" ({unobservable} of them cannot be seen on the wire)" if unobservable else ""
    out.write(f"{unseen}\n")
    failed = document.failed()
    must = sum(row.level == "MUST" for row in failed)
    if document.problem:
        out.write(f"  the {document.side} could not be checked\n", Style.RED)
    elif must:
        out.write(f"  {must} broken rules of level MUST\n", Style.RED)
    elif failed:
        out.write(f"  no MUST is broken; {len(failed)} findings of level SHOULD\n", Style.YELLOW)
    else:
        out.write("  no rule is broken\n", Style.GREEN)


def write_rules(out: SafeOutput, *, as_json: bool) -> None:
    """Write the catalogue of rules."""
    for rule in CATALOGUE.values():
        if as_json:
            out.write_json({"format": FORMAT, **msgspec.to_builtins(rule)})
        else:
            out.write(f"{rule.number:>4}  {rule.level:<7}{rule.binds:<7} ", Style.DIM)
            out.write(rule.name, Style.BOLD)
            out.write(f": {rule.text}\n")
