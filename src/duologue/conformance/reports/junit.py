"""Write the report of a check as JUnit XML, one test case for each rule."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from duologue.conformance.reports.document import ReportDocument, ReportedRule
from duologue.conformance.verdicts import RuleVerdict
from duologue.markup import xml_text


def to_junit(document: ReportDocument, *, is_strict: bool = False) -> str:
    """Return the report as JUnit XML.

    A broken rule of level MUST is a failure, one of level SHOULD only if `is_strict`; else it is skipped, as are rules
    that were not judged.
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
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(suite: ET.Element, document: ReportDocument, row: ReportedRule, is_strict: bool) -> tuple[bool, bool]:
    """Add a rule; return whether it counts as a failure, and whether as skipped."""
    name = xml_text(f"{row.number} {row.name}")
    test = ET.SubElement(
        suite, "testcase", classname=f"duologue.check.{document.side}.v{row.version}", name=name, time="0"
    )
    if row.verdict is RuleVerdict.PASS:
        return False, False
    message = xml_text(f"{row.level}: {row.text} {row.reason}")
    if row.verdict is RuleVerdict.FAIL and not row.is_known and (row.level == "MUST" or is_strict):
        details = "\n".join(f"{each.case}: {each.message} (messages {list(each.frames)})" for each in row.findings)
        failure = ET.SubElement(test, "failure", message=message, type=row.level)
        failure.text = xml_text(f"{details}\n{row.clause}\nhint: {row.hint}")
        return True, False
    label = "known failure" if row.is_known else row.verdict
    ET.SubElement(test, "skipped", message=xml_text(f"{label}: {message}"))
    return False, True
