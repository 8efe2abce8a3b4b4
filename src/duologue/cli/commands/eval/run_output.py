"""The output of `duologue eval run`: the progress while trials run, and a table at the end."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from duologue.cli.commands.eval.run_view import RunView
from duologue.cli.commands.eval.tables import Cell, write_table
from duologue.cli.console.safe_output import SafeOutput, Style, safe
from duologue.evals.report.run_summary import AgentSummary, RunSummary, read_run
from duologue.evals.report.thresholds import Threshold, unmet_thresholds
from duologue.evals.run.progress import RunProgress, TrialEvent
from duologue.evals.run.suite_run import RunEnd
from duologue.evals.statistics.case_trials import parse_metric
from duologue.sanitize import escape_line

if TYPE_CHECKING:
    from duologue.evals.record.key import TrialKey

JSON_FORMAT = 1
"""Version of the lines of `--json`; a new field is no new version."""

STOPS = {
    "cost": "the budget is used up",
    "time": "the time limit is reached",
    "prompts": "the limit of prompts is reached",
    "engine": "the engine cannot go on",
    "unknown_cost": "an agent reported no cost, so that the budget cannot be kept",
}
VERDICTS = {"passed": Style.GREEN, "failed": Style.RED, "missing": Style.YELLOW, "ran": Style.PLAIN}


class RunOutput:
    """Writes the progress to stderr, and results to stdout."""

    def __init__(self, arguments: argparse.Namespace, directory: Path) -> None:
        self._is_json = bool(arguments.json)
        self._is_quiet = bool(arguments.quiet)
        self._directory = directory
        self._out = safe(sys.stdout, is_exact=True)
        self._errors = safe(sys.stderr)
        self._view = None if self._is_quiet else RunView.on(self._errors)

    # --- while it runs

    def observe(self, event: TrialEvent, progress: RunProgress) -> None:
        """Show an event."""
        if self._is_json and event.kind == "finished":
            self._out.write_json(_trial_line(event))
        if self._view is not None:
            self._view.update(progress)
        if self._is_quiet or event.kind == "started":
            return
        if event.kind == "retried":
            outcome = event.outcome
            why = "" if outcome is None else f"{outcome.kind}: {_first_line(outcome.detail)}"
            self._line(f"{_name(event.key)}: trying again ({why})", Style.YELLOW)
        elif event.kind == "given_up":
            self._line(f"{event.key.agent}: no further trials, {event.text}", Style.RED)
        elif self._view is None or event.verdict == "missing":
            self._finished(event, progress)

    def _finished(self, event: TrialEvent, progress: RunProgress) -> None:
        result = event.result
        seconds = result.metrics.seconds if result is not None else None
        took = "" if seconds is None else f" {seconds:.1f} s"
        why = ""
        if event.verdict == "missing" and event.outcome is not None:
            why = f" ({event.outcome.kind}: {_first_line(event.outcome.detail) or event.outcome.reason})"
        elif event.verdict == "failed" and event.grades is not None:
            reasons = [grade.reasoning for grade in event.grades.grades if grade.passed is False and grade.reasoning]
            why = f" ({_first_line(reasons[0])})" if reasons else ""
        counted = f"[{progress.done}/{progress.total}]"
        self._line(
            f"{counted} {_name(event.key)}: {event.verdict}{took}{why}", VERDICTS.get(event.verdict, Style.PLAIN)
        )

    def _line(self, text: str, style: Style) -> None:
        if self._view is not None:
            self._view.print(text, style)
        else:
            self._errors.write(f"{escape_line(text, None)}\n", style)
            self._errors.flush()

    def say_attached(self, url: str) -> None:
        """Say where the trials can be watched; even with `--quiet`, since the token is printed nowhere else."""
        self._line(f"attach an ACP client to watch trials: {url}", Style.PLAIN)

    def say_notice(self, text: str) -> None:
        """Show what is to be known of the engine."""
        if not self._is_quiet:
            self._line(text, Style.YELLOW)

    def say_cancelling(self) -> None:
        """Say that the trials that run are being cancelled."""
        self._line("cancelling the trials that run; press Ctrl-C again to end at once", Style.YELLOW)

    def close(self) -> None:
        """End the progress."""
        if self._view is not None:
            self._view.close()
            self._view = None

    # --- at the end

    def say_interrupted(self, resume: str, limits: Sequence[str]) -> None:
        """Say how to go on after Ctrl-C."""
        if (self._directory / "run.json").exists():
            self._errors.write(f"interrupted; the finished trials are kept. To go on:\n  {resume}\n")
            self._say_left_out(limits)

    def say_incomplete(self, end: RunEnd, resume: str, limits: Sequence[str]) -> None:
        """Say why trials are missing, and how to go on."""
        progress = end.progress
        left = progress.total - progress.done
        if progress.stop:
            why = f"{STOPS[progress.stop]}: {end.problem}" if end.problem else STOPS[progress.stop]
            self._errors.write(f"stopped: {escape_line(why, None)}\n", Style.YELLOW)
        for label, why in end.given_up.items():
            self._errors.write(f"{escape_line(label)} was not run further: {escape_line(why, None)}\n", Style.YELLOW)
        if left:
            self._errors.write(f"{left:,} of {progress.total:,} trials were not run. To go on:\n  {resume}\n")
        elif progress.missing:
            self._errors.write(
                f"{progress.missing:,} trials are missing, neither passed nor failed. To run them again:\n"
                f"  {resume} --retry-missing\n",
                Style.YELLOW,
            )
        self._say_left_out(limits)

    def _say_left_out(self, limits: Sequence[str]) -> None:
        if limits:
            self._errors.write(f"This command has no limits; add what shall hold: {', '.join(limits)}\n", Style.YELLOW)

    def write_end(self, end: RunEnd, thresholds: Sequence[Threshold]) -> list[str]:
        """Write what the run shows; return the thresholds that were not reached."""
        run = read_run(end.directory)
        unmet = unmet_thresholds(run, thresholds)
        if self._is_json:
            self._out.write_json(_run_line(end, run, unmet))
        else:
            write_summary(self._out, run)
            self._out.write(f"\n{escape_line(str(end.directory))}\n", Style.DIM)
            self._out.flush()
        for line in unmet:
            self._errors.write(f"below the threshold: {escape_line(line, None)}\n", Style.RED)
        if not self._is_quiet and not self._is_json:
            self._errors.write(f"agents were confined {escape_line(_confinement(end, run), None)}\n", Style.DIM)
            self._errors.write(f"duologue eval report {end.directory} shows intervals and every case\n", Style.DIM)
        return unmet


def _confinement(end: RunEnd, run: RunSummary) -> str:
    if end.sandbox != "bwrap":
        return f"not at all: {end.sandbox}"
    others = ", ".join(agent.label for agent in run.manifest.agents if not agent.command)
    return f"by bubblewrap, but not {others}: no process is started for it" if others else "by bubblewrap"


def write_summary(out: SafeOutput, run: RunSummary) -> None:
    """Write a table of the agents."""
    head = ("agent", "passed", "failed", "missing", "pass@1", "cost", "tokens", "time")
    rows = [[Cell(name, Style.DIM) for name in head], *(_row(agent) for agent in run.agents)]
    write_table(out, rows)


def _row(agent: AgentSummary) -> list[Cell]:
    trials = list(agent.trials())
    missing = sum(trial.missing not in (None, "no_graders") for trial in trials)
    usages = [trial.metrics.usage for trial in trials]
    costs = [(usage.cost, usage.currency or "") for usage in usages if usage.cost is not None]
    currencies = {currency for _, currency in costs}
    cost = f"{sum(cost for cost, _ in costs):g} {currencies.pop()}" if len(currencies) == 1 else "–"
    tokens = [usage.total or (usage.input or 0) + (usage.output or 0) for usage in usages]
    seconds = sum(trial.metrics.seconds or 0.0 for trial in trials)
    value = pass_rate(agent)
    passed = sum(trial.passed is True for trial in trials)
    failed = sum(trial.passed is False for trial in trials)
    return [
        Cell(escape_line(agent.label), Style.BOLD),
        Cell(str(passed), Style.GREEN if passed else Style.DIM, is_right=True),
        Cell(str(failed), Style.RED if failed else Style.DIM, is_right=True),
        Cell(str(missing) if missing else "–", Style.YELLOW if missing else Style.DIM, is_right=True),
        Cell("–" if value is None else f"{value:.3f}", Style.BOLD, is_right=True),
        Cell(escape_line(cost), is_right=True),
        Cell(f"{sum(tokens):,}" if any(tokens) else "–", is_right=True),
        Cell(duration(seconds), is_right=True),
    ]


def pass_rate(agent: AgentSummary) -> float | None:
    """Return pass@1 of an agent: the mean over its cases; None if no case has a trial that counts."""
    metric = parse_metric("pass@1")
    values = [value for case in agent.to_statistics() if (value := metric.value(case)) is not None]
    return sum(values) / len(values) if values else None


def duration(seconds: float) -> str:
    """Return a time for people."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _trial_line(event: TrialEvent) -> dict[str, object]:
    result, outcome = event.result, event.outcome
    assert result is not None
    assert outcome is not None
    return {
        "format": JSON_FORMAT,
        "type": "trial",
        "case": event.key.case,
        "trial": event.key.trial,
        "agent": event.key.agent,
        "verdict": event.verdict,
        "outcome": outcome,
        "score": None if event.grades is None else event.grades.score,
        "seconds": result.metrics.seconds,
        "usage": result.metrics.usage,
        "attempts": result.attempts,
    }


def _run_line(end: RunEnd, run: RunSummary, unmet: list[str]) -> dict[str, object]:
    progress = end.progress
    return {
        "format": JSON_FORMAT,
        "type": "run",
        "directory": str(end.directory),
        "suite": run.manifest.suite,
        "trials": progress.total,
        "done": progress.done,
        "stop": progress.stop or None,
        "given_up": dict(end.given_up),
        "sandbox": end.sandbox,
        "cost": progress.cost if progress.has_cost else None,
        "currency": progress.currency,
        "seconds": round(time.monotonic() - progress.started, 3),
        "below": unmet,
        "agents": [
            {
                "agent": agent.label,
                "name": agent.identity.name,
                "version": agent.identity.version,
                "passed": sum(trial.passed is True for trial in agent.trials()),
                "failed": sum(trial.passed is False for trial in agent.trials()),
                "missing": sum(trial.missing not in (None, "no_graders") for trial in agent.trials()),
                "pass@1": pass_rate(agent),
            }
            for agent in run.agents
        ],
    }


def _name(key: TrialKey) -> str:
    return f"{key.agent} {key.case} {key.trial}"


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 120 else f"{line[:119]}…"
