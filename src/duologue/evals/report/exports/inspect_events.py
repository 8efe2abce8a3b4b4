"""The steps of a trial as events of Inspect.

Calls of a model are not among them: a client does not see what its agent asks of a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.report.exports.conversation_steps import (
    ConversationStep,
    arguments,
    call_id,
    described,
    function_name,
)
from duologue.evals.report.exports.inspect_messages import tool_call, tool_error, tool_view
from duologue.evals.report.exports.run_records import RecordedTrial

_DECISIONS = {"allowed": "approve", "rejected": "reject", "cancelled": "terminate"}
"""Decisions of Inspect by the answers to a permission request."""


def sample_events(
    trial: RecordedTrial,
    groups: Sequence[ConversationStep],
    identity: str,
    sample_input: str | list[dict[str, Any]],
    scores: Mapping[str, dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return the events of a trial in their order; each has an id of its own."""
    case = trial.case
    sample = {"input": sample_input, "target": case.reference or "", "id": case.id}
    events = [_event(trial, 0.0, {"event": "sample_init", "sample": sample})]
    calls = {step.tool_call_id: step for group in groups for step in group.tool_calls if step.tool_call_id}
    for group in groups:
        events.extend(_group_events(trial, group, calls))
    last = trial.steps[-1].t if trial.steps else 0.0
    for name, score in scores.items():
        events.append(_event(trial, last, {"event": "score", "score": score, "scorer": name}))
    return [{"uuid": f"{identity}/event-{number}", **event} for number, event in enumerate(events, 1)]


def _group_events(
    trial: RecordedTrial, group: ConversationStep, calls: Mapping[str, TrajectoryStep]
) -> Iterator[dict[str, Any]]:
    if group.source != "agent":
        name = "prompt" if group.source == "user" else "error"
        yield _event(trial, group.t, _info(name, group.text))
        return
    if group.thought:
        yield _event(trial, group.t, _info("thought", group.thought))
    if group.text:
        yield _event(trial, group.t, _info("message", group.text))
    ordered = sorted([*group.tool_calls, *group.details], key=lambda step: step.number)
    for step in ordered:
        if step.type == "tool_call":
            yield _event(trial, step.t, _tool(trial, step))
        elif step.type == "permission":
            yield _event(trial, step.t, _approval(step, calls))
        else:
            yield _event(trial, step.t, _info(step.type, {**described(step), "text": step.text}))
    if group.stop_reason:
        end = max([group.t, *(step.t for step in ordered)])
        yield _event(trial, end, _info("stop", group.stop_reason))


def _tool(trial: RecordedTrial, step: TrajectoryStep) -> dict[str, Any]:
    event: dict[str, Any] = {
        "event": "tool",
        "type": "function",
        "id": call_id(step),
        "function": function_name(step),
        "arguments": arguments(step),
        "view": tool_view(step),
        "result": step.text,
        "metadata": described(step),
    }
    if step.seconds is not None:
        event |= {"completed": trial.time(step.t + step.seconds), "working_time": step.seconds}
    if (error := tool_error(step)) is not None:
        event |= {"error": error, "failed": True}
    return event


def _approval(step: TrajectoryStep, calls: Mapping[str, TrajectoryStep]) -> dict[str, Any]:
    call = calls.get(step.tool_call_id, step)
    return {
        "event": "approval",
        "message": step.name,
        "call": tool_call(call),
        "approver": "permissions of the case",
        "decision": _DECISIONS.get(step.status, "terminate"),
        "explanation": step.status or "not answered",
    }


def _info(source: str, data: Any) -> dict[str, Any]:
    return {"event": "info", "source": source, "data": data}


def _event(trial: RecordedTrial, t: float, members: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": trial.time(t), "working_start": t, **members}
