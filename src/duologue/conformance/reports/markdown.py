"""Write the report of a check as Markdown, for pull requests and job summaries."""

from __future__ import annotations

from duologue.conformance.reports.document import ReportDocument, ReportedRule
from duologue.conformance.verdicts import RuleVerdict
from duologue.markup import markdown_code, markdown_text


def to_markdown(document: ReportDocument) -> str:
    """Return the report as Markdown: a summary, the broken rules, and the rules that were not judged."""
    lines = [f"# Check of {markdown_code(document.target)}", "", *_summary(document), ""]
    failed = document.failed()
    if failed:
        lines += ["## Broken rules", ""]
        for row in failed:
            lines += _broken(row)
    if document.known():
        lines += ["## Known failures", "", *_table(document.known()), ""]
    if document.fixed:
        lines += ["## Fixed since the baseline", "", ", ".join(document.fixed), ""]
    if document.notes():
        lines += ["## Notes", "", *(f"- {markdown_text(each)}" for each in document.notes()), ""]
    if document.harness_errors:
        lines += ["## The checker failed", "", *(f"- {markdown_text(each)}" for each in document.harness_errors), ""]
    unjudged = [row for row in document.rules if row.verdict in (RuleVerdict.SKIPPED, RuleVerdict.NOT_OBSERVED)]
    if unjudged:
        lines += ["<details><summary>Rules without a verdict</summary>", "", *_table(unjudged), "", "</details>", ""]
    return "\n".join(lines)


def _summary(document: ReportDocument) -> list[str]:
    info = " ".join(str(document.info[key]) for key in ("name", "version") if key in document.info)
    versions = " and ".join(map(str, document.versions))
    counts = "; ".join(f"{count} {verdict}" for verdict, count in document.summary.items())
    who = f"{document.side} {markdown_text(info)}".strip()
    facts = f"version {versions} of the protocol, rule set {document.rule_set}, {document.started}"
    return [f"The {who} on {document.transport}, {facts}, {document.seconds:g} s.", "", f"**{counts}**"]


def _broken(row: ReportedRule) -> list[str]:
    lines = [
        f"### {row.number} {markdown_text(row.text)}",
        "",
        f"{row.level}, version {row.version}. {markdown_text(row.clause)}.",
        "",
    ]
    for each in row.findings:
        frames = f" (messages {', '.join(map(str, each.frames))})" if each.frames else ""
        lines.append(f"- {markdown_text(each.case)}: {markdown_text(each.message)}{frames}")
    more = [f"- {row.more_findings:,} more"] if row.more_findings else []
    return [*lines, *more, "", *([f"Hint: {markdown_text(row.hint)}", ""] if row.hint else [])]


def _table(rows: list[ReportedRule]) -> list[str]:
    head = ["| rule | version | verdict | rule in words | reason |", "|---|---|---|---|---|"]
    return head + [
        f"| {row.number} {row.level} | {row.version} | {row.verdict} | {markdown_text(row.text)} | "
        f"{markdown_text(row.reason)} |"
        for row in rows
    ]
