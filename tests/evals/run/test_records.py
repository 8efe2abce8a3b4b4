"""A trial of a real agent leaves a complete record, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.progress import RunProgress, TrialEvent
from duologue.evals.run.suite_run import run_suite
from tests.evals.run.suites import GREET, WRITE, run_cases


async def test_each_trial_of_each_case_has_a_graded_record(tmp_path: Path) -> None:
    end, run = await run_cases(tmp_path, GREET, WRITE, trials=2)

    assert (end.progress.total, end.progress.done, end.progress.passed) == (4, 4, 4)
    assert end.is_complete
    for record in run.records():
        grades = record.grades()
        assert grades is not None
        assert grades.passed is True
        assert record.result().outcome.kind == "completed"
        assert record.result().stop_reasons == ["end_turn"]


async def test_the_record_says_what_was_run_and_what_it_changed(tmp_path: Path) -> None:
    _, run = await run_cases(tmp_path, WRITE, seed=7)

    record = next(iter(run.records()))
    manifest, result = record.manifest(), record.result()
    assert (manifest.agent.name, manifest.agent.protocol_version) == ("duologue", 1)
    assert manifest.agent.command[-2:] == ["duologue", "agent"]
    assert manifest.agent.program_sha256 is not None
    assert manifest.settings.reported["model"] == "echo-1"
    assert (manifest.workspace.isolation, manifest.workspace.sandbox) == ("empty", "none")
    assert not manifest.workspace.is_watched
    assert manifest.machine.python
    assert manifest.seed != 0
    assert "+one line" in record.patch()
    assert (record.workspace_directory / "notes.txt").read_text() == "one line\n"
    assert result.metrics.tool_calls == {"edit": 1}
    assert result.metrics.permissions_asked == 1
    assert result.metrics.seconds is not None
    assert result.metrics.first_update is not None
    assert result.metrics.usage.provenance == "not_reported"
    assert any(name.startswith("HOME/.local/share/duologue/") for name in result.writes)
    assert next(iter(record.trajectory())).type == "prompt"
    assert not (record.directory / "scratch").exists()


async def test_the_usage_that_the_agent_reports_is_recorded_with_its_provenance(tmp_path: Path) -> None:
    case = '[[cases]]\nid = "use"\nprompts = ["/usage", "/usage"]\n'
    end, run = await run_cases(tmp_path, case)

    metrics = next(iter(run.records())).result().metrics
    assert (metrics.usage.cost, metrics.usage.currency) == (0.09, "USD")
    assert metrics.usage.provenance != "not_reported"
    assert metrics.context_peak == 53_000
    assert metrics.prompts == 2
    assert end.progress.cost == 0.09


async def test_the_suite_of_the_tutorial_passes_with_the_built_in_agent(tmp_path: Path) -> None:
    suite = Path(__file__).parents[3] / "examples" / "first_suite" / "suite.toml"
    end = await run_suite(suite, ["builtin"], tmp_path / "run", trials=1, options=TrialOptions(sandbox="none"))

    assert (end.progress.passed, end.progress.total) == (2, 2)


async def test_nothing_is_left_of_a_trial(tmp_path: Path, leftovers: Callable[[], list[str]]) -> None:
    _, run = await run_cases(tmp_path, WRITE)

    assert leftovers() == []
    assert list((run.path / "attempts").iterdir()) == []


async def test_a_run_that_is_continued_runs_only_what_has_no_record(tmp_path: Path) -> None:
    _, run = await run_cases(tmp_path, GREET, trials=3)
    first = {record.directory: record.result().ended for record in run.records()}
    gone = sorted(first)[1]
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()

    end, again = await run_cases(tmp_path, GREET)

    assert (end.progress.total, end.progress.done, end.progress.finished) == (3, 3, 1)
    now = {record.directory: record.result().ended for record in again.records()}
    assert {path for path in now if now[path] != first[path]} == {gone}


async def test_two_agents_take_turns(tmp_path: Path) -> None:
    agents = {"one": "builtin", "two": "builtin"}
    started: list[str] = []

    def observe(event: TrialEvent, progress: RunProgress) -> None:
        if event.kind == "started":
            started.append(event.key.agent)

    _, run = await run_cases(tmp_path, GREET, agents=agents, trials=2, observer=observe)

    assert started == ["one", "two", "one", "two"]
    assert [agent.label for agent in RunDirectory.open(run.path).manifest.agents] == ["one", "two"]
