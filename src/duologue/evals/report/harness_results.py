"""Read results that acp-harness and its successors wrote as JSON lines: of `capture`, and of `trials`.

Their trials become a run, so that they are reported and compared like any other. Their own pass@k is not read: it is
computed from the trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from duologue.evals.exceptions import RecordError
from duologue.evals.record.manifest import AgentIdentity, RunManifest
from duologue.evals.record.result import TrialMetrics
from duologue.evals.record.versioned_file import read_bounded
from duologue.evals.report.run_summary import AgentSummary, CaseSummary, RunSummary
from duologue.evals.report.trial_summary import TrialSummary


class HarnessStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a trajectory: a thought, a message, a tool call or a plan."""

    type: str
    content: str = ""
    name: str = ""
    status: str = ""
    input: Any = None
    output: Any = None
    duration: float | None = None
    timestamp: float = 0
    entries: list[Any] = []


class HarnessScore(Struct, frozen=True, kw_only=True):
    """The output of a grader: `{"pass": true, "score": 1}`."""

    passed: bool | None = field(name="pass", default=None)
    score: float | None = None
    reasoning: str = ""


class HarnessTrial(Struct, frozen=True, kw_only=True):
    """One trial on a line of `trials`."""

    trial: int = field(name="trialNum")
    output: str = ""
    trajectory: list[HarnessStep] = []
    duration: float | None = None
    passed: bool | None = field(name="pass", default=None)
    score: float | None = None
    reasoning: str = ""
    error: str = ""


class HarnessLine(Struct, frozen=True, kw_only=True):
    """A line of `capture` or of `trials`; the one has an output, the other trials."""

    id: str
    input: str | list[str] = ""
    hint: str = ""
    output: str | None = None
    trajectory: list[HarnessStep] = []
    metadata: dict[str, Any] = {}
    timing: dict[str, Any] = {}
    errors: list[str] = []
    score: HarnessScore | None = None
    trials: list[HarnessTrial] | None = None


def read_harness_lines(path: Path) -> list[HarnessLine]:
    """Return the lines of a file of results.

    Raises:
        RecordError: It cannot be read, or a line is not a result.
    """
    decode = msgspec.json.Decoder(HarnessLine).decode
    lines: list[HarnessLine] = []
    for number, line in enumerate(read_bounded(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            lines.append(decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RecordError(
                f"{path}, line {number} is no result of `capture` or `trials`, which has `id` and `output` or "
                f"`trials`: {error}"
            ) from None
    if not lines:
        raise RecordError(f"{path} has no results")
    return lines


def read_harness_run(path: str | Path) -> RunSummary:
    """Read a file of results as a run of one agent, which has the name of the file.

    A trial without a grade is missing; so is one that ended with an error and has none.

    Args:
        path: The file: JSON lines of `capture` or `trials`.

    Raises:
        RecordError: It cannot be read, a line is not a result, or an id is there twice.
    """
    path = Path(path)
    lines = read_harness_lines(path)
    names = [line.id for line in lines]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RecordError(f"{path} has the id {twice!r} twice: the trials of a prompt belong on one line")
    label = path.name.removesuffix(".jsonl")
    cases = tuple(_case(label, line) for line in lines)
    manifest = RunManifest(
        id=label,
        started="",
        suite=label,
        suite_digest="",
        cases=names,
        agents=[AgentIdentity(label=label)],
        trials=max(1, *(len(case.trials) for case in cases)),
    )
    agent = AgentSummary(label=label, identity=manifest.agents[0], cases=cases)
    return RunSummary(name=label, path=str(path), manifest=manifest, agents=(agent,))


def _case(label: str, line: HarnessLine) -> CaseSummary:
    category = line.metadata.get("category")
    trials = line.trials if line.trials is not None else [_captured(line)]
    return CaseSummary(
        case=line.id,
        trials=tuple(_trial(label, line.id, trial) for trial in trials),
        tags=[category] if isinstance(category, str) else [],
    )


def _captured(line: HarnessLine) -> HarnessTrial:
    score = line.score or HarnessScore()
    total = line.timing.get("total")
    return HarnessTrial(
        trial=1,
        output=line.output or "",
        duration=float(total) if isinstance(total, int | float) else None,
        passed=score.passed,
        score=score.score,
        reasoning=score.reasoning,
        error="; ".join(line.errors),
    )


def _trial(label: str, case: str, trial: HarnessTrial) -> TrialSummary:
    is_graded = trial.passed is not None
    score = float(bool(trial.passed)) if trial.score is None else min(1.0, max(0.0, trial.score))
    return TrialSummary(
        case=case,
        agent=label,
        trial=trial.trial,
        passed=trial.passed,
        score=score if is_graded else None,
        missing=None if is_graded else "harness_failed" if trial.error else "not_graded",
        detail=trial.error or trial.reasoning,
        attempts=1,
        metrics=TrialMetrics(seconds=None if trial.duration is None else trial.duration / 1000),
    )


def tool_names(steps: Sequence[HarnessStep]) -> list[str]:
    """Return the names of the tool calls of a trajectory."""
    return [step.name for step in steps if step.type == "tool_call"]
