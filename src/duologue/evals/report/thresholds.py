"""Thresholds of a run: `pass@1=0.8` fails a build if an agent is below it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from duologue.evals.report.run_summary import AgentSummary, RunSummary
from duologue.evals.statistics.case_trials import parse_metric

COMPLETE = "complete"
"""Name of the share of trials that count, which is a threshold and no metric of a case."""


class Threshold(Struct, frozen=True):
    """The least value of a metric.

    Attributes:
        metric: `score`, `pass@K` or `pass^K`; or `complete`, the share of trials that are not missing.
        least: The least value, from 0 to 1.
    """

    metric: str
    least: float

    def __str__(self) -> str:
        return f"{self.metric}={self.least:g}"


def parse_threshold(text: str) -> Threshold:
    """Return a threshold written as `METRIC=VALUE`, such as `pass@1=0.8`, `pass^3=50%` or `complete=1`.

    Raises:
        ValueError: It is written otherwise, the metric is unknown, or the value is not between 0 and 1.
    """
    metric, equals, value = (part.strip() for part in text.partition("="))
    try:
        least = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
    except ValueError:
        least = math.nan
    if not equals or not 0 <= least <= 1:
        raise ValueError(f"{text!r} is no threshold: expected METRIC=VALUE with a value from 0 to 1, as pass@1=0.8")
    return Threshold(metric if metric == COMPLETE else parse_metric(metric).name, least)


def unmet_thresholds(run: RunSummary, thresholds: Iterable[Threshold]) -> list[str]:
    """Return a sentence for each threshold that an agent does not reach; an empty list if all are met.

    Cases in quarantine do not count. An agent without a value reaches no threshold: a run in which everything is
    missing has shown nothing.

    Args:
        run: The run.
        thresholds: What each agent has to reach.
    """
    wanted = list(thresholds)
    return [sentence for agent in run.agents for each in wanted if (sentence := _unmet(agent, each))]


def _unmet(agent: AgentSummary, threshold: Threshold) -> str:
    cases = agent.to_statistics()
    missing = sum(case.missing for case in cases)
    counted = sum(len(case.passed) for case in cases)
    if threshold.metric == COMPLETE:
        values, of = [1.0] * counted + [0.0] * missing, f"{counted} of {counted + missing} trials count"
    else:
        metric = parse_metric(threshold.metric)
        values = [value for case in cases if (value := metric.value(case)) is not None]
        of = f"{len(values)} of {len(cases)} cases have a value"
    mean = math.fsum(values) / len(values) if values else None
    # 0.8 of thirty cases is 24 of them: rounding must not decide.
    if mean is not None and mean >= threshold.least - 1e-9:
        return ""
    shown = "has no value" if mean is None else f"is {mean:.3f}"
    lost = f", {missing} trials are missing" if missing and threshold.metric != COMPLETE else ""
    return f"{agent.label}: {threshold.metric} {shown}; at least {threshold.least:g} is required ({of}{lost})"
