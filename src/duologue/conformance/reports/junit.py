"""Write the report of a check as JUnit XML, one test case for each rule."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from duologue.conformance.reports.document import ReportDocument, ReportedRule
from duologue.conformance.verdicts import RuleVerdict
from duologue.markup import xml_text


def to_junit(document: ReportDocument, *, is_strict: bool = False) -> str:
    """Return the report as JUnit XML.

    A broken rule of level MUST is a failure. If `is_strict`, one of level SHOULD and a MUST that was not observed are
    failures, too; else they are skipped, as are other rules without a verdict. What the check could not do is an error.
    """
    root = ET.Element("testsuites", name=xml_text(f"duologue check {document.side}"))
    for version in document.versions:
        rows = [row for row in document.rules if row.version == version]
        suite = ET.SubElement(root, "testsuite", name=f"version {version}", tests=str(len(rows)), errors="0")
        skipped = failures = 0
        for row in rows:
            is_failure, is_skipped = _add(suite, document, row, is_strict)
            failures += is_failure
            skipped += is_skipped
        suite.set("failures", str(failures))
        suite.set("skipped", str(skipped))
        suite.set("time", f"{document.seconds:.3f}")
        suite.set("timestamp", document.started.partition("+")[0])
    _add_errors(root, document)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_errors(root: ET.Element, document: ReportDocument) -> None:
    """Add a suite for what the check could not do, if there is anything."""
    errors = [*document.harness_errors, *([document.problem] if document.problem else [])]
    if not errors:
        return
    count = str(len(errors))
    suite = ET.SubElement(root, "testsuite", name="the check itself", tests=count, failures="0", errors=count)
    for number, each in enumerate(errors, 1):
        test = ET.SubElement(suite, "testcase", classname="duologue.check", name=f"error {number}", time="0")
        ET.SubElement(test, "error", message=xml_text(each))


def _is_failure(row: ReportedRule, is_strict: bool) -> bool:
    if row.verdict is RuleVerdict.FAIL:
        return not row.is_known and (row.level == "MUST" or is_strict)
    is_missed = row.verdict is RuleVerdict.NOT_OBSERVED and row.level == "MUST" and not row.is_unobservable
    return is_strict and is_missed


def _add(suite: ET.Element, document: ReportDocument, row: ReportedRule, is_strict: bool) -> tuple[bool, bool]:
    """Add a rule; return whether it counts as a failure, and whether as skipped."""
    name = xml_text(f"{row.number} {row.name}")
    test = ET.SubElement(
        suite, "testcase", classname=f"duologue.check.{document.side}.v{row.version}", name=name, time="0"
    )
    if row.verdict is RuleVerdict.PASS:
        return False, False
    message = xml_text(f"{row.level}: {row.text} {row.reason}")
    if _is_failure(row, is_strict):
        lines = [f"{each.case}: {each.message} (messages {list(each.frames)})" for each in row.findings]
        details = "\n".join([*lines, *([f"{row.more_findings:,} more"] if row.more_findings else [])])
        failure = ET.SubElement(test, "failure", message=message, type=row.level)
        failure.text = xml_text(f"{details}\n{row.clause}\nhint: {row.hint}")
        return True, False
    label = "known failure" if row.is_known else row.verdict
    ET.SubElement(test, "skipped", message=xml_text(f"{label}: {message}"))
    return False, True
