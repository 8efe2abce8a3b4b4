"""The header of an Inspect log: what was run, and the figures over all its samples."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from duologue.evals.report.exports.inspect_sample import PASSED, SCORE, model_name, usage_of
from duologue.evals.report.exports.run_records import AgentRecords, iso_time
from duologue.evals.report.run_summary import CaseSummary
from duologue.evals.statistics.passes import pass_at_k, pass_hat_k

LOG_VERSION = 2
"""Version of the format of Inspect's logs."""

EPOCH = "1970-01-01T00:00:00.000+00:00"
"""Time of a run whose time is not known."""

Reducer = Callable[[CaseSummary], float | None]


def log_header(records: AgentRecords) -> dict[str, Any]:
    """Return everything of a log but its samples, in the order of the format."""
    trials = list(records.agent.trials())
    run = records.run.manifest
    ended = max(filter(None, (iso_time(trial.ended) for trial in trials)), default="")
    is_complete = all(trial.outcome is not None or trial.missing == "record_damaged" for trial in trials)
    return {
        "version": LOG_VERSION,
        "status": "success" if is_complete else "cancelled",
        "eval": _spec(records),
        "plan": {"name": "plan", "steps": [{"solver": "acp_agent", "params": {"agent": records.agent.label}}]},
        "results": _results(records),
        "stats": {"started_at": iso_time(run.started) or "", "completed_at": ended, "model_usage": _usage(records)},
    }


def reductions_of(records: AgentRecords) -> list[dict[str, Any]]:
    """Return the figures of each case, over its trials."""
    found: list[dict[str, Any]] = []
    for score, reducer, value_of in _reducers(records):
        values = [(case.case, value_of(case)) for case in records.agent.cases]
        samples = [{"value": value, "sample_id": name} for name, value in values if value is not None]
        found.append({"scorer": score, "reducer": reducer, "samples": samples})
    return found


def _spec(records: AgentRecords) -> dict[str, Any]:
    run, agent = records.run.manifest, records.agent
    return {
        "eval_id": _id(f"{run.id}/{agent.label}"),
        "run_id": _id(run.id),
        "created": iso_time(run.started) or EPOCH,
        "task": run.suite,
        "task_id": _id(f"{run.suite_digest}/{agent.label}"),
        "task_version": run.suite_digest[:12],
        "task_args": {},
        "solver": "acp_agent",
        "solver_args": {"agent": agent.label},
        "dataset": {"name": run.suite, "samples": len(run.cases), "sample_ids": run.cases, "shuffled": False},
        "model": model_name(agent.label),
        "config": {"epochs": run.trials, "epochs_reducer": [reducer for _, reducer, _ in _reducers(records)]},
        "packages": {"duologue": run.machine.duologue},
        "scorers": [{"name": PASSED}, {"name": SCORE}],
        "metadata": {
            "run": run.id,
            "suite_digest": run.suite_digest,
            "seed": run.seed,
            "agent": msgspec.to_builtins(agent.identity),
            "machine": msgspec.to_builtins(run.machine),
            "options": run.options,
        },
    }


def _results(records: AgentRecords) -> dict[str, Any]:
    trials = list(records.agent.trials())
    counted = sum(trial.missing is None for trial in trials)
    scores: list[dict[str, Any]] = []
    for score, reducer, value_of in _reducers(records):
        # Cases in quarantine are among the samples and not among the figures, as in our reports.
        known = [value for case in records.agent.cases if not case.quarantine if (value := value_of(case)) is not None]
        if not known:
            continue
        name = "accuracy" if score == PASSED else "mean"
        scores.append(
            {
                "name": score,
                "scorer": score,
                "reducer": reducer,
                "scored_samples": counted,
                "unscored_samples": len(trials) - counted,
                "params": {},
                "metrics": {name: {"name": name, "value": sum(known) / len(known), "params": {}}},
            }
        )
    missing = Counter(str(trial.missing) for trial in trials if trial.missing is not None)
    quarantined = [case.case for case in records.agent.cases if case.quarantine]
    return {
        "total_samples": len(trials),
        "completed_samples": counted,
        "scores": scores,
        "metadata": {"missing": dict(missing), "quarantine": quarantined},
    }


def _reducers(records: AgentRecords) -> list[tuple[str, str, Reducer]]:
    """Return the figures of a log: name of the score, of its reducer, and the value for a case."""
    trials = records.run.manifest.trials
    found: list[tuple[str, str, Reducer]] = [(PASSED, "mean", lambda case: _pass_at(case, 1))]
    if trials > 1:
        found.append((PASSED, f"pass_at_{trials}", lambda case: _pass_at(case, trials)))
        found.append((PASSED, f"pass_k_{trials}", lambda case: _pass_hat(case, trials)))
    return [*found, (SCORE, "mean", lambda case: case.score)]


def _pass_at(case: CaseSummary, k: int) -> float | None:
    return pass_at_k(len(case.counted), case.passed, k)


def _pass_hat(case: CaseSummary, k: int) -> float | None:
    return pass_hat_k(len(case.counted), case.passed, k)


def _usage(records: AgentRecords) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for trial in records.agent.trials():
        for name, value in usage_of(trial.metrics.usage).items():
            total[name] += value
    return {model_name(records.agent.label): dict(total)} if total else {}


def _id(text: str) -> str:
    """Return an id of the form that Inspect gives: 22 letters and digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:22]
