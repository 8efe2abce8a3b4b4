"""Run a suite: check everything first, then run the trials that have no record."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, structs, to_builtins

from duologue.client.target import Target
from duologue.conversation.session_setup import Implementation
from duologue.evals.engines.interface import Engine, EngineError
from duologue.evals.engines.local import LocalEngine
from duologue.evals.engines.task import ProbeReport, ProbeTask
from duologue.evals.exceptions import EvalError, RecordError
from duologue.evals.record.manifest import AgentIdentity, RunManifest
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run.credentials import clean_command
from duologue.evals.run.identity import this_machine
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.progress import Observer, RunProgress
from duologue.evals.run.scheduler import Scheduler
from duologue.evals.run.scratch import finish
from duologue.evals.run.targets import EvalAgent, eval_agents
from duologue.evals.run.watched_trial import TrialWatch
from duologue.evals.suite.case import Case
from duologue.evals.suite.loader import load_suite
from duologue.evals.suite.suite import Suite
from duologue.usage.habits import habit_of


class RunEnd(Struct, frozen=True, kw_only=True):
    """How a run ended; `read_run` reads what it shows.

    Attributes:
        directory: The run directory.
        progress: Numbers of trials, the cost, and the limit that stopped it (`stop`), if one did.
        given_up: Why no further trial of an agent was started, by its label.
        sandbox: `bwrap`, or why agents, simulated users and commands of terminals were not confined.
        problem: Why the engine could not go on; empty if it could.
    """

    directory: Path
    progress: RunProgress
    given_up: Mapping[str, str] = {}
    sandbox: str = ""
    problem: str = ""

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
    engine: Engine | None = None,
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
        engine: Where they are run; `open_engine` makes one. Default: in this process.
        observer: Called with each event and the progress.
        watch: Where the trials that run are found by watchers.

    Raises:
        SuiteError: The suite has mistakes.
        RecordError: The directory is not the directory of a run, or that of another suite.
        EvalError: An agent cannot be started, or a limit cannot be kept. No trial has been started.
        EngineError: The engine cannot be used. No trial has been started.
    """
    suite = suite if isinstance(suite, Suite) else await finish(load_suite, Path(suite))
    options = options or TrialOptions()
    named = eval_agents(agents)
    if watch is not None and engine is not None and not engine.is_local:
        raise EngineError(
            f"received `watch` with the engine {engine.name}, expected the local one: others run in other processes"
        )
    async with engine or LocalEngine() as opened:
        return await _run(
            suite,
            named,
            Path(directory),
            options,
            opened,
            retry_missing=retry_missing,
            observer=observer,
            watch=watch,
            new=lambda: _NewRun(trials=trials or suite.trials, cases=_chosen(suite, cases), seed=seed),
        )


class _NewRun(Struct, frozen=True):
    """The parts of a new run."""

    trials: int
    cases: list[Case]
    seed: int


async def _run(
    suite: Suite,
    named: list[EvalAgent],
    path: Path,
    options: TrialOptions,
    engine: Engine,
    *,
    retry_missing: bool,
    observer: Observer,
    watch: TrialWatch | None,
    new: Callable[[], _NewRun],
) -> RunEnd:
    by_id = {case.id: case for case in suite.cases}
    if (path / "run.json").exists():
        run = await finish(RunDirectory.open, path, suite_digest=suite.digest)
        chosen = [by_id[case] for case in run.manifest.cases]
        _check_labels(run, named)
        probes = await _probe(engine, named, options, chosen, is_started=False)
        _check_agents(run, [probe.identity for probe in probes if probe.identity is not None])
        if retry_missing:
            await finish(run.set_aside_missing)
    else:
        wanted = new()
        probes = await _probe(engine, named, options, wanted.cases, is_started=True)
        identities = [probe.identity for probe in probes if probe.identity is not None]
        manifest = structs.replace(
            _manifest(suite, identities),
            cases=[case.id for case in wanted.cases],
            trials=wanted.trials,
            seed=wanted.seed,
            options=_shown_options(options, named, engine, probes[0].sandbox),
        )
        _check_budget(identities, options, None)
        run = await finish(RunDirectory.create, path, manifest, suite)
    await finish(_check_budget, run.manifest.agents, options, run)
    labelled = {agent.label: agent for agent in named}
    scheduler = Scheduler(run, by_id, labelled, options, engine, observer=observer, watch=watch)
    await scheduler.run()
    return RunEnd(
        directory=run.path,
        progress=scheduler.progress,
        given_up=scheduler.given_up,
        sandbox=probes[0].sandbox,
        problem=scheduler.problem,
    )


async def _probe(
    engine: Engine, agents: list[EvalAgent], options: TrialOptions, cases: Iterable[Case], *, is_started: bool
) -> list[ProbeReport]:
    """Return what a look at each agent shows, one after the other.

    Raises:
        EvalError: One cannot be started, or something is missing where the engine carries out trials.
    """
    env = tuple(dict.fromkeys(name for case in cases for name in case.env))
    found: list[ProbeReport] = []
    for agent in agents:
        task = ProbeTask(agent=agent, options=options, env=env, is_started=is_started)
        engine.submit(task)
        report = await anext(aiter(engine.results()))
        assert isinstance(report, ProbeReport), "nothing else was submitted"
        if report.identity is None:
            where = f" (on the worker {report.worker})" if report.worker else ""
            raise EvalError(f"{report.error}{where}")
        found.append(report)
    return found


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


def _shown_options(options: TrialOptions, agents: list[EvalAgent], engine: Engine, sandbox: str) -> dict[str, Any]:
    """Return the options that a run records; the agents as they were named, without secrets."""
    sources = [f"{agent.label}={agent.source}" for agent in agents]
    shown = {
        "limits": options.limits,
        "retries": options.retries,
        "jobs": options.jobs or engine.slots,
        "engine": engine.name,
        "sandbox": sandbox,
    }
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


def _check_labels(run: RunDirectory, named: list[EvalAgent]) -> None:
    expected = [identity.label for identity in run.manifest.agents]
    given = [agent.label for agent in named]
    if sorted(expected) != sorted(given):
        raise RecordError(
            f"{run.path} is a run of the agents {', '.join(expected)}, and cannot be continued with {', '.join(given)}"
        )


def _check_agents(run: RunDirectory, found: list[AgentIdentity]) -> None:
    recorded = {identity.label: identity for identity in run.manifest.agents}
    for now in found:
        before = recorded[now.label]
        if (before.command, before.url) != (now.command, now.url):
            raise RecordError(
                f"{run.path} is a run of {now.label} = {_shown(before)}, and cannot be continued with {_shown(now)}; "
                "start a new run"
            )


def _shown(agent: AgentIdentity) -> str:
    return agent.url or shlex.join(agent.command) or "an object of a program"


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
