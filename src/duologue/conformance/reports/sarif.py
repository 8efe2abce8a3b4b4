"""Write the report of a check as SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import msgspec

from duologue.conformance.raw_peer import Json
from duologue.conformance.reports.document import ReportDocument, ReportedRule

LEVELS = {"MUST": "error", "SHOULD": "warning", "MAY": "note"}
REPORTED_FILE = "README.md"
"""Code scanning wants a file for each result; the wire has none."""


def to_sarif(document: ReportDocument) -> str:
    """Return the broken rules as SARIF; known failures are suppressed results."""
    failed = [*document.failed(), *document.known()]
    rules = {row.number: row for row in failed}
    driver = {
        "name": "duologue check",
        "version": document.program,
        "rules": [_rule(row) for row in rules.values()],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(document)],
        "results": [_result(row) for row in failed],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _invocation(document: ReportDocument) -> Json:
    errors = [*document.harness_errors, *([document.problem] if document.problem else [])]
    made: Json = {"executionSuccessful": not errors, "startTimeUtc": document.started}
    if errors:
        made["toolExecutionNotifications"] = [{"level": "error", "message": {"text": each}} for each in errors]
    return made


def _id(row: ReportedRule) -> str:
    return f"ACP{row.number:03}"


def _rule(row: ReportedRule) -> Json:
    return {
        "id": _id(row),
        "name": row.name,
        "shortDescription": {"text": row.text},
        "fullDescription": {"text": f"{row.text} ({row.clause})"},
        "help": {"text": row.hint or row.text},
        "defaultConfiguration": {"level": LEVELS[row.level]},
    }


def _result(row: ReportedRule) -> Json:
    more = [f"{row.more_findings:,} more"] if row.more_findings else []
    text = "\n".join([*(f"{each.message} (case {each.case})" for each in row.findings), *more])
    names = dict.fromkeys(each.case for each in row.findings)  # each location once, as the format demands
    cases = [{"fullyQualifiedName": f"v{row.version}/{name}", "kind": "function"} for name in names]
    location = {"artifactLocation": {"uri": REPORTED_FILE}, "region": {"startLine": 1}}
    result: Json = {
        "ruleId": _id(row),
        "level": LEVELS[row.level],
        "message": {"text": text or row.text},
        "locations": [{"physicalLocation": location, "logicalLocations": cases}],
        "partialFingerprints": {"rule/v1": f"{row.number}/{row.version}"},
    }
    if row.is_known:
        result["suppressions"] = [{"kind": "external", "justification": "listed in the baseline"}]
    return result
