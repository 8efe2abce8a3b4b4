"""Write the patches of trials as predictions for SWE-bench."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from duologue.evals.report.exports.run_records import RecordedTrial, agent_records
from duologue.evals.report.run_summary import RunSummary

_CUT = re.compile(rb"\n\[\d+ more bytes\]\n\Z")
"""End of a patch that was too large to be recorded."""


class Predictions(Struct, frozen=True, kw_only=True):
    """The predictions of one agent.

    Attributes:
        text: JSON lines with `instance_id`, `model_name_or_path` and `model_patch`.
        left_out: Trials that have no line, each with the reason.
    """

    text: str
    left_out: tuple[str, ...] = ()


def to_swebench(runs: Sequence[RunSummary], *, agent: str | None = None, trial: int = 1) -> Predictions:
    """Return the patches of one agent as predictions, one for each case.

    SWE-bench evaluates one prediction for each instance; the other trials of a case are further files.
    The instance is `instance_id` in the metadata of a case, or else its id.

    Args:
        runs: The runs.
        agent: Label of the agent; may be left out if there is only one.
        trial: Number of the trial.

    Raises:
        RecordError: A run is not a directory with records.
        ValueError: There is no such agent, or more than one and none was named.
    """
    known = agent_records(runs)
    chosen = [each for each in known if agent is None or each.agent.label == agent]
    if len(chosen) != 1:
        labels = ", ".join(each.agent.label for each in known)
        received = "no agent" if agent is None else repr(agent)
        raise ValueError(f"received {received}, expected the label of one agent, of which these exist: {labels}")
    lines: list[str] = []
    left_out = [
        f"{each.case}, trial {each.trial}: {each.missing}"
        for each in chosen[0].agent.trials()
        if each.trial == trial and each.outcome is None
    ]
    for each in chosen[0].trials(trial):
        if reason := _obstacle(each):
            left_out.append(f"{each.case.id}, trial {trial}: {reason}")
        else:
            prediction = _prediction(chosen[0].agent.label, each)
            lines.append(msgspec.json.encode(prediction).decode() + "\n")
    return Predictions(text="".join(lines), left_out=tuple(left_out))


def _obstacle(trial: RecordedTrial) -> str:
    """Return why a trial has no prediction."""
    outcome = trial.result.outcome
    if not outcome.rule.counts:
        # An empty patch would count as the agent's own.
        return outcome.kind
    if trial.damage and not trial.patch:
        return trial.damage
    if _CUT.search(trial.patch):
        return "its patch was too large to be recorded"
    try:
        trial.patch.decode()
    except UnicodeDecodeError:
        return "its patch is not UTF-8, and JSON cannot contain it"
    return ""


def _prediction(label: str, trial: RecordedTrial) -> dict[str, Any]:
    instance = trial.case.metadata.get("instance_id")
    return {
        "instance_id": instance if isinstance(instance, str) and instance else trial.case.id,
        "model_name_or_path": label,
        "model_patch": trial.patch.decode(),
    }
