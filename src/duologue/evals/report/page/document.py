"""Write a report as one HTML page: agents, cost against quality, comparisons, a matrix of cases, and every trial."""

from __future__ import annotations

from pathlib import Path

from duologue.evals.report import phrases
from duologue.evals.report.eval_report import AgentRow, CaseRow, EvalReport
from duologue.evals.report.page.drawings import difference_bar, quality_plot, share_bar
from duologue.evals.report.page.style import STYLE
from duologue.evals.report.page.trial_details import trial_details
from duologue.evals.statistics.comparison import PairedComparison
from duologue.markup import html_page, html_text

MOST_CHARACTERS = 24_000_000
"""Characters of steps, changes and messages on the whole page: as much as a browser shows without waiting."""
MOST_OF_TRIAL = 60_000
LEAST_OF_TRIAL = 2_000
"""Characters of one trial; if there are more trials than fit, later ones only have their grades."""
COMPARISON_COLUMNS = ("first", "second", "cases", "−1 … 0 … +1", "difference", "interval", "p", "test", "detectable")
COMPARISON_WORDS = (
    "Paired by case; p-values after Holm's correction. An agent is called better only if p is small and the interval "
    "does not contain 0. Detectable: the difference that is found with 80 % probability."
)
MOST_LISTED = 1000
"""Missing trials that are listed one by one."""


def to_html(report: EvalReport) -> str:
    """Return the report as one page that loads nothing and has no scripts."""
    suites = ", ".join(dict.fromkeys(run.suite for run in report.runs))
    title = f"Evaluation of {suites}"
    body = [
        f"<h1>{html_text(title)}</h1>",
        *(f'<p class="dim facts">{html_text(phrases.facts(run))}</p>' for run in report.runs),
        *_agents(report),
        *_plot(report),
        *_comparisons(report),
        *_matrix(report),
        *_missing(report),
        *_notes(report),
        *_trials(report),
        f'<p class="dim">Written by duologue {html_text(report.duologue)}.</p>',
    ]
    return html_page(title, STYLE, body)


def _agents(report: EvalReport) -> list[str]:
    metrics = [each.metric for each in report.agents[0].estimates if each.metric != report.metric]
    shared = [metric for metric in metrics if all(agent.estimate_of(metric) for agent in report.agents)]
    names = ["agent", report.metric, "", f"{phrases.level(report)} interval", *shared, "cost", "tokens", "time"]
    head = "".join(f"<th>{html_text(name)}</th>" for name in [*names, "flaky", "missing"])
    rows = [_agent(report, agent, shared) for agent in report.agents]
    return ["<h2>Agents</h2>", f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>', *rows, _TABLE_END]


_TABLE_END = "</tbody></table></div>"


def _agent(report: EvalReport, agent: AgentRow, shared: list[str]) -> str:
    chosen = agent.estimate_of(report.metric)
    value, interval = (chosen.value, chosen.interval) if chosen else (None, None)
    about = " ".join(filter(None, (agent.name, agent.version)))
    others = [agent.estimate_of(metric) for metric in shared]
    numbers = [
        *(phrases.number(each.value if each else None) for each in others),
        phrases.amount(agent.cost),
        phrases.amount(agent.tokens),
        phrases.amount(agent.seconds),
        phrases.number(agent.flakiness.share),
    ]
    lost = sum(agent.missing.values())
    return (
        f'<tr><td class="name">{html_text(agent.label)}<div class="dim">{html_text(about[:200])}</div></td>'
        f"<td>{share_bar(value, interval, width=140, tone='pass')}</td>"
        f'<td class="number"><strong>{phrases.number(value)}</strong></td>'
        f'<td class="nowrap">{phrases.limits(interval)}</td>'
        + "".join(f'<td class="number">{html_text(each)}</td>' for each in numbers)
        + f'<td class="{"mixed" if lost else "dim"}">{lost or "–"}</td></tr>'
    )


def _plot(report: EvalReport) -> list[str]:
    drawing = quality_plot(report)
    if not drawing:
        return []
    words = (
        "Each point is an agent with the interval of its quality. The dashed line joins the agents that no other agent "
        "is both cheaper and better than, by their means alone."
    )
    return ["<h2>Cost against quality</h2>", f'<div class="wide">{drawing}</div>', f'<p class="dim">{words}</p>']


def _comparisons(report: EvalReport) -> list[str]:
    if not report.comparisons:
        return []
    head = "".join(f"<th>{name}</th>" for name in COMPARISON_COLUMNS)
    rows = [_comparison(each) for each in report.comparisons]
    sentences = [
        f'<p class="verdict{" shown" if each.verdict.endswith("better") else ""}">{html_text(each.sentence)}</p>'
        for each in report.comparisons
    ]
    return [
        "<h2>Comparisons</h2>",
        *sentences,
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>',
        *rows,
        _TABLE_END,
        f'<p class="dim">{html_text(COMPARISON_WORDS)}</p>',
    ]


def _comparison(each: PairedComparison) -> str:
    limits = phrases.signed_limits(each.interval)
    return (
        f'<tr><td class="name">{html_text(each.first)}</td><td class="name">{html_text(each.second)}</td>'
        f'<td class="number">{each.cases}</td><td>{difference_bar(each)}</td>'
        f'<td class="number">{phrases.signed(each.difference)}</td><td class="nowrap">{limits}</td>'
        f'<td class="number">{each.adjusted_p:.3g}</td><td class="nowrap">{each.test.replace("_", " ")}</td>'
        f'<td class="number">{phrases.number(each.detectable)}</td></tr>'
    )


def _matrix(report: EvalReport) -> list[str]:
    head = "".join(f'<th class="agent">{html_text(agent.label)}</th>' for agent in report.agents)
    rows: list[str] = []
    for number, name in enumerate(_case_names(report)):
        found = [next((row for row in agent.cases if row.case == name), None) for agent in report.agents]
        cells = "".join(f"<td>{_cell(row, f'#a{at}-c{number}')}</td>" for at, row in enumerate(found))
        quarantine = next((row.quarantine for row in found if row is not None and row.quarantine), "")
        badge = '<span class="badge mixed">quarantine</span>' if quarantine else ""
        rows.append(f'<tr><td class="name">{html_text(name)}{badge}</td>{cells}</tr>')
    level = phrases.level(report)
    words = f"Bars are the share of passed trials, lines the {level} interval of Wilson. Each leads to its trials."
    return [
        "<h2>Cases</h2>",
        f'<p class="dim">{words}</p>',
        f'<div class="wide"><table><thead><tr><th>case</th>{head}</tr></thead><tbody>',
        *rows,
        _TABLE_END,
    ]


def _cell(row: CaseRow | None, link: str) -> str:
    if row is None:
        return '<span class="none">not in this run</span>'
    share = row.passed / row.counted if row.counted else None
    tone = {None: "none", 1.0: "pass", 0.0: "fail"}.get(share, "mixed")
    badges = '<span class="badge">flaky</span>' if row.is_flaky else ""
    if row.missing:
        badges += f'<span class="badge none">{sum(row.missing.values())} missing</span>'
    shown = f"{row.passed}/{row.counted}" if row.counted else "no result"
    return f'<a class="cell {tone}" href="{link}">{share_bar(share, row.interval, tone=tone)}{shown}{badges}</a>'


def _missing(report: EvalReport) -> list[str]:
    found = [(agent.label, trial) for agent in report.agents for trial in agent.trials() if trial.missing is not None]
    if not found:
        return []
    listed = [f"<li>{html_text(phrases.missing_line(label, trial)[:500])}</li>" for label, trial in found[:MOST_LISTED]]
    more = [f"<li>{len(found) - MOST_LISTED:,} more</li>"] if len(found) > MOST_LISTED else []
    reasons = list(dict.fromkeys(str(trial.missing) for _, trial in found))
    meanings = "; ".join(f"{reason}: {phrases.meaning(reason)}" for reason in reasons)
    return [
        "<h2>Missing trials</h2>",
        f"<p>{phrases.count(len(found), 'trial')} neither passed nor failed. They are not part of any score.</p>",
        f'<p class="dim">{html_text(meanings)}.</p>',
        '<details open><summary>All of them</summary><ul class="facts">',
        *listed,
        *more,
        "</ul></details>",
    ]


def _notes(report: EvalReport) -> list[str]:
    if not report.notes:
        return []
    return ["<h2>Notes</h2><ul>", *(f"<li>{html_text(note)}</li>" for note in report.notes), "</ul>"]


def _trials(report: EvalReport) -> list[str]:
    total = sum(1 for _ in report.trials())
    most = max(LEAST_OF_TRIAL, min(MOST_OF_TRIAL, MOST_CHARACTERS // max(total, 1)))
    left = MOST_CHARACTERS
    parts = ['<section class="trials"><h2>Trials</h2>']
    for number, name in enumerate(_case_names(report)):
        parts.append(f"<details><summary>{html_text(name)}</summary>")
        for at, agent in enumerate(report.agents):
            row = next((row for row in agent.cases if row.case == name), None)
            if row is None:
                continue
            anchor = f"a{at}-c{number}"
            parts.append(f'<h3 id="{anchor}">{html_text(agent.label)}</h3>')
            for trial in row.trials:
                left -= most
                allowed = most if left >= 0 else 0
                parts += trial_details(f"{anchor}-t{trial.trial}", trial, Path(agent.path), allowed)
        parts.append("</details>")
    return [*parts, "</section>"]


def _case_names(report: EvalReport) -> list[str]:
    return list(dict.fromkeys(row.case for agent in report.agents for row in agent.cases))
