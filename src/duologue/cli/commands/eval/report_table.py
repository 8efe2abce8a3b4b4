"""Show a report of evaluations on a terminal: agents with bars, comparisons, cases, and the trials that are missing."""

from __future__ import annotations

from collections.abc import Sequence

from duologue.cli.commands.eval.tables import Cell, bar, columns_of_text, short_label, write_table
from duologue.cli.console.safe_output import SafeOutput, Style, columns_of
from duologue.evals.report import phrases
from duologue.evals.report.eval_report import AgentRow, CaseRow, EvalReport
from duologue.evals.statistics.comparison import PairedComparison
from duologue.sanitize import escape_line

BAR_COLUMNS = 20
NARROW_BAR_COLUMNS = 6
WIDE = 110
"""Columns of a terminal that has room for long bars."""
CASE_BAR_COLUMNS = 6
MOST_LISTED = 20
"""Missing trials that are listed one by one."""


def write_report(out: SafeOutput, report: EvalReport) -> None:
    """Write a whole report."""
    for run in report.runs:
        out.write(f"{escape_line(phrases.facts(run), None)}\n", Style.DIM)
    out.write("\n")
    write_table(out, [_head(report), *(_agent(out, report, agent) for agent in report.agents)])
    if report.comparisons:
        out.write("\n")
        write_comparisons(out, report.comparisons)
    out.write("\n")
    _write_cases(out, report)
    _write_missing(out, report)
    out.write("\n")
    for agent in report.agents:
        if agent.flakiness.cases:
            listed = escape_line(", ".join(agent.flakiness.cases), None)
            out.write(f"flaky for {short_label(agent.label)}: {listed}\n", Style.YELLOW)
    for note in report.notes:
        out.write(f"note: {escape_line(note, None)}\n", Style.DIM)


def write_comparisons(out: SafeOutput, comparisons: Sequence[PairedComparison]) -> None:
    """Write the result of each comparison in a sentence; a difference that is shown stands out."""
    for each in comparisons:
        is_shown = each.verdict in ("first_better", "second_better")
        out.write(f"{escape_line(each.sentence, None)}\n", Style.BOLD if is_shown else Style.PLAIN)


def _head(report: EvalReport) -> list[Cell]:
    names = ["agent", report.metric, "", f"{phrases.level(report)} interval", *_others(report)]
    return [Cell(name, Style.DIM) for name in (*names, "cost", "time", "missing")]


def _others(report: EvalReport) -> list[str]:
    """Return the metrics with columns of their own: the score, and pass@k and pass^k of the largest k."""
    found = [each.metric for each in report.agents[0].estimates]
    largest = max(int(metric[5:]) for metric in found if metric.startswith("pass@"))
    wanted = ["pass@1", "score", f"pass@{largest}", f"pass^{largest}"]
    return [metric for metric in dict.fromkeys(wanted) if metric in found and metric != report.metric]


def _agent(out: SafeOutput, report: EvalReport, agent: AgentRow) -> list[Cell]:
    chosen = agent.estimate_of(report.metric)
    value = chosen.value if chosen else None
    others = [agent.estimate_of(metric) for metric in _others(report)]
    lost = sum(agent.missing.values())
    return [
        Cell(short_label(agent.label), Style.BOLD),
        Cell(bar(out, value, BAR_COLUMNS if columns_of(out) >= WIDE else NARROW_BAR_COLUMNS), Style.CYAN),
        Cell(phrases.number(value), Style.BOLD, is_right=True),
        Cell(phrases.limits(chosen.interval if chosen else None)),
        *(Cell(phrases.number(each.value if each else None), is_right=True) for each in others),
        Cell(escape_line(phrases.amount(agent.cost)), is_right=True),
        Cell(phrases.amount(agent.seconds), is_right=True),
        Cell(str(lost) if lost else "–", Style.YELLOW if lost else Style.DIM),
    ]


def _write_cases(out: SafeOutput, report: EvalReport) -> None:
    """Write a row for each case; agents that do not fit next to each other follow below."""
    rows = [{row.case: row for row in agent.cases} for agent in report.agents]
    names = list(dict.fromkeys(name for of_agent in rows for name in of_agent))
    quarantined = {name for of_agent in rows for name, row in of_agent.items() if row.quarantine}
    notes = {name: " (quarantine)" if name in quarantined else "" for name in names}
    first = [Cell("case", Style.DIM), *(Cell(f"{short_label(name)}{notes[name]}") for name in names)]
    columns = [
        [Cell(short_label(agent.label), Style.DIM), *(_case(out, of_agent.get(name)) for name in names)]
        for agent, of_agent in zip(report.agents, rows, strict=True)
    ]
    width = max(columns_of_text(cell.text) for column in columns for cell in column) + 2
    at_once = max(1, (columns_of(out) - max(columns_of_text(cell.text) for cell in first)) // width)
    for start in range(0, len(columns), at_once):
        out.write("\n" if start else "")
        write_table(out, list(zip(first, *columns[start : start + at_once], strict=True)))


def _case(out: SafeOutput, row: CaseRow | None) -> Cell:
    if row is None:
        return Cell("–", Style.DIM)
    share = row.passed / row.counted if row.counted else None
    style = {None: Style.DIM, 1.0: Style.GREEN, 0.0: Style.RED}.get(share, Style.YELLOW)
    words = [f"{row.passed}/{row.counted}" if row.counted else "–"]
    words += [f"{sum(row.missing.values())} missing"] if row.missing else []
    return Cell(f"{bar(out, share, CASE_BAR_COLUMNS)} {', '.join(words)}", style)


def _write_missing(out: SafeOutput, report: EvalReport) -> None:
    found = [(agent.label, trial) for agent in report.agents for trial in agent.trials() if trial.missing is not None]
    if not found:
        return
    out.write(f"\n{phrases.count(len(found), 'trial')} missing, neither passed nor failed:\n", Style.YELLOW)
    for label, trial in found[:MOST_LISTED]:
        out.write(f"  {escape_line(phrases.missing_line(label, trial))}\n")
    if len(found) > MOST_LISTED:
        out.write(f"  and {len(found) - MOST_LISTED:,} more (--json lists all)\n", Style.DIM)
