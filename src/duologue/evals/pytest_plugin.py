"""The pytest plugin for evaluations: suites as test files, `@pytest.mark.trials`, and the fixture `trial`.

pytest loads it by its entry point; import nothing of it yourself. Every test run in an environment with duologue loads
this module, so it imports the rest when a suite is collected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from duologue.evals.report.trial_summary import TrialSummary
    from duologue.evals.run.targets import EvalAgent
    from duologue.evals.suite.case import Case
    from duologue.evals.suite.suite import Suite

MARKER = "trials"
NUMBER = pytest.StashKey[int]()
SUITE_NAMES = ("suite.toml", "*.suite.toml", "*.suite.jsonl")
"""Names of the files that are collected, if an agent is given."""


class TrialsFailed(Exception):
    """A case of a suite failed; the message says which trials, and why."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("evals", "evaluation of agents")
    group.addoption(
        "--eval-agent",
        action="append",
        default=[],
        metavar="AGENT",
        help=f"collect suites ({', '.join(SUITE_NAMES)}) and run them with this agent: builtin, a name, a command, a "
        "URL or replay:FILE; may be given again",
    )
    group.addoption("--eval-trials", type=int, metavar="N", help="trials of each case (default: the suite's)")
    group.addoption("--eval-jobs", type=int, default=1, metavar="N", help="trials of a case at the same time")
    group.addoption("--eval-runs", metavar="DIR", help="keep the run directories here")


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(n, at_least=n): run the test n times, each with fixtures of its own; it passes if so many do",
    )


# --- repeated tests


@pytest.fixture
def trial(request: pytest.FixtureRequest) -> int:
    """Return the number of the trial of a test with `@pytest.mark.trials`, from 1."""
    number: int = request.node.stash.get(NUMBER, 1)
    return number


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test with the marker several times, and report it once."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return None
    number, least = _numbers(marker)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    runs: list[list[pytest.TestReport]] = []
    for position in range(1, number + 1):
        item.stash[NUMBER] = position
        # Between trials only the fixtures of the test itself are torn down.
        following: Any = nextitem if position == number else item.parent
        runs.append(runtestprotocol(item, nextitem=following, log=False))
    for report in _combined(runs, number, least):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _numbers(marker: pytest.Mark) -> tuple[int, int]:
    number = marker.args[0] if marker.args else marker.kwargs.get("n")
    least = marker.kwargs.get("at_least", number)
    if not isinstance(number, int) or not isinstance(least, int) or not 1 <= least <= number:
        raise pytest.UsageError(f"@pytest.mark.{MARKER} needs a number of trials, and `at_least` of them: trials(5)")
    return number, least


def _combined(runs: list[list[pytest.TestReport]], number: int, least: int) -> list[pytest.TestReport]:
    """Return the reports of one trial for all of them: of one that failed, if too many did."""
    passed = [reports for reports in runs if all(report.passed for report in reports)]
    failed = [reports for reports in runs if any(report.failed for report in reports)]
    is_passed = len(passed) >= least
    chosen = passed[-1] if is_passed else failed[0] if failed else runs[-1]
    text = f"{len(passed)} of {len(runs)} trials passed; {least} of {number} are required"
    for report in chosen:
        if report.when == "call":
            report.sections.append(("trials", text))
            report.user_properties.append(("trials", f"{len(passed)}/{len(runs)}"))
            report.duration = sum(each.duration for reports in runs for each in reports if each.when == "call")
    return chosen


# --- suites


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect suites, if an agent is given."""
    if not _agents(parent.config) or not any(file_path.match(name) for name in SUITE_NAMES):
        return None
    from_parent: Any = getattr(SuiteFileCollector, "from_parent")  # noqa: B009  # pytest does not say what it takes
    collector: pytest.Collector = from_parent(parent, path=file_path)
    return collector


class SuiteFileCollector(pytest.File):
    """A suite: one test for each case and agent."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the tests."""
        from duologue.evals.exceptions import EvalError, SuiteError
        from duologue.evals.run.targets import eval_agents
        from duologue.evals.suite.loader import load_suite

        from_parent: Any = getattr(CaseItem, "from_parent")  # noqa: B009  # pytest does not say what it takes
        try:
            suite = load_suite(self.path)
            agents = eval_agents(_agents(self.config))
        except SuiteError as error:
            raise self.CollectError("\n".join(error.problems)) from None
        except EvalError as error:
            raise self.CollectError(str(error)) from None
        for case in suite.cases:
            for agent in agents:
                name = f"{case.id}[{agent.label}]"
                item: CaseItem = from_parent(self, name=name, suite=suite, case=case, agent=agent)
                if case.quarantine:
                    # A quarantined case is shown and decides nothing, whether it passes or fails: that is its purpose.
                    item.add_marker(pytest.mark.xfail(reason=case.quarantine, strict=False))
                for tag in case.tags:
                    item.keywords[tag] = True
                yield item


class CaseItem(pytest.Item):
    """One case with one agent: it passes if all its trials do."""

    def __init__(self, *, suite: Suite, case: Case, agent: EvalAgent, **more: Any) -> None:
        super().__init__(**more)  # pyright: ignore[reportUnknownMemberType]
        self._suite = suite
        self._case = case
        self._agent = agent

    def runtest(self) -> None:
        """Run the trials.

        Raises:
            TrialsFailed: A trial failed, or is missing.
        """
        from duologue.evals.report.run_summary import read_run
        from duologue.evals.run.options import TrialOptions
        from duologue.evals.run.suite_run import run_suite

        directory = self._directory()
        asyncio.run(
            run_suite(
                self._suite,
                [self._agent],
                directory,
                trials=self.config.getoption("--eval-trials"),
                cases=[self._case.id],
                options=TrialOptions(jobs=self.config.getoption("--eval-jobs") or 1),
            )
        )
        trials = list(read_run(directory).trials())
        passed = sum(trial.passed is True for trial in trials)
        self.user_properties.append(("trials", f"{passed}/{len(trials)}"))
        bad = [trial for trial in trials if trial.passed is not True and trial.missing != "no_graders"]
        if bad:
            lines = [_described(trial) for trial in bad]
            text = f"{passed} of {len(trials)} trials passed\n" + "\n".join(lines) + f"\nrecords: {directory}"
            raise TrialsFailed(text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return what failed, without a traceback of this library."""
        from duologue.errors import DuologueError

        if isinstance(excinfo.value, TrialsFailed | DuologueError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where the case is."""
        return self.path, None, self.name

    def _directory(self) -> Path:
        from duologue.evals.record.key import directory_name

        name = directory_name(f"{self._suite.name}-{self.name}")
        runs: str | None = self.config.getoption("--eval-runs")
        if runs is not None:
            return Path(runs) / name
        factory: pytest.TempPathFactory = getattr(self.config, "_tmp_path_factory")  # noqa: B009  # it has no public name
        return factory.mktemp(name) / "run"


def _agents(config: pytest.Config) -> list[str]:
    agents: list[str] | None = config.getoption("--eval-agent")
    return agents or []


def _described(trial: TrialSummary) -> str:
    if trial.missing is not None:
        return f"trial {trial.trial} is missing: {trial.missing}: {trial.detail or trial.reason}"
    reasons = [f"{grade.name}: {grade.reasoning}" for grade in trial.grades if grade.passed is False]
    return f"trial {trial.trial} failed: {'; '.join(reasons)}"
