"""The trials of one agent of a run with their records, for formats that need more than a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from duologue.evals.exceptions import RecordError
from duologue.evals.record.key import TrialKey
from duologue.evals.record.manifest import AgentIdentity, TrialManifest
from duologue.evals.record.result import TrialResult
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.report.run_summary import AgentSummary, RunSummary, label_agents
from duologue.evals.report.trial_summary import TrialSummary
from duologue.evals.suite.case import Case
from duologue.recording.reader import RecordingReader


class RecordedTrial(Struct, frozen=True, kw_only=True):
    """A trial that has a record.

    Attributes:
        summary: The trial as a report sees it.
        case: Its case; only its id is known if the suite of the run cannot be read.
        manifest: What was run.
        result: How it ended.
        steps: Its steps; none if they cannot be read.
        patch: What changed in the workspace.
        started: When the recording began.
        damage: Why parts of the record are left out; empty if none are.
    """

    summary: TrialSummary
    case: Case
    manifest: TrialManifest
    result: TrialResult
    steps: Sequence[TrajectoryStep]
    patch: bytes
    started: datetime
    damage: str = ""

    def time(self, t: float) -> str:
        """Return the time of a step, in UTC (ISO 8601)."""
        try:
            return (self.started + timedelta(seconds=t)).isoformat(timespec="milliseconds")
        except (OverflowError, ValueError):
            return self.started.isoformat(timespec="milliseconds")


class AgentRecords:
    """One agent of a run, and the records of its trials.

    Attributes:
        run: The run.
        agent: The agent, with a label that is unique among all runs that are exported.
    """

    def __init__(self, run: RunSummary, agent: AgentSummary) -> None:
        self.run = run
        self.agent = agent
        self._directory = RunDirectory.open(Path(run.path))
        try:
            self._cases = {case.id: case for case in self._directory.suite().cases}
        except RecordError:
            self._cases = {}

    @property
    def cases(self) -> list[Case]:
        """The cases of the run, in the order of the suite."""
        return [self._case(name) for name in self.run.manifest.cases]

    def trials(self, number: int | None = None) -> Iterator[RecordedTrial]:
        """Yield the trials that have a record, or those with this number; one at a time is in memory.

        They are ordered by their number and the id of their case, which is the order of samples in Inspect.
        """
        for trial in sorted(self.agent.trials(), key=lambda trial: (trial.trial, trial.case)):
            if trial.outcome is not None and number in (None, trial.trial):
                yield self._read(trial)

    def _case(self, name: str) -> Case:
        return self._cases.get(name) or Case(id=name, prompts=[name])

    def _read(self, trial: TrialSummary) -> RecordedTrial:
        label = self.agent.identity.label
        key = TrialKey(self.run.manifest.suite_digest, trial.case, trial.trial, label)
        record = self._directory.record(key)
        assert record is not None, "a trial with an outcome has a record"
        damage: list[str] = []
        try:
            manifest = record.manifest()
        except RecordError as error:
            manifest = TrialManifest(key=key, agent=AgentIdentity(label=label))
            damage.append(str(error))
        steps, patch = list[TrajectoryStep](), b""
        try:
            patch = record.patch_bytes()
            steps.extend(record.trajectory())
        except RecordError as error:
            damage.append(str(error))
        result = record.result()
        return RecordedTrial(
            summary=trial,
            case=self._case(trial.case),
            manifest=manifest,
            result=result,
            steps=steps,
            patch=patch,
            started=self._started(record, manifest, result),
            damage="; ".join(damage),
        )

    def _started(self, record: TrialRecord, manifest: TrialManifest, result: TrialResult) -> datetime:
        try:
            with RecordingReader(record.wire_file) as recording:
                recorded = recording.header.started
        except (ValueError, OSError):
            recorded = ""
        for text in (recorded, manifest.started, result.ended, self.run.manifest.started):
            if (time := parse_time(text)) is not None:
                return time
        return datetime.fromtimestamp(0, UTC)


def agent_records(runs: Sequence[RunSummary]) -> list[AgentRecords]:
    """Return the agents of runs, each with a label of its own.

    Raises:
        RecordError: A run is not a directory with records.
    """
    return [AgentRecords(run, agent) for run, agent in label_agents(runs)]


def parse_time(text: str) -> datetime | None:
    """Return a time of a record; None if it is not one."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def iso_time(text: str) -> str | None:
    """Return a time of a record in UTC (ISO 8601); None if it is not one."""
    time = parse_time(text)
    return None if time is None else time.isoformat(timespec="milliseconds")
