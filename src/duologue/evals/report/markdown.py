"""Write a report as Markdown, for pull requests and job summaries."""

from __future__ import annotations

from collections.abc import Sequence

from duologue.evals.report import phrases
from duologue.evals.report.eval_report import AgentRow, CaseRow, EvalReport
from duologue.evals.report.run_comparison import RunComparison
from duologue.evals.statistics.comparison import PairedComparison
from duologue.markup import markdown_code, markdown_text

MOST_LISTED = 100
"""Missing trials that are listed one by one."""


def to_markdown(report: EvalReport) -> str:
    """Return a report as Markdown: agents, comparisons, cases, and the trials that are missing."""
    suites = list(dict.fromkeys(run.suite for run in report.runs))
    lines = [f"# Evaluation of {markdown_text(', '.join(suites))}", ""]
    lines += [f"- {markdown_text(phrases.facts(run), None)}" for run in report.runs]
    lines += ["", "## Agents", "", *_agents(report), ""]
    if report.comparisons:
        lines += ["## Comparisons", "", *comparison_table(report.comparisons), ""]
    lines += ["## Cases", "", *_cases(report), ""]
    lines += _missing(report)
    flaky = [(agent.label, agent.flakiness) for agent in report.agents if agent.flakiness.cases]
    if flaky:
        lines += ["## Flaky cases", ""]
        lines += [f"- {markdown_text(label)}: {markdown_text(', '.join(each.cases), None)}" for label, each in flaky]
        lines.append("")
    if report.notes:
        lines += ["## Notes", "", *(f"- {markdown_text(note, None)}" for note in report.notes), ""]
    return "\n".join(lines)


def comparison_to_markdown(found: RunComparison) -> str:
    """Return a comparison of runs as Markdown: the results, and the cases that differ."""
    lines = ["# Comparison", "", *(f"- {markdown_text(phrases.facts(run), None)}" for run in found.runs), ""]
    lines += comparison_table([each.result for each in found.comparisons])
    for each in found.comparisons:
        lines += ["", f"## {markdown_text(each.result.first)} and {markdown_text(each.result.second)}", ""]
        lines += [f"| case | {markdown_text(each.result.first)} | {markdown_text(each.result.second)} | difference |"]
        lines += ["|---|---|---|---|"]
        lines += [
            f"| {markdown_code(case.case, in_table=True)} | {phrases.number(case.first)} | "
            f"{phrases.number(case.second)} | {phrases.signed(case.difference)} |"
            for case in each.cases
            if case.difference != 0
        ]
    lines += ["", "## Notes", "", *(f"- {markdown_text(note, None)}" for note in found.notes)] if found.notes else []
    return "\n".join([*lines, ""])


def comparison_table(comparisons: Sequence[PairedComparison]) -> list[str]:
    """Return comparisons as a table, and each in a sentence."""
    head = [
        "| first | second | cases | difference | interval | p | detectable |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = [
        f"| {markdown_text(each.first)} | {markdown_text(each.second)} | {each.cases} | "
        f"{phrases.signed(each.difference)} | {phrases.signed_limits(each.interval)} | {each.adjusted_p:.3g} "
        f"({each.test.replace('_', ' ')}) | {phrases.number(each.detectable)} |"
        for each in comparisons
    ]
    return [*head, *rows, "", *(f"- {markdown_text(each.sentence, None)}" for each in comparisons)]


def _agents(report: EvalReport) -> list[str]:
    metrics = [each.metric for each in report.agents[0].estimates] if report.agents else []
    shared = [metric for metric in metrics if all(agent.estimate_of(metric) for agent in report.agents)]
    head = ["agent", *shared, f"{phrases.level(report)} interval of {report.metric}", "cost", "time", "missing"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for agent in report.agents:
        values = [agent.estimate_of(metric) for metric in shared]
        chosen = agent.estimate_of(report.metric)
        cells = [
            markdown_text(" ".join(filter(None, (agent.label, agent.version)))),
            *(phrases.number(each.value if each else None) for each in values),
            phrases.limits(chosen.interval if chosen else None),
            markdown_text(phrases.amount(agent.cost)),
            phrases.amount(agent.seconds),
            phrases.missing(agent.missing) or "0",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cases(report: EvalReport) -> list[str]:
    labels = [markdown_text(agent.label) for agent in report.agents]
    lines = [f"| case | {' | '.join(labels)} |", "|---" * (len(labels) + 1) + "|"]
    rows = [{row.case: row for row in agent.cases} for agent in report.agents]
    for case in dict.fromkeys(name for of_agent in rows for name in of_agent):
        cells = [_case(of_agent.get(case)) for of_agent in rows]
        lines.append(f"| {markdown_code(case, in_table=True)} | {' | '.join(cells)} |")
    return lines


def _case(row: CaseRow | None) -> str:
    if row is None:
        return "–"
    parts = [f"{row.passed}/{row.counted} ({phrases.limits(row.interval)})" if row.counted else "–"]
    parts += ["flaky"] if row.is_flaky else []
    parts += [f"missing: {phrases.missing(row.missing)}"] if row.missing else []
    parts += ["quarantine"] if row.quarantine else []
    return ", ".join(parts)


def _missing(report: EvalReport) -> list[str]:
    trials = [trial for agent in report.agents for trial in _missing_of(agent)]
    if not trials:
        return []
    listed = [f"- {markdown_text(line)}" for line in trials[:MOST_LISTED]]
    more = [f"- {len(trials) - MOST_LISTED:,} more"] if len(trials) > MOST_LISTED else []
    return ["## Missing trials", "", "They are neither passed nor failed.", "", *listed, *more, ""]


def _missing_of(agent: AgentRow) -> list[str]:
    return [phrases.missing_line(agent.label, trial) for trial in agent.trials() if trial.missing is not None]
