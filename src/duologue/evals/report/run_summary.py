"""The facts of a finished or interrupted run: each trial of each case by each agent, without statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from duologue.evals.exceptions import RecordError
from duologue.evals.record.manifest import AgentIdentity, RunManifest
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.report.trial_summary import TrialSummary, read_trial
from duologue.evals.statistics.case_trials import CaseTrials
from duologue.evals.suite.case import Case


class CaseSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The trials of one case by one agent.

    Attributes:
        case: Id of the case.
        trials: Its trials, those that are missing included.
        tags: Tags of the case.
        family: Family of the case.
        quarantine: Why the case informs and does not count in estimates; empty if it counts.
    """

    case: str
    trials: tuple[TrialSummary, ...]
    tags: list[str] = []
    family: str = ""
    quarantine: str = ""

    @property
    def counted(self) -> list[TrialSummary]:
        """The trials that count."""
        return [trial for trial in self.trials if trial.missing is None]

    @property
    def passed(self) -> int:
        """How many trials passed."""
        return sum(trial.passed is True for trial in self.trials)

    @property
    def score(self) -> float | None:
        """Mean score of the trials that count; None if there are none."""
        scores = [trial.score or 0.0 for trial in self.counted]
        return sum(scores) / len(scores) if scores else None

    @property
    def missing(self) -> dict[str, int]:
        """How many trials are missing, by reason."""
        return missing_of(self.trials)

    def to_statistics(self) -> CaseTrials:
        """Return the trials as statistics use them."""
        return CaseTrials(
            case=self.case,
            passed=[trial.passed is True for trial in self.counted],
            scores=[trial.score or 0.0 for trial in self.counted],
            missing=len(self.trials) - len(self.counted),
            family=self.family,
        )


class AgentSummary(Struct, frozen=True, kw_only=True):
    """One agent of a run with all its trials.

    Attributes:
        label: Its label, unique in a report.
        identity: The agent as it was started and reported itself.
        cases: Its cases, in the order of the suite.
    """

    label: str
    identity: AgentIdentity
    cases: tuple[CaseSummary, ...]

    def trials(self) -> Iterator[TrialSummary]:
        """Yield all trials."""
        for case in self.cases:
            yield from case.trials

    def to_statistics(self) -> list[CaseTrials]:
        """Return the trials of all cases that are not in quarantine, as statistics use them."""
        return [case.to_statistics() for case in self.cases if not case.quarantine]


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run: each trial of each case by each agent.

    Attributes:
        name: Name of its directory or file.
        path: Its directory, or the file that it was read from.
        manifest: What it consists of.
        agents: The agents, in the order in which they were given.
        interrupted: Number of attempts that were interrupted.
        notes: Warnings for readers.
    """

    name: str
    path: str
    manifest: RunManifest
    agents: tuple[AgentSummary, ...]
    interrupted: int = 0
    notes: tuple[str, ...] = ()

    def trials(self) -> Iterator[TrialSummary]:
        """Yield all trials, agent by agent."""
        for agent in self.agents:
            yield from agent.trials()


def read_run(path: str | Path) -> RunSummary:
    """Read a run directory: all its trials, those without a record included.

    A record that is damaged makes its trial missing; it does not end the report.

    Args:
        path: The directory.

    Raises:
        RecordError: It is not the directory of a run, or is of a newer version.
    """
    run = RunDirectory.open(Path(path))
    notes: list[str] = []
    try:
        cases = {case.id: case for case in run.suite().cases}
    except RecordError as error:
        cases = dict[str, Case]()
        notes.append(f"tags, families and quarantine are not known: {error}")
    trials: dict[tuple[str, str], list[TrialSummary]] = {}
    for key in run.manifest.trial_keys():
        trials.setdefault((key.agent, key.case), []).append(read_trial(run, key))
    agents = tuple(
        AgentSummary(
            label=agent.label,
            identity=agent,
            cases=tuple(_case(name, cases.get(name), trials[agent.label, name]) for name in run.manifest.cases),
        )
        for agent in run.manifest.agents
    )
    return RunSummary(
        name=run.path.resolve().name,
        path=str(run.path),
        manifest=run.manifest,
        agents=agents,
        interrupted=_interrupted(run),
        notes=tuple(notes),
    )


def label_agents(runs: Sequence[RunSummary]) -> list[tuple[RunSummary, AgentSummary]]:
    """Return the agents of runs with labels that are unique: the label, with the name of the run, or with a number."""
    counts = Counter(agent.label for run in runs for agent in run.agents)
    found: dict[str, tuple[RunSummary, AgentSummary]] = {}
    for run in runs:
        for agent in run.agents:
            label = base = agent.label if counts[agent.label] == 1 else f"{run.name}/{agent.label}"
            number = 1
            while label in found:
                number += 1
                label = f"{base} ({number})"
            found[label] = run, structs.replace(agent, label=label)
    return list(found.values())


def missing_of(trials: Iterable[TrialSummary]) -> dict[str, int]:
    """Return how many trials are missing, by reason; the most frequent first."""
    return dict(Counter(str(trial.missing) for trial in trials if trial.missing is not None).most_common())


def _case(name: str, case: Case | None, trials: list[TrialSummary]) -> CaseSummary:
    if case is None:
        return CaseSummary(case=name, trials=tuple(trials))
    if not any(grader.required for grader in case.graders):
        # Nothing is left to grade: such a trial has no result, however often it is graded.
        trials = [
            structs.replace(trial, missing="no_graders") if trial.missing == "not_graded" else trial for trial in trials
        ]
    return CaseSummary(case=name, trials=tuple(trials), tags=case.tags, family=case.family, quarantine=case.quarantine)


def _interrupted(run: RunDirectory) -> int:
    try:
        return len(run.interrupted())
    except OSError:  # a copy of a run need not have the directory of attempts
        return 0
