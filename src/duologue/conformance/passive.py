"""Judge the messages of a case by the passive rules, and check that the checker's own messages are valid."""

from __future__ import annotations

from duologue.conformance.case import CaseRun
from duologue.conformance.verdicts import CheckedSide, Judgement, RuleVerdict
from duologue.conformance.wire_log import NOT_STORED, ConnectionLog
from duologue.trace.frames import TracedFrame
from duologue.trace.rules.catalogue import rule_by_name
from duologue.trace.validation import RuleFinding, Validator

UNANSWERED = rule_by_name("unanswered-request").number
"""A rule that only a wait in vain breaks: a case may end, and close its connection, before every response is there."""


def judge_passively(run: CaseRun, side: CheckedSide) -> list[str]:
    """Add the judgements of the passive rules to a run; return what is wrong with the checker's own messages."""
    errors: list[str] = []
    for number in range(1, run.log.connections + 1):
        errors += _judge_connection(run, side, ConnectionLog(run.log, number))
    return errors


def _judge_connection(run: CaseRun, side: CheckedSide, log: ConnectionLog) -> list[str]:
    validator = Validator()
    numbers: dict[int, int] = {}
    findings: list[RuleFinding] = []
    errors: list[str] = []
    sent = "to_agent" if side == "agent" else "to_client"
    for frame, traced in log.traced():
        if frame.entry.invalid == NOT_STORED:
            continue
        numbers[traced.number] = frame.number
        if traced.dir == sent and not frame.is_deliberate:
            errors += _own_problems(frame.number, traced)
        findings += validator.check(traced)
    findings += validator.finish()
    failed: set[int] = set()
    for finding in findings:
        rule = rule_by_name(finding.rule).number
        frames = tuple(numbers[each] for each in finding.frames if each in numbers)
        if finding.side == side and (rule != UNANSWERED or run.log.unanswered.intersection(frames)):
            failed.add(rule)
            message = f"{finding.message} ({finding.path})" if finding.path else finding.message
            run.judgements.append(
                Judgement(
                    rule=rule,
                    verdict=RuleVerdict.FAIL,
                    case=run.name,
                    message=message,
                    frames=frames,
                )
            )
    for rule in sorted(validator.observed_by(side) - failed):
        run.judgements.append(Judgement(rule=rule, verdict=RuleVerdict.PASS, case=run.name))
    return errors


def _own_problems(number: int, frame: TracedFrame) -> list[str]:
    """Describe what is wrong with a message that the checker meant to be valid."""
    return [
        f"message {number} of the checker, {frame.method or 'a response'}, is not valid: {each.path}: {each.message}"
        for each in frame.problems
        if not each.is_tolerated and each.path != "$.id"
    ]
