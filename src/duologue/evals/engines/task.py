"""The tasks that an engine is given, and the reports that it returns."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from duologue.evals.record.key import TrialKey
from duologue.evals.record.manifest import AgentIdentity
from duologue.evals.record.outcomes import TrialOutcome
from duologue.evals.record.result import Grades, TrialResult
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.targets import EvalAgent
from duologue.evals.run.watched_trial import TrialWatch
from duologue.evals.suite.case import Case
from duologue.evals.suite.grader_specs import JudgeGrader
from duologue.usage.amounts import SessionUsage

REPORT_FORMAT = 1
"""Version of the reports of workers."""


class TrialTask(Struct, frozen=True, kw_only=True):
    """One attempt at a trial.

    Attributes:
        key: The trial.
        run: The directory that gets its record.
        case: The case.
        agent: The agent.
        options: Options of the run.
        seed: Seed of the run.
        watch: Where watchers find it, in this process; None if there are none.
        number: Number of the attempt, from 1.
        is_last: A failure of something else than the agent is recorded; otherwise it is set aside for another attempt.
    """

    key: TrialKey
    run: RunDirectory
    case: Case
    agent: EvalAgent
    options: TrialOptions
    seed: int = 0
    watch: TrialWatch | None = None
    number: int = 1
    is_last: bool = True

    @property
    def name(self) -> str:
        """Its name for people."""
        return f"{self.key.agent} {self.key.case} {self.key.trial}"

    @property
    def seconds(self) -> float:
        """Time after which a worker ends it: the limits of its case, and those for everything around it."""
        timeouts = self.case.timeouts
        user = self.case.simulated_user
        seconds = timeouts.start + timeouts.trial + (0 if user is None else user.max_prompts * timeouts.turn)
        for grader in self.case.graders:
            votes = grader.votes if isinstance(grader, JudgeGrader) else 1
            # A grader that could not decide is tried once more.
            seconds += 2 * votes * (getattr(grader, "timeout", None) or timeouts.grade)
        return seconds + self.options.overhead


class ProbeTask(Struct, frozen=True, kw_only=True):
    """A look at an agent, without a prompt.

    Attributes:
        agent: The agent.
        options: Options of the run.
        env: Names of variables that cases give it, in addition to those of the options.
        is_started: It is started; otherwise only found.
    """

    agent: EvalAgent
    options: TrialOptions
    env: tuple[str, ...] = ()
    is_started: bool = True

    @property
    def name(self) -> str:
        """Its name for people."""
        return f"{self.agent.label} (probe)"


Task: TypeAlias = TrialTask | ProbeTask


class AttemptReport(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="attempt"):
    """The end of one attempt at a trial.

    Attributes:
        format: Version of the format.
        key: The trial.
        result: How it ended.
        grades: The output of its graders.
        user_usage: What the simulated user has used.
        is_final: This is the result of the trial; otherwise another attempt shall follow.
        is_stored: The run directory has it already.
        files: The files of the attempt as an archive, if it is not stored; empty if there are none.
        worker: Where it ran; empty for this process.
    """

    format: int = REPORT_FORMAT
    key: TrialKey
    result: TrialResult
    grades: Grades | None = None
    user_usage: SessionUsage = SessionUsage()
    is_final: bool = True
    is_stored: bool = True
    files: bytes = b""
    worker: str = ""


class ProbeReport(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="probe"):
    """The result of a look at an agent.

    Attributes:
        format: Version of the format.
        label: Label of the agent.
        identity: How it is reached, and what it says of itself; None if it cannot be started.
        sandbox: `bwrap`, or why agents are not confined there.
        error: Why it cannot be started.
        worker: Where it was looked at; empty for this process.
    """

    format: int = REPORT_FORMAT
    label: str
    identity: AgentIdentity | None = None
    sandbox: str = ""
    error: str = ""
    worker: str = ""


Report: TypeAlias = AttemptReport | ProbeReport


def failure(task: Task, reason: str, detail: str, *, worker: str = "") -> Report:
    """Return the report of a task that was not carried out: for a trial, one of the outcome `harness_failed`."""
    if isinstance(task, ProbeTask):
        return ProbeReport(label=task.agent.label, error=detail, worker=worker)
    outcome = TrialOutcome(kind="harness_failed", reason=reason, detail=detail)
    result = TrialResult(key=task.key, outcome=outcome, attempts=task.number)
    return AttemptReport(key=task.key, result=result, is_final=task.is_last, is_stored=False, worker=worker)
