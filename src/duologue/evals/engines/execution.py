"""Carry out a task in this process: an attempt at a trial, or a look at an agent."""

from __future__ import annotations

import tempfile
from pathlib import Path

from msgspec import structs

from duologue.client.target import AgentTarget
from duologue.errors import DuologueError
from duologue.evals.engines.task import AttemptReport, ProbeReport, ProbeTask, Report, Task, TrialTask
from duologue.evals.exceptions import EvalError
from duologue.evals.record.attempt import Attempt
from duologue.evals.record.manifest import AgentIdentity
from duologue.evals.run import bubblewrap
from duologue.evals.run.credentials import Credentials
from duologue.evals.run.identity import identity_of
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.scratch import Scratch, finish
from duologue.evals.run.targets import TrialTarget, find_named
from duologue.evals.run.trial import TrialPlan, TrialRun, grade_attempt
from duologue.named_agents import connect

PROBE_SECONDS = 60.0
"""Time for an agent to start before the first trial; packages may have to be downloaded."""


class TaskExecution:
    """Carries out tasks; credentials are read once."""

    def __init__(self) -> None:
        self._credentials: dict[object, Credentials] = {}

    async def run(self, task: Task) -> Report:
        """Carry out a task.

        Raises:
            EvalError: Its options cannot be fulfilled here: a variable is not set, or agents cannot be confined.
        """
        return await (self._attempt(task) if isinstance(task, TrialTask) else self._probe(task))

    # --- a trial

    async def _attempt(self, task: TrialTask) -> AttemptReport:
        known = await finish(stored_report, task)
        if known is not None:
            return known
        plan = TrialPlan(
            case=task.case,
            agent=task.agent,
            options=task.options,
            credentials=self._credentials_of(task.options),
            seed=task.seed,
            is_confined=sandbox_of(task) == "bwrap",
            watch=task.watch,
        )
        with task.run.begin(task.key) as attempt:
            return await self._run(task, plan, attempt)

    async def _run(self, task: TrialTask, plan: TrialPlan, attempt: Attempt) -> AttemptReport:
        trial = TrialRun(attempt, plan, task.number)
        result = await trial.run()
        report = AttemptReport(key=task.key, result=result, user_usage=trial.user_usage)
        if result.outcome.rule.retry == "trial" and not task.is_last:
            await finish(attempt.set_aside, result)
            return structs.replace(report, is_final=False)
        grades = await grade_attempt(attempt, result, task.case)
        if await finish(attempt.commit, result, grades):
            return structs.replace(report, grades=grades)
        # Another process was faster: its result is the result of the trial.
        known = await finish(stored_report, task)
        assert known is not None, "there is a record"
        return known

    def _credentials_of(self, options: TrialOptions) -> Credentials:
        key = options.env, options.credentials
        if key not in self._credentials:
            self._credentials[key] = Credentials(options.env, options.credentials)
        return self._credentials[key]

    # --- an agent

    async def _probe(self, task: ProbeTask) -> ProbeReport:
        sandbox = sandbox_of(task)
        credentials = self._credentials_of(task.options)
        credentials.extended(task.env)
        look = self._started if task.is_started else self._found
        try:
            # A name is looked up where the agent is started: another machine has another configuration.
            task = structs.replace(task, agent=await find_named(task.agent))
            credentials = credentials.extended(configured=task.agent.env)
            identity = await look(task, credentials, sandbox == "bwrap")
        except (DuologueError, OSError) as error:
            why = credentials.removed_from(f"the agent {task.agent.label!r} cannot be started: {error}")
            return ProbeReport(label=task.agent.label, sandbox=sandbox, error=why)
        return ProbeReport(label=task.agent.label, sandbox=sandbox, identity=identity)

    async def _found(self, task: ProbeTask, credentials: Credentials, is_confined: bool) -> AgentIdentity:
        """Return how an agent is reached, without starting it."""
        env = credentials.environment() if task.agent.is_local else None
        target = AgentTarget(task.agent.target, env=env)
        await target.prepare()
        return identity_of(task.agent, target)

    async def _started(self, task: ProbeTask, credentials: Credentials, is_confined: bool) -> AgentIdentity:
        """Start an agent in an empty directory; return what it says of itself."""
        agent, options = task.agent, task.options
        target: TrialTarget | None = None
        with tempfile.TemporaryDirectory(prefix="duologue-probe-", ignore_cleanup_errors=True) as folder:
            scratch = await finish(Scratch.create, Path(folder))
            try:
                await finish(credentials.copy_to, scratch.home)
                env = {**scratch.environment(), **credentials.environment()}
                target = TrialTarget(
                    agent.target,
                    report=scratch.report,
                    cwd=scratch.workspace,
                    env=env if agent.is_local else None,
                    confine=lambda command: bubblewrap.prefix_of(scratch, command) if is_confined else [],
                )
                async with connect(
                    target, startup_timeout=PROBE_SECONDS, protocol_versions=options.protocol_versions, unstable=True
                ) as connected:
                    return identity_of(agent, target, connected)
            except (DuologueError, OSError) as error:
                if is_confined and target is not None and target.transport is not None:
                    raise EvalError(f"{error}{bubblewrap.hint()}") from error
                raise
            finally:
                await finish(scratch.remove)


def stored_report(task: TrialTask) -> AttemptReport | None:
    """Return the report of a trial that has a record; None if it has none.

    Raises:
        RecordError: The record is damaged, or that of another trial.
    """
    record = task.run.record(task.key)
    return None if record is None else AttemptReport(key=task.key, result=record.result(), grades=record.grades())


def sandbox_of(task: Task) -> str:
    """Return `bwrap`, or why nothing is confined here.

    An agent of another machine is not, but simulated users and the commands that it runs in our terminals are.

    Raises:
        EvalError: They shall be confined, and cannot be.
    """
    if task.options.sandbox == "none":
        return "not wanted"
    obstacle = bubblewrap.obstacle()
    if obstacle and task.options.sandbox == "bwrap":
        raise EvalError(f"the agents cannot be confined: {obstacle}")
    return obstacle or "bwrap"
