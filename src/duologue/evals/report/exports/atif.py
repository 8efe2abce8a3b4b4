"""Write trials as trajectories of ATIF, the Agent Trajectory Interchange Format of Harbor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from duologue.evals.record.key import directory_name
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.report.exports.conversation_steps import (
    ConversationStep,
    arguments,
    call_id,
    described,
    function_name,
    group_steps,
    shallow,
)
from duologue.evals.report.exports.output_file import replaced_file
from duologue.evals.report.exports.run_records import AgentRecords, RecordedTrial, agent_records
from duologue.evals.report.run_summary import RunSummary

ATIF_VERSION = "ATIF-v1.8"
"""Version of the format that is written."""

UNKNOWN_VERSION = "unknown"
"""Version of an agent that reports none; the format requires a text."""


def write_atif(runs: Sequence[RunSummary], directory: str | Path) -> list[Path]:
    """Write each trial that has a record as a trajectory: `AGENT/CASE/NUMBER.json`; return the files.

    A trial without a record has no file.

    Args:
        runs: The runs.
        directory: Where the files are written; it is made if it does not exist.

    Raises:
        RecordError: A run is not a directory with records.
        OSError: A file cannot be written.
    """
    written: list[Path] = []
    for records in agent_records(runs):
        folder = Path(directory, directory_name(records.agent.label))
        for trial in records.trials():
            path = folder / directory_name(trial.case.id) / f"{trial.summary.trial}.json"
            content = msgspec.json.format(msgspec.json.encode(to_trajectory(records, trial)), indent=1)
            with replaced_file(path) as file:
                file.write(content + b"\n")
            written.append(path)
    return written


def to_trajectory(records: AgentRecords, trial: RecordedTrial) -> dict[str, Any]:
    """Return a trial as an object of the format."""
    run, summary = records.run.manifest, trial.summary
    steps = [_step(trial, number, step) for number, step in enumerate(group_steps(trial.steps), 1)]
    if not steps:
        # The format has no trajectories without steps.
        text = ": ".join(filter(None, (str(summary.outcome), summary.reason, summary.detail)))
        steps = [{"step_id": 1, "timestamp": trial.time(0.0), "source": "system", "message": text}]
    extra = {
        "suite": run.suite,
        "suite_digest": run.suite_digest,
        "case": summary.case,
        "trial": summary.trial,
        "agent": records.agent.label,
        "outcome": summary.outcome,
        "reason": summary.reason,
        "detail": summary.detail,
        "missing": summary.missing,
        "passed": summary.passed,
        "score": summary.score,
        "settings": trial.manifest.settings,
        "damage": trial.damage,
    }
    return {
        "schema_version": ATIF_VERSION,
        "session_id": run.id,
        "trajectory_id": f"{run.id}/{records.agent.label}/{summary.case}/{summary.trial}",
        "agent": _agent(records, trial),
        "steps": steps,
        "final_metrics": _final_metrics(trial, len(steps)),
        "extra": _known(extra),
    }


def _agent(records: AgentRecords, trial: RecordedTrial) -> dict[str, Any]:
    agent = trial.manifest.agent
    model = trial.manifest.settings.reported.get("model")
    return _known(
        {
            "name": agent.name or agent.label,
            "version": agent.version or records.agent.identity.version or UNKNOWN_VERSION,
            "model_name": model if isinstance(model, str) else None,
            "extra": _known({"protocol": "acp", "protocol_version": agent.protocol_version, "title": agent.title}),
        }
    )


def _step(trial: RecordedTrial, number: int, step: ConversationStep) -> dict[str, Any]:
    extra = {"stop_reason": step.stop_reason, "details": [_detail(each) for each in step.details]}
    members: dict[str, Any] = {
        "step_id": number,
        "timestamp": trial.time(step.t),
        "source": step.source,
        "message": step.text,
        "reasoning_content": step.thought or None,
    }
    if step.tool_calls:
        members["tool_calls"] = [
            {
                "tool_call_id": call_id(call),
                "function_name": function_name(call),
                "arguments": arguments(call),
                "extra": described(call),
            }
            for call in step.tool_calls
        ]
        members["observation"] = {
            "results": [{"source_call_id": call_id(call), "content": call.text} for call in step.tool_calls]
        }
    return _known({**members, "extra": _known(extra)}, keep=("message",))


def _detail(step: TrajectoryStep) -> dict[str, Any]:
    return {**described(step), "text": step.text} if step.text else described(step)


def _final_metrics(trial: RecordedTrial, steps: int) -> dict[str, Any]:
    metrics, usage = trial.summary.metrics, trial.summary.metrics.usage
    figures = msgspec.to_builtins(metrics)
    return _known(
        {
            "total_prompt_tokens": usage.input,
            "total_completion_tokens": usage.output,
            "total_cached_tokens": usage.cached_read,
            "total_cost_usd": usage.cost if usage.currency == "USD" else None,
            "total_steps": steps,
            "extra": shallow(figures),
        }
    )


def _known(members: dict[str, Any], keep: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the members that say something."""
    return {name: value for name, value in members.items() if name in keep or value not in (None, "", [], {})}
