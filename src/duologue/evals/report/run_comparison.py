"""Compare runs: the same agent before and after, or different agents, paired by case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from msgspec import Struct

from duologue import __version__
from duologue.evals.exceptions import EvalError
from duologue.evals.report.eval_report import REPORT_FORMAT, RunFacts, notes_of_runs, run_facts
from duologue.evals.report.run_summary import AgentSummary, RunSummary, label_agents
from duologue.evals.statistics.case_trials import CaseTrials, parse_metric
from duologue.evals.statistics.comparison import PairedComparison, compare_pairs
from duologue.evals.statistics.flakiness import flip_rate_between
from duologue.evals.statistics.intervals import LEVEL


class CaseDifference(Struct, frozen=True, kw_only=True):
    """One case of a comparison.

    Attributes:
        case: Id of the case.
        first: Value of the first agent; None if it has none.
        second: Value of the second agent; None if it has none.
        difference: First less second; None if one of them has no value.
    """

    case: str
    first: float | None
    second: float | None
    difference: float | None


class AgentComparison(Struct, frozen=True, kw_only=True):
    """Two agents, or one agent in two runs.

    Attributes:
        result: The comparison over all cases.
        flip_rate: Probability that a trial of one and a trial of the other differ; None without common cases.
        cases: Each case, the largest differences first.
    """

    result: PairedComparison
    flip_rate: float | None
    cases: list[CaseDifference]


class RunComparison(Struct, frozen=True, kw_only=True):
    """A comparison of runs; `eval compare --json` prints it.

    Attributes:
        format: Version of the format.
        duologue: Version of duologue that made it.
        runs: The runs.
        metric: The metric.
        level: Level of the intervals, and of all verdicts together.
        comparisons: The comparisons, with Holm's correction for their number.
        notes: Warnings for readers.
    """

    format: int = REPORT_FORMAT
    duologue: str = __version__
    runs: list[RunFacts]
    metric: str
    level: float
    comparisons: list[AgentComparison]
    notes: list[str]


def compare_runs(
    runs: Sequence[RunSummary], *, agents: Iterable[str] = (), metric: str = "pass@1", level: float = LEVEL
) -> RunComparison:
    """Compare the agents of runs, paired by case.

    If two or more runs have agents with the same label, each such agent is compared with itself in the other runs.
    Otherwise every two agents are compared.

    Args:
        runs: One or more runs.
        agents: Labels of the agents to compare; all if empty.
        metric: `score`, `pass@K` or `pass^K`.
        level: Level of the intervals, and 1 less the level of significance of all comparisons together.

    Raises:
        EvalError: There are fewer than two agents to compare, or no agent with such a label.
        ValueError: The metric is unknown.
        ImportError: numpy or scipy is not installed.
    """
    pairs = _pairs(runs, set(agents))
    parsed = parse_metric(metric)
    seed = runs[0].manifest.seed
    trials = [((one.label, one.to_statistics()), (two.label, two.to_statistics())) for one, two in pairs]
    results = compare_pairs(trials, metric=metric, level=level, seed=seed)
    comparisons = [
        AgentComparison(
            result=result,
            flip_rate=flip_rate_between(first, second),
            cases=_differences(first, second, parsed.value),
        )
        for result, ((_, first), (_, second)) in zip(results, trials, strict=True)
    ]
    return RunComparison(
        runs=[run_facts(run) for run in runs],
        metric=metric,
        level=level,
        comparisons=comparisons,
        notes=notes_of_runs(runs),
    )


def _pairs(runs: Sequence[RunSummary], wanted: set[str]) -> list[tuple[AgentSummary, AgentSummary]]:
    original = [agent.label for run in runs for agent in run.agents]
    labelled = [agent for _, agent in label_agents(runs)]
    if unknown := wanted - {*original, *(agent.label for agent in labelled)}:
        known = ", ".join(dict.fromkeys(original))
        raise EvalError(f"no run has an agent {min(unknown)!r}; the agents are {known}")
    chosen = [
        (name, agent)
        for name, agent in zip(original, labelled, strict=True)
        if not wanted or wanted & {name, agent.label}
    ]
    by_name: dict[str, list[AgentSummary]] = {}
    for name, agent in chosen:
        by_name.setdefault(name, []).append(agent)
    repeated = [pair for found in by_name.values() for pair in combinations(found, 2)]
    pairs = repeated or list(combinations([agent for _, agent in chosen], 2))
    if not pairs:
        raise EvalError("there is one agent only: a comparison needs two agents, or two runs of one agent")
    return pairs


def _differences(
    first: Sequence[CaseTrials], second: Sequence[CaseTrials], value: Callable[[CaseTrials], float | None]
) -> list[CaseDifference]:
    ones, twos = ({case.case: value(case) for case in cases} for cases in (first, second))
    found: list[CaseDifference] = []
    for case in dict.fromkeys([*ones, *twos]):
        one, two = ones.get(case), twos.get(case)
        difference = None if one is None or two is None else one - two
        found.append(CaseDifference(case=case, first=one, second=two, difference=difference))
    return sorted(found, key=lambda each: -abs(each.difference or 0.0))
