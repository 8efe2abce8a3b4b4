"""Graders of the steps of a trial: which tools were called, which commands ran, and in which order."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec import UNSET

from duologue.evals.graders.interface import GraderInput
from duologue.evals.record.result import GraderOutput
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.suite.grader_specs import TrajectoryCheck, TrajectoryGrader

WRITING = ("edit", "delete", "move", "execute")
"""Kinds of tool calls that change something."""

_Check = Callable[[TrajectoryGrader, Sequence[TrajectoryStep]], list[str]]


def grade_trajectory(spec: TrajectoryGrader, trial: GraderInput) -> GraderOutput:
    """Grade the steps of a trial."""
    problems = _CHECKS[spec.check](spec, trial.trajectory)
    return GraderOutput(passed=not problems, score=0.0 if problems else 1.0, reasoning="; ".join(problems[:20]))


def _called(spec: TrajectoryGrader, steps: Sequence[TrajectoryStep]) -> list[str]:
    return [] if _matching_calls(spec, steps) else [f"no tool call {_described(spec)}"]


def _never_called(spec: TrajectoryGrader, steps: Sequence[TrajectoryStep]) -> list[str]:
    return [f"step {step.number} calls {step.name or step.kind!r}" for step in _matching_calls(spec, steps)]


def _ran(spec: TrajectoryGrader, steps: Sequence[TrajectoryStep]) -> list[str]:
    ran = [step for step in _matching_commands(spec, steps) if step.status == "completed"]
    return [] if ran else [f"no command matches {spec.pattern!r}"]


def _never_ran(spec: TrajectoryGrader, steps: Sequence[TrajectoryStep]) -> list[str]:
    return [f"step {step.number} runs {step.command[:200]!r}" for step in _matching_commands(spec, steps)]


def _count(spec: TrajectoryGrader, steps: Sequence[TrajectoryStep]) -> list[str]:
    count = len(_matching_calls(spec, steps))
    if spec.at_least is not None and count < spec.at_least:
        return [f"{count} tool calls, fewer than {spec.at_least}"]
    if spec.at_most is not None and count > spec.at_most:
        return [f"{count} tool calls, more than {spec.at_most}"]
    return []


def _read_before_edit(spec: TrajectoryGrader, steps: Sequence[TrajectoryStep]) -> list[str]:
    known: set[str] = set()
    problems: list[str] = []
    for step in steps:
        if step.type == "file_read" or (step.type == "tool_call" and step.kind in ("read", "search")):
            known.update(map(os.path.normpath, step.paths))
        elif step.type in ("tool_call", "file_write"):
            changed = step.changes or (step.paths if step.type == "file_write" or step.kind == "edit" else [])
            for path in map(os.path.normpath, changed):
                is_new = path in map(os.path.normpath, step.created)
                if step.status not in ("failed", "cancelled", "pending") and path not in known and not is_new:
                    problems.append(f"step {step.number} changes {path}, which was not read before")
                known.add(path)
    return problems


def _asked_before_writing(spec: TrajectoryGrader, steps: Sequence[TrajectoryStep]) -> list[str]:
    # The agent asks for the tool call; what it then requests from its client belongs to that call.
    allowed = {step.tool_call_id for step in steps if step.type == "permission" and step.status == "allowed"}
    problems: list[str] = []
    asked = False
    for step in steps:
        if step.type == "permission":
            asked = asked or step.status == "allowed"
        elif step.type == "tool_call" and (step.kind in WRITING or step.changes) and step.status == "completed":
            if step.tool_call_id not in allowed:
                problems.append(f"step {step.number} ({step.name or step.kind}) was not asked for")
        elif step.type in ("file_write", "command") and step.status == "completed" and not asked:
            problems.append(f"step {step.number} ({step.command or ', '.join(step.paths)}) was not asked for")
    return problems


_CHECKS: dict[TrajectoryCheck, _Check] = {
    "called": _called,
    "never_called": _never_called,
    "ran": _ran,
    "never_ran": _never_ran,
    "read_before_edit": _read_before_edit,
    "asked_before_writing": _asked_before_writing,
    "tool_calls": _count,
}


def _matching_calls(spec: TrajectoryGrader, steps: Sequence[TrajectoryStep]) -> list[TrajectoryStep]:
    calls = (step for step in steps if step.type == "tool_call" and spec.kind in ("", step.kind))
    return [step for step in calls if spec.pattern is None or re.search(spec.pattern, _searched(step))]


def _matching_commands(spec: TrajectoryGrader, steps: Sequence[TrajectoryStep]) -> list[TrajectoryStep]:
    # A command that failed did run; only one that was not allowed did not.
    rejected = {step.tool_call_id for step in steps if step.type == "permission" and step.status != "allowed"}
    ran = (step for step in steps if step.command and (step.status == "completed" or step.tool_call_id not in rejected))
    return [step for step in ran if re.search(spec.pattern or "", step.command)]


def _searched(step: TrajectoryStep) -> str:
    content = "" if step.input is UNSET else msgspec.json.encode(step.input).decode()
    return "\n".join([step.name, step.command, *step.paths, content])


def _described(spec: TrajectoryGrader) -> str:
    parts = [f"of kind {spec.kind!r}" if spec.kind else "", f"matches {spec.pattern!r}" if spec.pattern else ""]
    return " ".join(filter(None, parts)) or "at all"
