"""The report of a check as plain data without secrets: what every format shows."""

from __future__ import annotations

import os
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from duologue import __version__
from duologue.conformance.raw_peer import Json
from duologue.conformance.report import FORMAT, Report
from duologue.conformance.verdicts import CaseResult, RuleResult, RuleVerdict
from duologue.conformance.wire_log import WireFrame
from duologue.recording.redaction import Redactor, environment_secrets
from duologue.sanitize import replace_lone_surrogates

LONGEST_MESSAGE = 2000
"""Characters that are shown of a message on the wire, and of a finding."""
MOST_FINDINGS = 20
"""Findings that are shown of one rule; a peer that breaks it in every message breaks it in as many ways."""
MOST_FRAMES = 400
"""Messages that are shown of one case."""


class ReportedFinding(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One judgement of a rule.

    Attributes:
        case: Name of the case.
        message: What was received and what was expected, or why the rule was not judged.
        frames: Numbers of the messages concerned, in the wire of the case.
    """

    case: str
    message: str = ""
    frames: tuple[int, ...] = ()


class ReportedRule(Struct, frozen=True, rename="camel", kw_only=True):
    """One rule in one version of the protocol.

    Attributes:
        number: Number of the rule.
        name: Name of the rule.
        level: MUST, SHOULD or MAY.
        binds: The side that it is about.
        version: Version of the protocol.
        verdict: PASS, FAIL, SKIPPED or NOT OBSERVED.
        text: The rule in one sentence.
        clause: Where the specification says so.
        hint: How to repair a violation.
        is_known: True if the baseline lists this failure.
        is_unobservable: True if the wire cannot show it.
        findings: The judgements with this verdict.
        more_findings: How many of them are not listed.
    """

    number: int
    name: str
    level: str
    binds: str
    version: int
    verdict: RuleVerdict
    text: str
    clause: str
    hint: str
    is_known: bool
    is_unobservable: bool
    findings: list[ReportedFinding]
    more_findings: int = 0

    @property
    def reason(self) -> str:
        """The message of the first finding."""
        return self.findings[0].message if self.findings else ""


class ReportedFrame(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """One message on the wire.

    Attributes:
        number: Its number in the case.
        connection: Number of the connection in the case.
        t: Seconds since the case began.
        to: Who received it: `agent` or `client`.
        text: The message, cut if it is long.
        size: Its length in bytes.
        is_deliberate: True if the checker sent it although it breaks the protocol.
    """

    number: int
    connection: int
    t: float
    to: Literal["agent", "client"]
    text: str
    size: int = 0
    is_deliberate: bool = False


class ReportedCase(Struct, frozen=True, rename="camel", kw_only=True):
    """One case with its messages.

    Attributes:
        case: Its name.
        title: What it does.
        version: Version of the protocol.
        seconds: How long it took.
        verdicts: Verdict of each rule that it judged, by number.
        wire: Its messages.
        omitted: Messages that are not listed.
        is_repeated: True if it was run again, alone and with more time, because a wait took longer than the limit.
        has_timed_out: True if a wait of this run, the last one, took longer than its limit.
        stderr: The end of what the peer wrote to stderr.
    """

    case: str
    title: str
    version: int
    seconds: float
    verdicts: dict[str, RuleVerdict]
    wire: list[ReportedFrame]
    omitted: int = 0
    stderr: str = ""
    is_repeated: bool = False
    has_timed_out: bool = False


class ReportDocument(Struct, rename="camel", kw_only=True):
    """A whole report.

    Attributes:
        duologue: Always `check`.
        format: Version of this structure.
        program: Version of duologue that wrote it.
        side: What was checked: `agent` or `client`.
        target: Its command or URL, secrets removed.
        transport: How it was reached.
        info: Name and version that it reported.
        versions: Versions of the protocol that were checked.
        rule_set: The frozen set of rules.
        profile: Name of the profile.
        started: When the check began.
        seconds: How long it took.
        summary: Number of rules with each verdict.
        rules: The rules.
        cases: The cases.
        fixed: Entries of the baseline that no longer fail.
        unjudged: Entries of the baseline about which this check says nothing, with the reason.
        problem: Why the peer could not be checked at all; empty if it could.
        harness_errors: Mistakes of the checker itself.
    """

    duologue: Literal["check"] = "check"
    format: int = FORMAT
    program: str = __version__
    side: str
    target: str
    transport: str
    info: Json
    versions: tuple[int, ...]
    rule_set: str
    profile: str
    started: str
    seconds: float
    summary: dict[str, int]
    rules: list[ReportedRule]
    cases: list[ReportedCase]
    fixed: list[str]
    unjudged: list[str] = []
    problem: str = ""
    harness_errors: list[str]

    def failed(self) -> list[ReportedRule]:
        """Return the rules that fail and are not known to, MUST first."""
        found = [row for row in self.rules if row.verdict is RuleVerdict.FAIL and not row.is_known]
        return sorted(found, key=lambda row: (row.level != "MUST", row.number, row.version))

    def notes(self) -> list[str]:
        """Return sentences about what the check could not do, repeated, or did not judge."""
        found = [f"the {self.side} could not be checked: {self.problem}"] if self.problem else []
        repeated = [each for each in self.cases if each.is_repeated]
        if repeated:
            names = ", ".join(f"{each.case} (version {each.version})" for each in repeated)
            again = sum(each.has_timed_out for each in repeated)
            found.append(
                f"cases that waited longer than the limit and were repeated alone with more time, so that the second "
                f"run decides: {names}; {again or 'none'} of them waited in vain again"
            )
        if self.unjudged:
            listed = ", ".join(self.unjudged)
            found.append(
                f"entries of the baseline that this check did not judge: {listed}; remove those that no longer apply"
            )
        return found

    def known(self) -> list[ReportedRule]:
        """Return the failures that the baseline lists."""
        return [row for row in self.rules if row.is_known]


def make_document(report: Report) -> ReportDocument:
    """Return a report as plain data, without secrets."""
    redactor = Redactor(values=environment_secrets(os.environ))
    return ReportDocument(
        side=report.side,
        target=_clean(redactor, report.target),
        transport=report.transport,
        info=redactor.redact(report.info),
        versions=report.versions,
        rule_set=report.rule_set,
        profile=report.profile,
        started=report.started,
        seconds=report.seconds,
        summary={verdict: report.counts[verdict] for verdict in RuleVerdict},
        rules=[_rule(redactor, each) for each in report.results],
        cases=[_case(redactor, each) for each in report.cases],
        fixed=report.fixed,
        unjudged=report.unjudged,
        problem=_clean(redactor, report.problem),
        harness_errors=[_clean(redactor, each) for each in report.harness_errors],
    )


def _rule(redactor: Redactor, result: RuleResult) -> ReportedRule:
    rule, findings = result.rule, _findings(redactor, result)
    return ReportedRule(
        number=rule.number,
        name=rule.name,
        level=rule.level,
        binds=rule.binds,
        version=result.version,
        verdict=result.verdict,
        text=rule.text,
        clause=rule.clause,
        hint=rule.hint,
        is_known=result.is_known,
        is_unobservable=rule.check == "none",
        findings=findings[:MOST_FINDINGS],
        more_findings=max(0, len(findings) - MOST_FINDINGS),
    )


def _findings(redactor: Redactor, result: RuleResult) -> list[ReportedFinding]:
    """Return the findings, each message once."""
    found: dict[str, ReportedFinding] = {}
    for each in result.judgements:
        if each.message or not found:
            found.setdefault(each.message, ReportedFinding(each.case, _clean(redactor, each.message), each.frames))
    return list(found.values())


def _case(redactor: Redactor, result: CaseResult) -> ReportedCase:
    wire = _shown(result)
    return ReportedCase(
        case=result.case,
        title=result.title,
        version=result.version,
        seconds=result.seconds,
        verdicts={str(each.rule): each.verdict for each in result.judgements},
        wire=[_frame(redactor, frame) for frame in wire],
        omitted=len(result.wire) - len(wire),
        stderr=_clean(redactor, result.stderr),
        is_repeated=result.is_repeated,
        has_timed_out=result.has_timed_out,
    )


def _shown(result: CaseResult) -> list[WireFrame]:
    """Return the first messages of a case, and of the later ones those that a finding is about."""
    failures = (each.frames for each in result.judgements if each.verdict is RuleVerdict.FAIL)
    named = {number for frames in failures for number in frames}
    later = [frame for frame in result.wire[MOST_FRAMES:] if frame.number in named]
    return [*result.wire[:MOST_FRAMES], *later[:MOST_FRAMES]]


def _frame(redactor: Redactor, frame: WireFrame) -> ReportedFrame:
    raw = frame.entry.frame
    if isinstance(raw, Raw):
        message = msgspec.json.decode(raw)
        text = msgspec.json.encode(redactor.redact(message)).decode()
    else:
        text = redactor.redact_broken(frame.entry.text or "")
    return ReportedFrame(
        number=frame.number,
        connection=frame.connection,
        t=frame.entry.t,
        to="agent" if frame.entry.dir == "to_agent" else "client",
        text=_cut(text),
        size=frame.size,
        is_deliberate=frame.is_deliberate,
    )


def _clean(redactor: Redactor, text: str) -> str:
    return _cut(redactor.redact_broken(text))


def _cut(text: str) -> str:
    text = replace_lone_surrogates(text)
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"
