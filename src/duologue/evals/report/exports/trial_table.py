"""Write the trials of runs as a table: CSV for spreadsheets, JSON lines for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from duologue.evals.report.run_summary import RunSummary, label_agents
from duologue.markup import csv_cell

TABLE_FORMAT = 1
"""Version of the rows; new columns at the end do not change it."""


def trial_rows(runs: Sequence[RunSummary]) -> Iterator[dict[str, Any]]:
    """Yield a row for each trial of each agent of each run."""
    for run, agent in label_agents(runs):
        for case in agent.cases:
            for trial in case.trials:
                metrics, usage = trial.metrics, trial.metrics.usage
                yield {
                    "format": TABLE_FORMAT,
                    "suite": run.manifest.suite,
                    "run": run.name,
                    "agent": agent.label,
                    "agent_version": agent.identity.version,
                    "case": case.case,
                    "trial": trial.trial,
                    "passed": trial.passed,
                    "score": trial.score,
                    "missing": trial.missing,
                    "outcome": trial.outcome,
                    "reason": trial.reason,
                    "seconds": metrics.seconds,
                    "tool_calls": sum(metrics.tool_calls.values()),
                    "failed_tool_calls": metrics.failed_tool_calls,
                    "permissions_denied": metrics.permissions_denied,
                    "tokens": usage.total,
                    "cost": usage.cost,
                    "currency": usage.currency,
                    "attempts": trial.attempts,
                    "tags": " ".join(case.tags),
                    "family": case.family,
                    "quarantine": case.quarantine,
                    "directory": trial.directory,
                    "first_update": metrics.first_update,
                    "tool_seconds": metrics.tool_seconds,
                    "permission_seconds": metrics.permission_seconds,
                    "repeated_tool_calls": metrics.repeated_tool_calls,
                    "context_peak": metrics.context_peak,
                    "compactions": metrics.compactions,
                    "tokens_provenance": usage.provenance,
                }


def to_csv(runs: Sequence[RunSummary]) -> str:
    """Return the trials as CSV (RFC 4180); no cell is a formula for a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out)
    for number, row in enumerate(trial_rows(runs)):
        if number == 0:
            writer.writerow(row)
        writer.writerow([csv_cell(value) for value in row.values()])
    return out.getvalue()


def to_json_lines(runs: Sequence[RunSummary]) -> str:
    """Return the trials as JSON lines."""
    return "".join(msgspec.json.encode(row).decode() + "\n" for row in trial_rows(runs))
