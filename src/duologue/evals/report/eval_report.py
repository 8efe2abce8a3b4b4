"""The report of one or several runs: estimates with intervals, comparisons, amounts and every case, as one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from msgspec import Struct

from duologue import __version__
from duologue.evals.exceptions import EvalError
from duologue.evals.report.run_summary import AgentSummary, CaseSummary, RunSummary, label_agents, missing_of
from duologue.evals.report.trial_summary import TrialSummary
from duologue.evals.statistics.case_trials import parse_metric
from duologue.evals.statistics.comparison import PairedComparison, compare_all
from duologue.evals.statistics.flakiness import Flakiness, flakiness
from duologue.evals.statistics.intervals import LEVEL, Estimate, Interval, estimate, wilson

REPORT_FORMAT = 1
"""Version of the report as JSON; new fields do not change it."""

USUAL_K = (1, 2, 3, 5, 10, 20, 50, 100)
"""Numbers of trials that pass@k and pass^k are reported for, as far as there are so many, and all of them."""


MOST_NAMED = 10
"""Cases that a note names."""


class Amount(Struct, frozen=True, kw_only=True):
    """A mean over the trials for which the agent reported a number.

    Attributes:
        mean: The mean.
        total: The sum.
        trials: Number of trials that reported it.
        unit: Unit: a currency, `tokens` or `s`.
    """

    mean: float
    total: float
    trials: int
    unit: str


class CaseRow(Struct, frozen=True, kw_only=True):
    """One case of one agent.

    Attributes:
        case: Id of the case.
        counted: Number of trials that count.
        passed: How many of them passed.
        interval: Interval of Wilson for the share that passes; None if no trial counts.
        score: Mean score; None if no trial counts.
        missing: Number of missing trials by reason.
        is_flaky: Some trials passed and others did not.
        quarantine: Why the case is not part of the estimates; empty if it is.
        tags: Tags of the case.
        trials: The trials.
    """

    case: str
    counted: int
    passed: int
    interval: Interval | None
    score: float | None
    missing: dict[str, int]
    is_flaky: bool
    quarantine: str
    tags: list[str]
    trials: tuple[TrialSummary, ...]


class AgentRow(Struct, frozen=True, kw_only=True):
    """One agent of a report.

    Attributes:
        label: Its label, unique in the report.
        run: Name of its run.
        path: Directory or file of its run.
        name: Name that the agent reported.
        version: Version that the agent reported.
        estimates: `pass@1`, `score` and the other metrics, each over all cases that are not in quarantine.
        flakiness: How much the trials of the same cases differ.
        cost: Cost of a trial; None if none was reported.
        tokens: Tokens of a trial; None if none were reported.
        seconds: Seconds of a trial; None if they are not known.
        missing: Number of missing trials by reason.
        cases: Its cases.
    """

    label: str
    run: str
    path: str
    name: str
    version: str
    estimates: list[Estimate]
    flakiness: Flakiness
    cost: Amount | None
    tokens: Amount | None
    seconds: Amount | None
    missing: dict[str, int]
    cases: tuple[CaseRow, ...]

    def estimate_of(self, metric: str) -> Estimate | None:
        """Return the estimate of a metric; None if it is not in the report."""
        return next((each for each in self.estimates if each.metric == metric), None)

    def trials(self) -> Iterable[TrialSummary]:
        """Yield all trials."""
        for case in self.cases:
            yield from case.trials


class RunFacts(Struct, frozen=True, kw_only=True):
    """A run that a report is about.

    Attributes:
        name: Name of its directory or file.
        path: Its directory or file.
        id: Id of the run.
        suite: Name of the suite.
        suite_digest: Digest of the suite.
        started: When it was made, in UTC (ISO 8601).
        cases: Number of cases.
        trials: How often each agent was to run each case.
        interrupted: Number of attempts that were interrupted.
    """

    name: str
    path: str
    id: str
    suite: str
    suite_digest: str
    started: str
    cases: int
    trials: int
    interrupted: int


class EvalReport(Struct, frozen=True, kw_only=True):
    """The report of one or several runs; `eval report --json` prints it.

    Attributes:
        format: Version of the format.
        duologue: Version of duologue that made it.
        runs: The runs.
        metric: The metric of comparisons.
        level: Level of all intervals.
        agents: The agents.
        comparisons: Every two agents, with Holm's correction.
        notes: Warnings for readers.
    """

    format: int = REPORT_FORMAT
    duologue: str = __version__
    runs: list[RunFacts]
    metric: str
    level: float
    agents: list[AgentRow]
    comparisons: list[PairedComparison]
    notes: list[str]

    def trials(self) -> Iterable[TrialSummary]:
        """Yield all trials."""
        for agent in self.agents:
            yield from agent.trials()


def make_report(runs: Sequence[RunSummary], *, metric: str = "pass@1", level: float = LEVEL) -> EvalReport:
    """Return the report of runs; agents of several runs with the same label get the name of their run.

    Args:
        runs: One or more runs.
        metric: The metric by which agents are compared: `score`, `pass@K` or `pass^K`.
        level: Level of the intervals.

    Raises:
        EvalError: There are no runs, one has no agents or no cases, or there are too many agents to compare.
        ValueError: The metric is unknown.
        ImportError: numpy or scipy is not installed.
    """
    parse_metric(metric)
    if not runs:
        raise EvalError("a report needs at least one run")
    for run in runs:
        if not run.manifest.agents or not run.manifest.cases:
            lacking = "cases" if run.manifest.agents else "agents"
            raise EvalError(f"{run.path} has no {lacking}, so that there is nothing to report")
    seed = runs[0].manifest.seed
    labelled = label_agents(runs)
    trials = {agent.label: agent.to_statistics() for _, agent in labelled}
    agents = [_agent_row(run, agent, metric, level) for run, agent in labelled]
    return EvalReport(
        runs=[run_facts(run) for run in runs],
        metric=metric,
        level=level,
        agents=agents,
        comparisons=compare_all(trials, metric=metric, level=level, seed=seed),
        notes=[*notes_of_runs(runs), *(note for agent in agents for note in _notes_of_agent(agent, metric))],
    )


def metrics_of(trials: int, metric: str) -> list[str]:
    """Return the metrics to report for so many trials of each case: pass@1, score, and both kinds for several k."""
    several = sorted({*(k for k in USUAL_K if k <= trials), trials} - {1})
    names = ["pass@1", "score", *(f"pass@{k}" for k in several), *(f"pass^{k}" for k in several)]
    return list(dict.fromkeys([*names, metric]))


def _agent_row(run: RunSummary, agent: AgentSummary, metric: str, level: float) -> AgentRow:
    cases = agent.to_statistics()
    counted = [trial for trial in agent.trials() if trial.missing is None]
    return AgentRow(
        label=agent.label,
        run=run.name,
        path=run.path,
        name=agent.identity.title or agent.identity.name,
        version=agent.identity.version,
        estimates=[
            estimate(cases, each, level=level, seed=run.manifest.seed)
            for each in metrics_of(run.manifest.trials, metric)
        ],
        flakiness=flakiness(cases),
        cost=_cost(counted),
        tokens=_amount([trial.metrics.usage.total for trial in counted], "tokens"),
        seconds=_amount([trial.metrics.seconds for trial in counted], "s"),
        missing=missing_of(agent.trials()),
        cases=tuple(_case_row(case, level) for case in agent.cases),
    )


def _case_row(case: CaseSummary, level: float) -> CaseRow:
    counted, passed = len(case.counted), case.passed
    return CaseRow(
        case=case.case,
        counted=counted,
        passed=passed,
        interval=wilson(passed, counted, level=level) if counted else None,
        score=case.score,
        missing=case.missing,
        is_flaky=0 < passed < counted,
        quarantine=case.quarantine,
        tags=case.tags,
        trials=case.trials,
    )


def run_facts(run: RunSummary) -> RunFacts:
    """Return what a report says about a run."""
    manifest = run.manifest
    return RunFacts(
        name=run.name,
        path=run.path,
        id=manifest.id,
        suite=manifest.suite,
        suite_digest=manifest.suite_digest,
        started=manifest.started,
        cases=len(manifest.cases),
        trials=manifest.trials,
        interrupted=run.interrupted,
    )


def _cost(trials: Sequence[TrialSummary]) -> Amount | None:
    """Return the cost in the currency that most trials report; amounts in different currencies are never added."""
    usages = [trial.metrics.usage for trial in trials]
    currencies = Counter(usage.currency or "" for usage in usages if usage.cost is not None)
    if not currencies:
        return None
    currency = currencies.most_common(1)[0][0]
    return _amount([usage.cost for usage in usages if (usage.currency or "") == currency], currency)


def _amount(values: Iterable[float | None], unit: str) -> Amount | None:
    known = [float(value) for value in values if value is not None]
    return Amount(mean=fmean(known), total=sum(known), trials=len(known), unit=unit) if known else None


def notes_of_runs(runs: Sequence[RunSummary]) -> list[str]:
    """Return warnings about runs: other suites, interrupted attempts, cases in quarantine."""
    notes = [f"{run.name}: {note}" for run in runs for note in run.notes]
    if len({run.manifest.suite_digest for run in runs}) > 1:
        notes.append(
            "the runs are of different versions of the suite, or of different suites: cases are paired by their ids, "
            "and those that only one run has are left out"
        )
    notes += [
        f"{run.name}: {run.interrupted} attempts were interrupted; `duologue eval run --resume {run.path}` continues"
        for run in runs
        if run.interrupted
    ]
    quarantined = {
        case.case: case.quarantine for run in runs for agent in run.agents for case in agent.cases if case.quarantine
    }
    notes += [f"{case} is in quarantine and not part of the estimates: {why}" for case, why in quarantined.items()]
    return notes


def _notes_of_agent(agent: AgentRow, metric: str) -> list[str]:
    """Return which estimates are over fewer cases, whether an interval is too narrow, and what was not watched."""
    chosen = agent.estimate_of(metric)
    notes = [f"{agent.label}: {chosen.note}"] if chosen and chosen.note else []
    unwatched = sum(trial.is_watched is False for trial in agent.trials())
    if unwatched:
        known = sum(trial.is_watched is not None for trial in agent.trials())
        notes.append(
            f"{agent.label}: {unwatched} of {known} trials were not confined: of what they wrote outside of the "
            "workspace, only files in HOME and TMPDIR are listed, and nothing else was watched"
        )
    by_cases: dict[tuple[str, ...], list[Estimate]] = {}
    for each in agent.estimates:
        by_cases.setdefault(each.left_out, []).append(each)
    for left_out, estimates in by_cases.items():
        if left_out:
            names = ", ".join(each.metric for each in estimates)
            listed = ", ".join(left_out[:MOST_NAMED]) + (", …" if len(left_out) > MOST_NAMED else "")
            total = estimates[0].cases + len(left_out)
            notes.append(
                f"{agent.label}: {names}: over {estimates[0].cases} of {total} cases; "
                f"the others have too few trials: {listed}"
            )
    return notes
