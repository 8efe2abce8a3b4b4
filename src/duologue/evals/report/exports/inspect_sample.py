"""One trial as a sample of an Inspect log: its messages, its events, its scores, and how it ended."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from duologue.evals.report.exports.conversation_steps import ConversationStep, group_steps, shallow
from duologue.evals.report.exports.inspect_events import sample_events
from duologue.evals.report.exports.inspect_messages import chat_messages
from duologue.evals.report.exports.run_records import AgentRecords, RecordedTrial, iso_time
from duologue.evals.suite.case import Case
from duologue.usage.amounts import SessionUsage

PASSED = "passed"
"""Name of the score that says whether a trial passes."""

SCORE = "score"
"""Name of the score of a trial, from 0 to 1."""

_LIMITS = {"timeout": "time", "tokens": "token", "cost": "cost", "tool_calls": "custom", "prompts": "turn"}
"""Kinds of limits of Inspect by the reason of an exhausted budget."""

_STOP_REASONS = {"end_turn": "stop", "max_tokens": "max_tokens", "refusal": "content_filter"}
"""Stop reasons of Inspect by those of the protocol."""

MOST_SUMMARY_CHARACTERS = 1000
"""Characters of a text in the summary of a sample; Inspect cuts longer ones as well."""


def model_name(label: str) -> str:
    """Return the name under which an agent is the model of a log."""
    return f"acp/{label}"


def sample_of(records: AgentRecords, trial: RecordedTrial) -> dict[str, Any]:
    """Return a trial as a sample."""
    summary, case = trial.summary, trial.case
    model = model_name(records.agent.label)
    groups = group_steps(trial.steps)
    identity = f"{records.run.manifest.id}/{records.agent.label}/{case.id}/{summary.trial}"
    scores = scores_of(trial)
    sample: dict[str, Any] = {
        "id": case.id,
        "epoch": summary.trial,
        "input": sample_input(case),
        "target": case.reference or "",
        "messages": chat_messages(identity, groups, model),
        "output": _output(trial, groups, identity, model),
        "scores": scores,
        "metadata": _metadata(records, trial),
        "events": sample_events(trial, groups, identity, sample_input(case), scores),
        "model_usage": {model: usage} if (usage := usage_of(summary.metrics.usage)) else {},
        "started_at": iso_time(trial.manifest.started) or trial.time(0.0),
        "completed_at": iso_time(trial.result.ended),
        "total_time": summary.metrics.seconds,
        "uuid": _uuid(identity),
        "error": error_of(trial),
        "limit": limit_of(trial),
    }
    if case.description:
        sample["description"] = case.description
    return {name: value for name, value in sample.items() if value is not None}


def summary_of(sample: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a sample, with which a list of samples is shown."""
    names = ("id", "epoch", "description", "model_usage", "started_at", "completed_at", "total_time", "uuid")
    summary: dict[str, Any] = {name: sample[name] for name in names if name in sample}
    error, limit = sample.get("error"), sample.get("limit")
    return {
        **summary,
        "input": sample["input"] if not isinstance(sample["input"], str) else _cut(sample["input"]),
        "target": _cut(sample["target"]),
        "scores": {
            name: {**score, "explanation": _cut(score.get("explanation", ""))}
            for name, score in sample["scores"].items()
        },
        "metadata": {
            name: value for name, value in sample["metadata"].items() if isinstance(value, str | int | float | bool)
        }
        | {"patch": ""},
        "completed": True,
        "message_count": len(sample["messages"]),
        **({"error": _cut(error["message"])} if error is not None else {}),
        **({"limit": limit["type"], "limit_reason": _cut(limit["reason"])} if limit is not None else {}),
    }


def sample_input(case: Case) -> str | list[dict[str, Any]]:
    """Return the prompts of a case: one as text, several as messages."""
    texts = [turn.text or turn.text_file or "" for turn in case.turns]
    return texts[0] if len(texts) == 1 else [{"role": "user", "content": text} for text in texts]


def scores_of(trial: RecordedTrial) -> dict[str, dict[str, Any]]:
    """Return the scores of a trial that counts, and of each grader that decided."""
    summary = trial.summary
    found: dict[str, dict[str, Any]] = {}
    if summary.missing is None and summary.passed is not None:
        failed = [grade.name for grade in summary.grades if grade.required and not grade.passed]
        explanation = f"failed: {', '.join(failed)}" if failed else "all required graders passed"
        found[PASSED] = {
            "value": "C" if summary.passed else "I",
            "answer": trial.result.output,
            "explanation": explanation,
        }
        found[SCORE] = {"value": summary.score or 0.0, "explanation": "mean of the graders by weight"}
    for grade in summary.grades:
        if grade.passed is None:
            continue
        name = f"grader/{grade.name}"
        details = {"type": grade.type, "required": grade.required, "weight": grade.weight, "outcome": grade.outcome}
        found[name] = {
            "value": float(grade.passed) if grade.score is None else grade.score,
            "explanation": grade.reasoning,
            "metadata": {"passed": grade.passed, **shallow(details)},
        }
    return found


def usage_of(usage: SessionUsage) -> dict[str, Any]:
    """Return the usage that an agent reported; empty if it reported none."""
    members = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.total,
        "input_tokens_cache_read": usage.cached_read,
        "input_tokens_cache_write": usage.cached_write,
        "reasoning_tokens": usage.thought,
        "total_cost": usage.cost if usage.currency == "USD" else None,
    }
    return {name: value for name, value in members.items() if value is not None}


def error_of(trial: RecordedTrial) -> dict[str, Any] | None:
    """Return why a trial is missing, as the error of its sample."""
    summary = trial.summary
    if summary.missing is None:
        return None
    message = ": ".join(filter(None, (str(summary.missing), summary.reason, summary.detail)))
    return {"message": message, "traceback": "", "traceback_ansi": ""}


def limit_of(trial: RecordedTrial) -> dict[str, Any] | None:
    """Return the limit of the case that the agent ran into; None if it is not one of the case."""
    outcome, case = trial.result.outcome, trial.case
    if outcome.kind != "agent_exhausted_budget" or outcome.reason not in _LIMITS:
        return None
    limits: dict[str, float | None] = {
        "timeout": min(case.timeouts.turn, case.timeouts.trial),
        "tokens": case.budget.tokens,
        "cost": case.budget.cost,
        "tool_calls": case.budget.tool_calls,
        "prompts": case.budget.prompts,
    }
    value = limits[outcome.reason]
    if value is None:
        return None
    return {"type": _LIMITS[outcome.reason], "limit": value, "reason": outcome.detail or outcome.reason}


def _output(trial: RecordedTrial, groups: list[ConversationStep], identity: str, model: str) -> dict[str, Any]:
    stop = trial.result.stop_reasons[-1] if trial.result.stop_reasons else ""
    last = next((each for each in reversed(groups) if each.source == "agent"), None)
    if last is None:
        return {"model": model, "choices": []}
    message = {"role": "assistant", "content": trial.result.output, "source": "generate", "model": model}
    message["id"] = f"{_uuid(identity)}-output"
    output: dict[str, Any] = {
        "model": model,
        "choices": [{"message": message, "stop_reason": _STOP_REASONS.get(stop, "unknown")}],
        "completion": trial.result.output,
        "time": trial.summary.metrics.seconds,
    }
    if usage := usage_of(trial.summary.metrics.usage):
        output["usage"] = usage
    return output


def _metadata(records: AgentRecords, trial: RecordedTrial) -> dict[str, Any]:
    case, summary = trial.case, trial.summary
    return {
        "agent": records.agent.label,
        "outcome": summary.outcome,
        "reason": summary.reason,
        "detail": summary.detail,
        "missing": summary.missing or "",
        "family": case.family,
        "tags": case.tags,
        "quarantine": case.quarantine,
        "hint": case.hint,
        "attempts": summary.attempts,
        "directory": summary.directory,
        "stop_reasons": summary.stop_reasons,
        "metrics": shallow(msgspec.to_builtins(summary.metrics)),
        "settings": msgspec.to_builtins(trial.manifest.settings),
        "workspace": msgspec.to_builtins(trial.manifest.workspace),
        "patch": trial.patch.decode("utf-8", "replace"),
        "grader_errors": {grade.name: grade.error for grade in summary.grades if grade.error},
        "damage": trial.damage,
        "case": shallow(case.metadata),
    }


def _uuid(identity: str) -> str:
    """Return an id that is the same each time a run is exported."""
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:22]


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SUMMARY_CHARACTERS else f"{text[:MOST_SUMMARY_CHARACTERS]}…"


def samples_of(records: AgentRecords) -> Iterator[dict[str, Any]]:
    """Yield the samples of all trials that have a record; one at a time is in memory."""
    for trial in records.trials():
        yield sample_of(records, trial)
