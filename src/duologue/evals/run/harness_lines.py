"""Results as acp-harness and its successors write them: one line of JSON for each prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import UNSET

from duologue.evals.record.result import Grades, TrialResult, final_outcome
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.statistics.passes import pass_at_k, pass_hat_k
from duologue.evals.suite.case import Case

_PLAN_ENTRY = re.compile(r"\[(?P<status>[^\]]*)\] (?P<content>.*)")
_ORIGINAL_ID = "original_id"


def capture_line(record: TrialRecord, case: Case) -> dict[str, Any]:
    """Return the line of `capture` for a finished trial.

    Raises:
        RecordError: The record is damaged.
    """
    result, grades = record.result(), record.grades()
    # A trial whose workspace could not be made has none.
    manifest = record.manifest() if record.manifest_file.exists() else None
    steps = list(record.trajectory())
    shown = [step for each in steps if (step := harness_step(each)) is not None]
    errors = [step.text for step in steps if step.type == "error"]
    outcome = final_outcome(result, grades)
    if outcome.kind != "completed":
        errors.append(f"{outcome.kind}: {outcome.detail or outcome.reason}")
    is_full = any(step["type"] == "tool_call" for step in shown)
    line: dict[str, Any] = {
        **_head(case),
        "output": result.output,
        "trajectory": shown,
        "metadata": {
            **_metadata(case),
            "agent": result.key.agent,
            "agentVersion": "" if manifest is None else f"{manifest.agent.name} {manifest.agent.version}".strip(),
            "trajectoryRichness": "full" if is_full else "messages-only" if shown else "minimal",
            "turnCount": result.metrics.prompts,
            "stopReasons": result.stop_reasons,
            "outcome": outcome.kind,
        },
        "timing": _timing(result.ended if manifest is None else manifest.started, result),
        "toolErrors": result.metrics.failed_tool_calls > 0,
    }
    if errors:
        line["errors"] = errors
    if (score := _score(grades)) is not None:
        line["score"] = score
    return line


def trials_line(records: Sequence[TrialRecord], case: Case) -> dict[str, Any]:
    """Return the line of `trials` for all trials of a prompt; pass@k and pass^k are the unbiased values.

    Raises:
        RecordError: A record is damaged.
    """
    trials = [_trial(record) for record in records]
    passes = [trial["pass"] for trial in trials if "pass" in trial]
    line: dict[str, Any] = {**_head(case), "k": len(trials)}
    if passes:
        number, passed = len(passes), sum(passes)
        line["passRate"] = passed / number
        line["passAtK"] = pass_at_k(number, passed, min(number, len(trials)))
        line["passExpK"] = pass_hat_k(number, passed, min(number, len(trials)))
    return {**line, "trials": trials, "metadata": _metadata(case)}


def harness_step(step: TrajectoryStep) -> dict[str, Any] | None:
    """Return a step as the harness writes it; None for those that it does not know."""
    timestamp = round(step.t * 1000)
    if step.type in ("message", "thought"):
        return {"type": step.type, "content": step.text, "timestamp": timestamp}
    if step.type == "plan":
        entries = [found.groupdict() for line in step.text.splitlines() if (found := _PLAN_ENTRY.fullmatch(line))]
        return {"type": "plan", "entries": entries, "timestamp": timestamp}
    if step.type != "tool_call":
        return None
    return {
        "type": "tool_call",
        "name": step.name or step.kind,
        "status": step.status,
        **({} if step.input is UNSET else {"input": step.input}),
        **({"output": step.text} if step.text else {}),
        **({} if step.seconds is None else {"duration": round(step.seconds * 1000)}),
        "timestamp": timestamp,
    }


def prompt_case_id(case: Case) -> str:
    """Return the id that the file of prompts has, which need not be a name of a directory."""
    return str(case.metadata.get(_ORIGINAL_ID, case.id))


def _trial(record: TrialRecord) -> dict[str, Any]:
    result, grades = record.result(), record.grades()
    outcome = final_outcome(result, grades)
    trial: dict[str, Any] = {
        "trialNum": result.key.trial,
        "output": result.output,
        "trajectory": [step for each in record.trajectory() if (step := harness_step(each)) is not None],
        "duration": round((result.metrics.seconds or 0.0) * 1000),
        "outcomeKind": outcome.kind,
    }
    if not outcome.rule.counts:
        return {**trial, "error": f"{outcome.kind}: {outcome.detail or outcome.reason}"}
    return {**trial, **(_score(grades) or {})}


def _head(case: Case) -> dict[str, Any]:
    prompts = [turn.text for turn in case.turns]
    head: dict[str, Any] = {"id": prompt_case_id(case), "input": prompts[0] if len(prompts) == 1 else prompts}
    return {**head, **({"hint": case.hint} if case.hint else {})}


def _metadata(case: Case) -> dict[str, Any]:
    return {name: value for name, value in case.metadata.items() if name != _ORIGINAL_ID}


def _score(grades: Grades | None) -> dict[str, Any] | None:
    if grades is None or grades.passed is None:
        return None
    reasons = [grade.reasoning for grade in grades.grades if grade.reasoning]
    outcomes = {name: value for grade in grades.grades for name, value in grade.outcome.items()}
    score = float(grades.passed) if grades.score is None else grades.score
    return {
        "pass": grades.passed,
        "score": score,
        **({"reasoning": "; ".join(reasons)} if reasons else {}),
        **({"outcome": outcomes} if outcomes else {}),
    }


def _timing(started: str, result: TrialResult) -> dict[str, Any]:
    start, end = (round(datetime.fromisoformat(each).timestamp() * 1000) for each in (started, result.ended))
    metrics, usage = result.metrics, result.metrics.usage
    total = round((metrics.seconds or 0.0) * 1000)
    return {
        "start": start,
        "end": end,
        **({} if metrics.first_update is None else {"firstResponse": round(metrics.first_update * 1000)}),
        "sessionCreation": max(0, end - start - total),
        "total": end - start,
        **({} if usage.input is None else {"inputTokens": usage.input}),
        **({} if usage.output is None else {"outputTokens": usage.output}),
    }
