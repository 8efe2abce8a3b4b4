"""Run a suite: check everything first, then run the trials that have no record."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, structs, to_builtins

from duologue.client.connect import connect
from duologue.client.target import AgentTarget, Target
from duologue.conversation.session_setup import Implementation
from duologue.errors import DuologueError
from duologue.evals.exceptions import EvalError, RecordError
from duologue.evals.record.manifest import AgentIdentity, RunManifest
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run import bubblewrap
from duologue.evals.run.credentials import Credentials, clean_command
from duologue.evals.run.identity import identity_of, this_machine
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.progress import Observer, RunProgress
from duologue.evals.run.scheduler import Scheduler
from duologue.evals.run.scratch import Scratch, finish
from duologue.evals.run.targets import EvalAgent, TrialTarget, eval_agents
from duologue.evals.run.watched_trial import TrialWatch
from duologue.evals.suite.case import Case
from duologue.evals.suite.loader import load_suite
from duologue.evals.suite.suite import Suite
from duologue.usage.habits import habit_of

PROBE_SECONDS = 60.0
"""Time for an agent to start before the first trial; packages may have to be downloaded."""


class RunEnd(Struct, frozen=True, kw_only=True):
    """How a run ended; `read_run` reads what it shows.

    Attributes:
        directory: The run directory.
        progress: Numbers of trials, the cost, and the limit that stopped it (`stop`), if one did.
        given_up: Why no further trial of an agent was started, by its label.
        sandbox: `bwrap`, or why agents, simulated users and commands of terminals were not confined.
    """

    directory: Path
    progress: RunProgress
    given_up: Mapping[str, str] = {}
    sandbox: str = ""

    @property
    def is_complete(self) -> bool:
        """Each trial has a record, and none is missing."""
        return self.progress.done == self.progress.total and not self.progress.missing


async def run_suite(
    suite: Suite | str | Path,
    agents: Iterable[str | EvalAgent] | Mapping[str, Target],
    directory: str | Path,
    *,
    trials: int | None = None,
    cases: Iterable[str] = (),
    seed: int = 0,
    retry_missing: bool = False,
    options: TrialOptions | None = None,
    observer: Observer = lambda event, progress: None,
    watch: TrialWatch | None = None,
) -> RunEnd:
    """Run the trials of a suite that have no record in a directory; made anew, or continued.

    Args:
        suite: The suite, or its path.
        agents: Agents: names, commands, URLs, `replay:FILE`, each perhaps as `LABEL=…`; or targets of `connect`, such
            as `Agent` objects, by their labels.
        directory: The run directory.
        trials: How often each agent runs each case. Default: what the suite says.
        cases: Ids or tags of the cases to run. Default: all.
        seed: Seed of everything random.
        retry_missing: Run trials of an earlier process again that broke and are missing; each gets one more attempt.
        options: How trials are run.
        observer: Called with each event and the progress.
        watch: Where the trials that run are found by watchers.

    Raises:
        SuiteError: The suite has mistakes.
        RecordError: The directory is not the directory of a run, or that of another suite.
        EvalError: An agent cannot be started, or a limit cannot be kept. No trial has been started.
    """
    suite = suite if isinstance(suite, Suite) else await finish(load_suite, Path(suite))
    options = options or TrialOptions()
    named = eval_agents(agents)
    path = Path(directory)
    sandbox = _sandbox(options)
    credentials = Credentials(options.env, options.credentials)
    if (path / "run.json").exists():
        run = await finish(RunDirectory.open, path, suite_digest=suite.digest)
        await _check_agents(run, named, credentials)
        if retry_missing:
            await finish(run.set_aside_missing)
    else:
        chosen = _chosen(suite, cases)
        _check_variables(chosen, credentials)
        identities = [await _probe(agent, credentials, options, is_confined=sandbox == "bwrap") for agent in named]
        manifest = structs.replace(
            _manifest(suite, identities),
            cases=[case.id for case in chosen],
            trials=trials or suite.trials,
            seed=seed,
            options=_shown_options(options, named, sandbox),
        )
        _check_budget(identities, options, None)
        run = await finish(RunDirectory.create, path, manifest, suite)
    await finish(_check_budget, run.manifest.agents, options, run)
    by_id = {case.id: case for case in suite.cases}
    _check_variables([by_id[case] for case in run.manifest.cases], credentials)
    labelled, is_confined = {agent.label: agent for agent in named}, sandbox == "bwrap"
    scheduler = Scheduler(
        run, by_id, labelled, options, credentials, is_confined=is_confined, observer=observer, watch=watch
    )
    await scheduler.run()
    return RunEnd(directory=run.path, progress=scheduler.progress, given_up=scheduler.given_up, sandbox=sandbox)


def _manifest(suite: Suite, agents: list[AgentIdentity]) -> RunManifest:
    now = datetime.now(UTC)
    return RunManifest(
        id=f"{now:%Y%m%d-%H%M%S}-{os.urandom(3).hex()}",
        started=now.isoformat(timespec="milliseconds"),
        suite=suite.name,
        suite_digest=suite.digest,
        cases=[],
        agents=agents,
        trials=1,
        machine=this_machine(),
    )


def _shown_options(options: TrialOptions, agents: list[EvalAgent], sandbox: str) -> dict[str, Any]:
    """Return the options that a run records; the agents as they were named, without secrets."""
    sources = [f"{agent.label}={agent.source}" for agent in agents]
    shown = {"limits": options.limits, "retries": options.retries, "jobs": options.jobs, "sandbox": sandbox}
    return {**to_builtins(shown), "agents": clean_command(sources, os.environ)}


def _chosen(suite: Suite, words: Iterable[str]) -> list[Case]:
    wanted = frozenset(words)
    chosen = list(suite.select(ids=wanted, tags=wanted))
    known = {case.id for case in chosen} | {tag for case in chosen for tag in case.tags}
    unknown = sorted(wanted - known)
    if unknown:
        raise EvalError(f"the suite {suite.name!r} has no case and no tag {unknown[0]!r}")
    if not chosen:
        raise EvalError(f"the suite {suite.name!r} has no cases")
    return chosen


def _check_variables(cases: Iterable[Case], credentials: Credentials) -> None:
    for case in cases:
        credentials.with_names(case.env)


async def _check_agents(run: RunDirectory, named: list[EvalAgent], credentials: Credentials) -> None:
    expected = [identity.label for identity in run.manifest.agents]
    given = [agent.label for agent in named]
    if sorted(expected) != sorted(given):
        raise RecordError(
            f"{run.path} is a run of the agents {', '.join(expected)}, and cannot be continued with {', '.join(given)}"
        )
    recorded = {identity.label: identity for identity in run.manifest.agents}
    for agent in named:
        before, now = recorded[agent.label], await _identity(agent, credentials)
        if (before.command, before.url) != (now.command, now.url):
            raise RecordError(
                f"{run.path} is a run of {agent.label} = {_shown(before)}, and cannot be continued with {_shown(now)}; "
                "start a new run"
            )


async def _identity(agent: EvalAgent, credentials: Credentials) -> AgentIdentity:
    """Return how an agent is reached, without starting it."""
    env = credentials.environment() if agent.is_local else None
    try:
        target = AgentTarget(agent.target, env=env)
        await target.prepare()
    except DuologueError as error:
        raise EvalError(f"the agent {agent.label!r} cannot be started: {error}") from error
    return identity_of(agent, target)


def _shown(agent: AgentIdentity) -> str:
    return agent.url or shlex.join(agent.command) or "an object of a program"


def _sandbox(options: TrialOptions) -> str:
    """Return `bwrap`, or why nothing is confined.

    An agent of another machine is not, but simulated users and the commands that it runs in our terminals are.
    """
    if options.sandbox == "none":
        return "not wanted"
    obstacle = bubblewrap.obstacle()
    if obstacle and options.sandbox == "bwrap":
        raise EvalError(f"the agents cannot be confined: {obstacle}")
    return obstacle or "bwrap"


# --- cost


def _check_budget(agents: Iterable[AgentIdentity], options: TrialOptions, run: RunDirectory | None) -> None:
    """Check that a limit of the cost can be kept.

    Raises:
        EvalError: An agent does not report its cost, or it is not known whether it does.
    """
    limits = options.limits
    if limits.cost is None or limits.seconds is not None or limits.prompts is not None:
        return
    silent = [each.label for each in agents if not _reports_cost(each, options, run)]
    if silent:
        raise EvalError(
            f"a limit of {limits.cost:g} {limits.currency} cannot be kept: it is not known that {', '.join(silent)} "
            "reports a cost. Add a limit of the time or of the prompts, or say that it does (reports_cost)"
        )


def _reports_cost(agent: AgentIdentity, options: TrialOptions, run: RunDirectory | None) -> bool:
    if agent.label in options.reports_cost:
        return True
    for record in run.records() if run is not None else ():
        result = record.result()
        if result.key.agent == agent.label and result.metrics.prompts:
            return result.metrics.usage.cost is not None
    habit = habit_of(Implementation(agent.name, agent.version)) if agent.name else None
    return habit is not None and habit.reports_cost


async def _probe(
    agent: EvalAgent, credentials: Credentials, options: TrialOptions, *, is_confined: bool
) -> AgentIdentity:
    """Start an agent in an empty directory, without a prompt; return what it says of itself.

    Raises:
        EvalError: It cannot be started.
    """
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
            hint = bubblewrap.hint() if is_confined and agent.is_local else ""
            message = credentials.removed_from(f"the agent {agent.label!r} cannot be started: {error}{hint}")
            raise EvalError(message) from error
        finally:
            await finish(scratch.remove)
