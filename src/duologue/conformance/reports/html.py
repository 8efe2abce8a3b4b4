"""Write the report of a check as one HTML page without scripts: rules, findings, and the wire of each case."""

from __future__ import annotations

from duologue.conformance.reports.document import ReportDocument, ReportedCase, ReportedFrame, ReportedRule
from duologue.conformance.verdicts import RuleVerdict
from duologue.markup import html_page, html_text

CLASSES = {
    RuleVerdict.PASS: "pass",
    RuleVerdict.FAIL: "fail",
    RuleVerdict.SKIPPED: "skip",
    RuleVerdict.NOT_OBSERVED: "none",
}
BY_WEIGHT = (RuleVerdict.FAIL, RuleVerdict.PASS, RuleVerdict.NOT_OBSERVED, RuleVerdict.SKIPPED)
"""The first of these that a case has gives its name the colour."""
STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --soft: #f6f8fa; --dim: #59636e; --pass: #1a7f37; --fail: #cf222e;
  --skip: #59636e; --none: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --soft: #151b23; --dim: #9198a1; --pass: #3fb950;
  --fail: #f85149; --skip: #9198a1; --none: #d29922; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1.5rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.dim { color: var(--dim); } code, pre { font: 13px/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; } td, th { border-bottom: 1px solid var(--line); padding: .35rem .5rem;
  text-align: left; vertical-align: top; } td { overflow-wrap: anywhere; }
.pass { color: var(--pass); } .fail { color: var(--fail); } .skip { color: var(--skip); } .none { color: var(--none); }
.verdict { font-weight: 600; white-space: nowrap; }
.counts span { border: 1px solid var(--line); border-radius: 1rem; display: inline-block; margin: 0 .4rem .4rem 0;
  padding: .1rem .8rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } pre { background: var(--soft); margin: .15rem 0; overflow-x: auto; padding: .3rem .6rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.to-agent { border-left: 3px solid #0969da; } .to-client { border-left: 3px solid #8250df; }
@media print { details { break-inside: avoid; } body { max-width: none; } }
"""


def to_html(document: ReportDocument) -> str:
    """Return the report as one page that loads nothing."""
    body = [
        *_head(document),
        *_broken(document),
        *_rules(document),
        "<h2>Cases</h2>",
        *(part for case in document.cases for part in _case(case)),
    ]
    return html_page(f"Check of {document.target}", STYLE, body)


def _head(document: ReportDocument) -> list[str]:
    info = " ".join(str(document.info[key]) for key in ("name", "version") if key in document.info)
    facts = [
        f"{document.side} {info}".strip(),
        document.transport,
        f"version {' and '.join(map(str, document.versions))} of the protocol",
        f"rule set {document.rule_set}",
        document.started,
        f"{document.seconds:g} s",
        f"duologue {document.program}",
    ]
    counts = [
        f'<span class="{CLASSES[RuleVerdict(verdict)]}">{count} {verdict}</span>'
        for verdict, count in document.summary.items()
    ]
    errors = [f'<p class="fail">The checker failed: {html_text(each)}</p>' for each in document.harness_errors]
    listed = html_text(", ".join(document.fixed))
    fixed = [f'<p class="pass">Fixed since the baseline: {listed}</p>'] if listed else []
    return [
        f"<h1>Check of <code>{html_text(document.target)}</code></h1>",
        f'<p class="dim">{html_text(", ".join(facts))}</p>',
        f'<p class="counts">{"".join(counts)}</p>',
        *errors,
        *fixed,
        *(f'<p class="none">Note: {html_text(each)}.</p>' for each in document.notes()),
    ]


def _broken(document: ReportDocument) -> list[str]:
    lines = ["<h2>Broken rules</h2>"]
    if not document.failed():
        return [*lines, '<p class="pass">None.</p>']
    for row in document.failed():
        findings = "".join(
            f"<li>{html_text(each.message)} {_links(row, each.case, each.frames)}</li>" for each in row.findings
        )
        more = f"<li>{row.more_findings:,} more</li>" if row.more_findings else ""
        hint = f"<p>Hint: {html_text(row.hint)}</p>" if row.hint else ""
        lines.append(
            f'<details open><summary><span class="fail verdict">{row.level}</span> {row.number} {html_text(row.text)} '
            f'<span class="dim">version {row.version}, {html_text(row.clause)}</span></summary>'
            f"<ul>{findings}{more}</ul>{hint}</details>"
        )
    return lines


def _links(row: ReportedRule, case: str, frames: tuple[int, ...]) -> str:
    if not frames:
        return f'<a href="#{_anchor(case, row.version)}">{html_text(case)}</a>' if case else ""
    return " ".join(f'<a href="#{_anchor(case, row.version)}-{each}">message {each}</a>' for each in frames)


def _rules(document: ReportDocument) -> list[str]:
    head = "<tr><th>rule</th><th>version</th><th>level</th><th>verdict</th><th>rule in words</th></tr>"
    rows = [_rule(row) for row in document.rules]
    return ["<h2>All rules</h2>", f"<table><thead>{head}</thead><tbody>", *rows, "</tbody></table>"]


def _rule(row: ReportedRule) -> str:
    verdict = f"{row.verdict} (known)" if row.is_known else row.verdict
    return (
        f"<tr><td>{row.number}</td><td>{row.version}</td><td>{row.level}</td>"
        f'<td class="verdict {CLASSES[row.verdict]}">{verdict}</td>'
        f'<td>{html_text(row.text)}<div class="dim">{html_text(row.reason)}</div></td></tr>'
    )


def _case(case: ReportedCase) -> list[str]:
    worst = next((each for each in BY_WEIGHT if each in case.verdicts.values()), RuleVerdict.NOT_OBSERVED)
    anchor = _anchor(case.case, case.version)
    repeated = ", repeated" if case.is_repeated else ""
    facts = f"version {case.version}, {len(case.wire):,} messages, {case.seconds:g} s{repeated}"
    omitted = f'<p class="dim">{case.omitted:,} more messages</p>' if case.omitted else ""
    stderr = f"<p>stderr:</p><pre>{html_text(case.stderr)}</pre>" if case.stderr else ""
    name = f'<span class="verdict {CLASSES[worst]}">{html_text(case.case)}</span>'
    return [
        f'<details id="{anchor}"><summary>{name} {html_text(case.title)} <span class="dim">{facts}</span></summary>',
        *(_frame(anchor, frame) for frame in case.wire),
        f"{omitted}{stderr}</details>",
    ]


def _frame(anchor: str, frame: ReportedFrame) -> str:
    note = " (wrong on purpose)" if frame.is_deliberate else ""
    head = f"{frame.number} {frame.t:.3f} s to the {frame.to}{note}"
    attributes = f'class="to-{frame.to}" id="{anchor}-{frame.number}"'
    return f'<pre {attributes}><span class="dim">{head}</span>\n{html_text(frame.text)}</pre>'


def _anchor(case: str, version: int) -> str:
    return html_text(f"v{version}-{case}")
