"""One attempt at a trial: make its directories, run the agent, and record everything; nothing is left afterwards."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime

from msgspec import Struct, structs

from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.errors import DuologueError
from duologue.evals.exceptions import EvalError
from duologue.evals.graders.grading import grade_record
from duologue.evals.record.attempt import LINK, Attempt
from duologue.evals.record.manifest import AgentIdentity, SettingsReadBack, TrialManifest
from duologue.evals.record.outcomes import TrialOutcome, outcome_of_error
from duologue.evals.record.result import Grades, TrialMetrics, TrialResult
from duologue.evals.record.trajectory_reader import read_trajectory
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.run import bubblewrap
from duologue.evals.run.checkout import Checkout, SandboxError
from duologue.evals.run.conversation import Conversation
from duologue.evals.run.credentials import Credentials
from duologue.evals.run.identity import identity_of, reported_settings, requested_settings, this_machine
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.replies import elicitation_handler, permissions_of
from duologue.evals.run.scratch import Scratch, finish
from duologue.evals.run.simulated_user import UserAgent, connected_user
from duologue.evals.run.targets import EvalAgent, TrialTarget, find_named, parse_agent
from duologue.evals.run.watched_trial import TrialWatch, WatchedTrial
from duologue.evals.suite.case import Case
from duologue.evals.suite.grader_specs import JudgeGrader, TextGrader, TrajectoryGrader
from duologue.named_agents import connect
from duologue.recording.recorder import Recorder
from duologue.transports.process.command import reaped
from duologue.usage.amounts import SessionUsage

REPORTS_FAILURES = {"jetbrains": {"air": {"version": 1, "capabilities": ["sessionFailure"]}}}
"""Capability with which adapters report a failed model that they otherwise show as `end_turn`."""

USER_FILE = "user.acp"
"""Recording of the conversation with the simulated user."""


class TrialPlan(Struct, frozen=True, kw_only=True):
    """The case, the agent and the options of an attempt.

    Attributes:
        case: The case.
        agent: The agent.
        options: Options of the run.
        credentials: What the agent is given.
        seed: Seed of the run.
        is_confined: The agent runs in bubblewrap.
        watch: Where watchers find the trial; None if there are none.
    """

    case: Case
    agent: EvalAgent
    options: TrialOptions
    credentials: Credentials
    seed: int = 0
    is_confined: bool = False
    watch: TrialWatch | None = None


class TrialRun:
    """Runs one attempt.

    Attributes:
        usage: What the agent has used so far.
        user_usage: What the simulated user has used so far.
    """

    def __init__(self, attempt: Attempt, plan: TrialPlan, number: int) -> None:
        self.usage = SessionUsage()
        self.user_usage = SessionUsage()
        self._attempt = attempt
        self._plan = plan
        self._case = plan.case
        self._number = number
        self._started = _now()
        self._agent = AgentIdentity(label=plan.agent.label)
        self._settings = SettingsReadBack()
        self._conversation: Conversation | None = None
        self._credentials = plan.credentials
        self._watched: WatchedTrial | None = None

    async def run(self) -> TrialResult:
        """Run the agent and write all files of the attempt but the result; return the result.

        Failures of any kind become the outcome of the result. Only a cancelled run raises.
        """
        scratch: Scratch | None = None
        result = TrialResult(key=self._attempt.key, outcome=TrialOutcome(kind="unclassified"), attempts=self._number)
        try:
            self._plan = structs.replace(self._plan, agent=await find_named(self._plan.agent))
            self._credentials = self._plan.credentials.extended(self._case.env, self._plan.agent.env)
            scratch = await finish(Scratch.create, self._attempt.directory)
            result = structs.replace(result, outcome=await self._run_in(scratch))
            return await finish(self._complete, result, scratch)
        except (SandboxError, OSError) as error:
            return self._failed(result, TrialOutcome(kind="sandbox_failed", reason=_name(error), detail=str(error)))
        except DuologueError as error:
            return self._failed(result, outcome_of_error(error))
        except Exception as error:  # whatever a suite or an agent provoked: it costs this trial, not the run
            return self._failed(result, TrialOutcome(kind="harness_failed", reason=_name(error), detail=str(error)))
        finally:
            if scratch is not None:
                await finish(self._clean, scratch)

    def _failed(self, result: TrialResult, outcome: TrialOutcome) -> TrialResult:
        """Return the result of an attempt that broke; its detail has no secrets, and can be written as UTF-8."""
        detail = outcome.detail.encode("utf-8", "backslashreplace").decode()
        outcome = structs.replace(outcome, detail=self._credentials.removed_from(detail))
        return structs.replace(result, outcome=outcome, ended=_now())

    async def _run_in(self, scratch: Scratch) -> TrialOutcome:
        self._checkout = Checkout(self._case, scratch)
        await finish(self._checkout.make)
        self._credentials.copy_to(scratch.home)
        scratch.note_files()
        patterns, env = self._credentials.patterns, self._credentials.environment()
        ending = "interrupted"
        self._offer(scratch)
        try:
            with Recorder(self._attempt.wire_file, patterns=patterns, env=env) as recorder:
                try:
                    outcome = await self._converse(scratch, recorder)
                finally:
                    await finish(recorder.close)
            ending = ", ".join(filter(None, (outcome.kind, outcome.reason)))
        finally:
            if self._watched is not None and self._plan.watch is not None:
                self._plan.watch.remove(self._watched, ending)
        return outcome

    def _offer(self, scratch: Scratch) -> None:
        """Let watchers find this trial."""
        if self._plan.watch is not None:
            self._watched = WatchedTrial(self._attempt.key, self._number, self._credentials.remove_from_bytes)
            self._watched.cwd = str(scratch.workspace)
            self._plan.watch.add(self._watched)

    # --- the conversation

    async def _converse(self, scratch: Scratch, recorder: Recorder) -> TrialOutcome:
        target = self._target(scratch, recorder)
        try:
            async with AsyncExitStack() as stack:
                try:
                    conversation = await self._open(scratch, recorder, target, stack)
                except TimeoutError:
                    return TrialOutcome(
                        kind="agent_crashed",
                        reason="start",
                        detail=f"no session was open after {self._case.timeouts.start:g} s",
                    )
                return await conversation.run()
        except EvalError as error:
            return TrialOutcome(kind="harness_failed", reason=type(error).__name__, detail=str(error))
        except DuologueError as error:
            return outcome_of_error(error)
        finally:
            if target.transport is not None and (code := target.transport.returncode) is not None:
                recorder.add_exit(code)

    async def _open(
        self, scratch: Scratch, recorder: Recorder, target: TrialTarget, stack: AsyncExitStack
    ) -> Conversation:
        """Start the agent, open its session, and write the manifest."""
        case, options = self._case, self._plan.options
        async with asyncio.timeout(case.timeouts.start):
            agent = await stack.enter_async_context(
                connect(
                    target,
                    permissions=permissions_of(case),
                    workspace=Workspace(scratch.workspace),
                    terminals=Terminals(
                        env={**case.variables, **scratch.environment()}, prefix=self._terminal_prefix(scratch)
                    ),
                    on_elicit=elicitation_handler(case),
                    observers=(recorder,) if self._watched is None else (recorder, self._watched),
                    startup_timeout=case.timeouts.start,
                    login=options.login,
                    protocol_versions=options.protocol_versions,
                    unstable=True,
                    meta=REPORTS_FAILURES,
                )
            )
            self._agent = identity_of(self._plan.agent, target, agent)
            if self._watched is not None:
                self._watched.version = self._agent.protocol_version or 1
            requested = requested_settings(case.session)
            session = await agent.new_session(scratch.workspace, settings=requested)
        stack.push_async_callback(session.aclose)
        stack.callback(lambda: setattr(self, "usage", session.usage))
        self._settings = SettingsReadBack(requested=requested, reported=reported_settings(session))
        self._attempt.write_manifest(self._manifest())
        user = await self._user(scratch, stack)
        self._conversation = Conversation(session, case, user)
        if self._watched is not None:
            self._watched.conversation = self._conversation
        return self._conversation

    async def _user(self, scratch: Scratch, stack: AsyncExitStack) -> UserAgent | None:
        simulated = self._case.simulated_user
        if simulated is None:
            return None
        file = self._attempt.directory / USER_FILE
        agent = await find_named(parse_agent(simulated.agent))
        self._credentials = self._credentials.extended(configured=agent.env)
        recorder = stack.enter_context(
            Recorder(file, patterns=self._credentials.patterns, env=self._credentials.environment())
        )
        # The agent must not see what the user knows, nor change it.
        own = await finish(scratch.create_below, "user")
        await finish(self._credentials.copy_to, own.home)
        target = TrialTarget(
            agent.target,
            report=own.report,
            cwd=own.workspace,
            env={**own.environment(), **self._credentials.environment()} if agent.is_local else None,
            on_stderr=recorder.add_stderr,
            confine=lambda command: self._prefix(own, command),
        )
        timeouts = self._case.timeouts
        user = await stack.enter_async_context(
            connected_user(
                target, simulated, recorder, cwd=str(own.workspace), start=timeouts.start, turn=timeouts.turn
            )
        )
        stack.callback(lambda: setattr(self, "user_usage", user.usage))
        return user

    def _target(self, scratch: Scratch, recorder: Recorder) -> TrialTarget:
        env = {
            **self._case.variables,
            **scratch.environment(),
            **self._credentials.environment(),
            "DUOLOGUE_TRIAL_SEED": str(self._seed),
        }
        return TrialTarget(
            self._plan.agent.target,
            report=scratch.report,
            cwd=scratch.workspace,
            env=env if self._plan.agent.is_local else None,
            on_stderr=recorder.add_stderr,
            confine=lambda command: self._prefix(scratch, command),
        )

    def _prefix(self, scratch: Scratch, command: Sequence[str]) -> list[str]:
        return bubblewrap.prefix_of(scratch, command) if self._plan.is_confined else []

    def _terminal_prefix(self, scratch: Scratch) -> list[str]:
        # What a command leaves ends with it, confined or not.
        return [*reaped(scratch.report), *self._prefix(scratch, [])]

    @property
    def _seed(self) -> int:
        key = self._attempt.key
        text = f"{self._plan.seed} {key.case} {key.trial}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    # --- the record

    def _manifest(self) -> TrialManifest:
        is_confined = self._plan.is_confined and self._plan.agent.is_local
        return TrialManifest(
            key=self._attempt.key,
            attempt=self._number,
            started=self._started,
            agent=self._agent,
            settings=self._settings,
            workspace=structs.replace(
                self._checkout.base, sandbox="bwrap" if is_confined else "none", is_watched=is_confined
            ),
            env=self._credentials.all_names,
            credentials=[file.target for file in self._credentials.files],
            seed=self._seed,
            machine=this_machine(),
        )

    def _complete(self, result: TrialResult, scratch: Scratch) -> TrialResult:
        """Write what is known after the agent has ended; return the complete result."""
        attempt, credentials = self._attempt, self._credentials
        if not attempt.manifest_file.exists():
            attempt.write_manifest(self._manifest())
        trajectory = read_trajectory(attempt.wire_file)
        attempt.write_trajectory(credentials.removed_from_step(step) for step in trajectory.steps)
        attempt.write_patch(credentials.remove_from_bytes(self._checkout.patch()))
        if needs_workspace(self._case) and result.outcome.rule.grade:
            self._checkout.save(attempt.workspace_directory)
            credentials.remove_from_files(attempt.workspace_directory)
        conversation = self._conversation
        metrics: TrialMetrics = structs.replace(trajectory.metrics, usage=self.usage)
        return structs.replace(
            result,
            outcome=structs.replace(result.outcome, detail=credentials.removed_from(result.outcome.detail)),
            ended=_now(),
            stop_reasons=[] if conversation is None else conversation.stop_reasons,
            output="" if conversation is None else credentials.removed_from(conversation.output),
            metrics=metrics,
            writes=[credentials.removed_from(name) for name in scratch.writes()],
            left_processes=[credentials.removed_from(line) for line in scratch.left_processes()],
        )

    def _clean(self, scratch: Scratch) -> None:
        scratch.remove()
        with suppress(SandboxError):  # the agent may have removed the source
            self._checkout.forget_worktree()
        (self._attempt.directory / LINK).unlink(missing_ok=True)


async def grade_attempt(attempt: Attempt, result: TrialResult, case: Case) -> Grades | None:
    """Return the grades of an attempt that is not committed yet; None if its outcome is not graded.

    A grader that could not decide is tried once more.
    """
    if not result.outcome.rule.grade or not case.graders:
        return None
    # Graders read a record, which this becomes.
    from duologue.evals.record.versioned_file import write_versioned

    write_versioned(attempt.result_file, result)
    record = TrialRecord(attempt.directory)
    # What a killed grader leaves is removed with its attempt.
    grades = await grade_record(record, case, scratch=attempt.directory)
    return await grade_record(record, case, scratch=attempt.directory) if grades.errors else grades


def needs_workspace(case: Case) -> bool:
    """Return True if a grader of the case looks at the workspace."""
    return any(not isinstance(grader, TextGrader | TrajectoryGrader | JudgeGrader) for grader in case.graders)


def _name(error: Exception) -> str:
    return type(error).__name__


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
