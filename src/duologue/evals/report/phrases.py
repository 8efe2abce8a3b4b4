"""Words and numbers of a report that all its documents share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from duologue.evals.record.outcomes import OUTCOMES
from duologue.evals.report.trial_summary import MISSING_WORDS, TrialSummary

if TYPE_CHECKING:  # statistics need libraries that exports do without
    from duologue.evals.report.eval_report import Amount, EvalReport, RunFacts
    from duologue.evals.statistics.comparison import PairedTest
    from duologue.evals.statistics.intervals import Interval


def number(value: float | None) -> str:
    """Return a value from 0 to 1 with three digits; a dash if there is none."""
    return "–" if value is None else f"{value:.3f}"


def limits(interval: Interval | None) -> str:
    """Return the limits of an interval; a dash if there is none."""
    return "–" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"


def signed(value: float | None) -> str:
    """Return a difference with its sign; a dash if there is none."""
    return "–" if value is None else f"{value:+.3f}"


def signed_limits(interval: Interval | None) -> str:
    """Return the limits of the interval of a difference; a dash if there is none."""
    return "–" if interval is None else f"{interval.low:+.3f} to {interval.high:+.3f}"


def test_name(test: PairedTest) -> str:
    """Return the name of a test."""
    names: dict[PairedTest, str] = {
        "mcnemar": "exact McNemar",
        "sign_flip_exact": "all sign flips of the differences of cases",
        "sign_flip": "random sign flips of the differences of cases",
        "none": "none",
    }
    return names[test]


def amount(found: Amount | None) -> str:
    """Return the mean of an amount for each trial; a dash if it was not reported."""
    if found is None:
        return "–"
    if found.unit == "tokens":
        return f"{found.mean:,.0f}"
    return f"{found.mean:.3g} {found.unit}".rstrip()


def count(number_of: int, noun: str) -> str:
    """Return a number with its noun: `1 case`, `2 cases`."""
    return f"{number_of:,} {noun}" if number_of == 1 else f"{number_of:,} {noun}s"


def missing(found: Mapping[str, int]) -> str:
    """Return how many trials are missing, by reason; empty if none is."""
    return ", ".join(f"{count} {reason}" for reason, count in found.items())


def meaning(reason: str) -> str:
    """Return what the reason of a missing trial means."""
    rule = next((rule for kind, rule in OUTCOMES.items() if kind == reason), None)
    return MISSING_WORDS.get(reason, reason) if rule is None else rule.meaning


def missing_line(label: str, trial: TrialSummary) -> str:
    """Return a missing trial of the agent with this label in one line: which, why, and what happened."""
    cause = f" ({trial.reason})" if trial.reason and trial.missing == trial.outcome else ""
    detail = f": {trial.detail}" if trial.detail else ""
    return f"{label}, {trial.case}, trial {trial.trial}: {trial.missing}{cause}{detail}"


def facts(run: RunFacts) -> str:
    """Return a run in one line; results of acp-harness have no time and no digest."""
    digest = f"suite {run.suite_digest[:12]}" if run.suite_digest else ""
    words = (count(run.cases, "case"), f"{count(run.trials, 'trial')} of each", run.started, digest, run.path)
    return f"{run.suite}: {', '.join(filter(None, words))}"


def level(report: EvalReport) -> str:
    """Return the level of the intervals in percent."""
    return f"{100 * report.level:g} %"
