"""The fault table: every case of the catalogue with its result in the last run."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

Outcome = Literal["passed", "failed", "skipped"]

CATALOGUE = Path(__file__).with_name("catalogue.toml")

SIDES = {
    "A": "agent",
    "B": "both",
    "C": "client",
    "G": "gateway",
    "R": "recorder",
    "S": "store",
    "T": "trial runner",
}


@dataclass(frozen=True)
class Case:
    """One fault: the side that it concerns, and the part of the project that must handle it."""

    id: str
    group: str
    side: str
    title: str
    due: str


@dataclass
class Result:
    """The results of the tests of one case."""

    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    reasons: dict[str, None] = field(default_factory=dict[str, None])
    counts: dict[str, None] = field(default_factory=dict[str, None])

    def status(self, due: str) -> str:
        """Summarize the results: the worst counts, and a skipped test never makes a case pass."""
        outcomes = set(self.outcomes.values())
        if not outcomes:
            return f"due: {due}"
        if "failed" in outcomes:
            return "**failed**"
        if "passed" in outcomes:
            return "passed" if "skipped" not in outcomes else f"passed, in part skipped ({', '.join(self.reasons)})"
        return f"skipped ({', '.join(self.reasons)})"


def read_catalogue(path: Path = CATALOGUE) -> list[Case]:
    """Read all cases, in the order of the file."""
    cases: list[Case] = []
    for prefix, group in tomllib.loads(path.read_text("utf-8")).items():
        for number, (side, title, *due) in group["cases"].items():
            cases.append(Case(f"{prefix}-{number}", group["title"], side, title, due[0] if due else group["due"]))
    return cases


def fault_ids(item: pytest.Item) -> list[str]:
    """Return the cases that a test claims to show."""
    return [str(id) for mark in item.iter_markers("fault") for id in mark.args]


def carry_fault_ids(items: Iterable[pytest.Item]) -> None:
    """Put the ids into each test's report, where they also reach us from the worker processes of a parallel run."""
    for item in items:
        item.user_properties.extend(("fault", id) for id in fault_ids(item))


class FaultTable:
    """A pytest plugin that gathers results by fault id and writes them as one page when the run ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._results = {case.id: Result() for case in read_catalogue()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties: list[tuple[str, Any]] = report.user_properties
        for result in [self._results[id] for name, id in properties if name == "fault" and id in self._results]:
            if report.when == "call" or report.outcome != "passed":
                self._note(result, report)
            if report.when == "teardown":
                result.counts.update((str(count), None) for name, count in properties if name == "count")

    def _note(self, result: Result, report: pytest.TestReport) -> None:
        if result.outcomes.get(report.nodeid) != "failed":
            result.outcomes[report.nodeid] = report.outcome
        if report.outcome == "skipped":
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            result.reasons[reason.removeprefix("Skipped: ")] = None

    def pytest_sessionfinish(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(render(read_catalogue(), self._results), "utf-8")


def render(cases: Iterable[Case], results: dict[str, Result]) -> str:
    """Return the page as Markdown."""
    cases = list(cases)
    statuses = {case.id: results[case.id].status(case.due) for case in cases}
    totals = {word: sum(status.strip("*").startswith(word) for status in statuses.values()) for word in _WORDS}
    lines = [_HEADER, ", ".join(f"{n} {word}" for word, n in totals.items()) + f", of {len(cases)}."]
    group = ""
    for case in cases:
        if case.group != group:
            group = case.group
            lines += [
                "",
                f"## {group}",
                "",
                "| id | side | case | status | tests | count |",
                "|---|---|---|---|---|---|",
            ]
        result = results[case.id]
        cells = (
            case.id,
            SIDES[case.side],
            case.title,
            statuses[case.id],
            len(result.outcomes) or "",
            " ".join(result.counts),
        )
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


_WORDS = ("passed", "failed", "skipped", "due")

_HEADER = """\
# Faults

Every fault and every kind of bad input that duologue answers for, and what the last recorded run of the tests says
about it. `make faults` writes the page; do not edit it. A test claims a case with `@pytest.mark.fault("FRM-01")`.
*Due* names the part of duologue that will answer for a case that no test shows yet. *Count* is how often the suite ran
the case where it repeats itself; `make chaos` multiplies that.
"""
