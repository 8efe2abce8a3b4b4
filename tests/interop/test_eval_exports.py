"""Other programs accept what `duologue eval export` writes: Inspect, Harbor and the harness of SWE-bench."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.report.exports.atif import write_atif
from duologue.evals.report.exports.inspect_log import write_inspect_logs
from duologue.evals.report.exports.swebench import to_swebench
from duologue.evals.report.run_summary import RunSummary, read_run
from tests.evals.hostile_texts import HOSTILE, HUGE
from tests.evals.run_builder import build_run
from tests.evals.test_harbor_tasks import EXAMPLES, case_of, grader_of, harbor_task, steps_task
from tests.evals.test_thirty_tasks import run as run_tasks
from tests.evals.test_thirty_tasks import scripted_agent, tasks
from tests.interop.peers import Absent, harbor_python, inspect_python, swebench_python

pytestmark = [pytest.mark.interop, pytest.mark.timeout(290)]

LETTERS = {"one": {"a": "PFPC", "b": "PV-F", "c": "PPPP"}, "two": {"a": "PPPP", "b": "FFFF", "c": "NDPF"}}

READ = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
from inspect_ai.scorer import mean_score, pass_at, pass_k
def reducer(name):
    kind, _, k = name.rpartition("_")
    return {"": lambda _: mean_score(), "pass_at": pass_at, "pass_k": pass_k}[kind](int(k) if kind else 0)
def recomputed(log, score):
    values = []
    quarantined = log.results.metadata["quarantine"]
    for id in dict.fromkeys(sample.id for sample in log.samples if sample.id not in quarantined):
        scores = [each.scores[score.name] for each in log.samples if each.id == id and score.name in each.scores]
        reduced = reducer(score.reducer)(scores).as_float() if scores else float("nan")
        values += [reduced] if reduced == reduced else []
    return sum(values) / len(values)
found = []
for path in sys.argv[1:]:
    log, header = read_eval_log(path), read_eval_log(path, header_only=True)
    summaries = read_eval_log_sample_summaries(path)
    found.append({
        "version": log.version, "status": [log.status, header.status], "model": log.eval.model,
        "samples": [[each.id, each.epoch, each.error is not None, len(each.messages), len(each.events)]
                    for each in log.samples],
        "summaries": sorted([each.id, each.epoch, each.error is not None, each.message_count] for each in summaries),
        "completions": [each.output.completion for each in log.samples],
        "usage": [usage.total_tokens for usage in log.stats.model_usage.values()],
        "scores": [[each.name, each.reducer, next(iter(each.metrics.values())).value, recomputed(log, each)]
                   for each in log.results.scores],
        "reductions": len(log.reductions),
    })
print(json.dumps(found))
"""

VALIDATE = """
import json, sys
from harbor.models.trajectories import Trajectory
from harbor.utils.trajectory_validator import TrajectoryValidator
found = []
for path in sys.argv[1:]:
    validator = TrajectoryValidator()
    is_valid = validator.validate(path)
    steps = len(Trajectory.model_validate_json(open(path).read()).steps) if is_valid else 0
    found.append([is_valid, validator.errors, steps])
print(json.dumps(found))
"""


TASKS = """
import json, sys
from pathlib import Path
from harbor.models.task.config import TaskConfig
from harbor.models.task.paths import TaskPaths
found = []
for path in sys.argv[1:]:
    task, paths = TaskConfig.model_validate_toml(Path(path, "task.toml").read_text()), TaskPaths(path)
    steps = [step.name for step in task.steps or []]
    instructions = [paths.step_instruction_path(name) for name in steps] or [paths.instruction_path]
    found.append([
        [each.read_text() for each in instructions],
        [(step.agent.timeout_sec or task.agent.timeout_sec) for step in task.steps or []] or [task.agent.timeout_sec],
        (task.steps[-1] if steps else task).verifier.env,
        str(paths.discovered_test_path.relative_to(paths.task_dir)),
        str(paths.discovered_solve_path.relative_to(paths.task_dir)),
    ])
print(json.dumps(found))
"""

PREDICTIONS = """
import json, sys
from pathlib import Path
from swebench.harness.reporting import make_run_report
from swebench.harness.run_evaluation import get_dataset_from_preds
from swebench.harness.utils import get_predictions_from_file, load_swebench_dataset
from swebench.utils import get_modified_files
path, dataset = sys.argv[1:]
predictions = {each["instance_id"]: each for each in get_predictions_from_file(path, dataset, "test")}
due = get_dataset_from_preds(dataset, "test", [], predictions, "today", False)
report = json.loads(Path(make_run_report(predictions, load_swebench_dataset(dataset), "today")).read_text())
print(json.dumps({
    "due": [each["instance_id"] for each in due],
    "models": sorted({each["model_name_or_path"] for each in predictions.values()}),
    "patches": {id: each["model_patch"] for id, each in predictions.items()},
    "files": {id: get_modified_files(each["model_patch"]) for id, each in predictions.items()},
    "submitted": report["submitted_ids"], "incomplete": report["incomplete_ids"], "empty": report["empty_patch_ids"],
}))
"""


def inspect() -> Path:
    """Return the interpreter of Inspect, or skip the test."""
    try:
        return Path(inspect_python())
    except Absent as reason:
        pytest.skip(f"Inspect cannot be had here: {reason}")


def output_of(command: Sequence[str | Path], folder: Path) -> str:
    """Run a program of theirs in a time zone and a locale that are not ours; return what it prints."""
    env = {**os.environ, "HOME": str(folder), "TZ": "Asia/Kolkata", "LC_ALL": "C.UTF-8", "HARBOR_TELEMETRY": "0"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def built(folder: Path, text: str) -> RunSummary:
    """Return a run with trials of every kind."""
    fields: dict[str, dict[str, Any]] = {
        "b": {"quarantine": "known"},
        "c": {"prompts": [text, "and then?"], "metadata": {"text": text}},
    }
    return read_run(build_run(folder, LETTERS, text=text, fields=fields, costs={"one": 0.5}))


@pytest.mark.parametrize("text", ["hello", HOSTILE, HUGE], ids=["plain", "hostile", "huge"])
def test_inspect_reads_both_formats_and_computes_the_same_figures(tmp_path: Path, text: str) -> None:
    python, run = inspect(), built(tmp_path / "run", text)
    paths = write_inspect_logs([run], tmp_path / "logs")
    paths += write_inspect_logs([run], tmp_path / "logs", log_format="json")
    logs: list[dict[str, Any]] = json.loads(output_of([python, "-W", "ignore", "-c", READ, *paths], tmp_path))

    assert logs[:2] == logs[2:]
    one, two = logs[:2]
    assert (one["version"], one["model"], two["model"]) == (2, "acp/one", "acp/two")
    assert (one["status"], two["status"]) == (["cancelled"] * 2, ["success"] * 2)
    for log, agent in zip((one, two), run.agents, strict=True):
        recorded = [trial for trial in agent.trials() if trial.outcome is not None]
        expected = sorted((trial.trial, trial.case, trial.missing is not None) for trial in recorded)
        assert sorted((epoch, case, missing) for case, epoch, missing, _, _ in log["samples"]) == expected
        assert log["summaries"] == sorted(sample[:4] for sample in log["samples"])
        assert log["reductions"] == 4
        for name, reducer, ours, theirs in log["scores"]:
            assert ours == pytest.approx(theirs, abs=1e-12), (name, reducer)
    assert {f"right {text}", f"wrong {text}"} == set(one["completions"])
    assert one["usage"] == [11_000]


async def test_inspect_shows_and_bundles_the_logs_of_a_real_run(tmp_path: Path) -> None:
    python = inspect()
    suite = tasks("project")
    run = read_run(await run_tasks(tmp_path / "run", {"some": scripted_agent(2), "all": scripted_agent()}, suite))
    paths = write_inspect_logs([run], tmp_path / "logs")
    write_inspect_logs([run], tmp_path / "logs", log_format="json")
    command = python.with_name("inspect")
    header = json.loads(output_of([command, "log", "dump", "--header-only", paths[0]], tmp_path))
    whole = json.loads(output_of([command, "log", "dump", paths[0]], tmp_path))
    output_of([command, "view", "bundle", "--log-dir", "logs", "--output-dir", "bundle"], tmp_path)
    listing = json.loads((tmp_path / "bundle" / "logs" / "listing.json").read_bytes())

    assert header["results"]["total_samples"] == len(suite.cases)
    assert len(whole["samples"]) == len(suite.cases)
    assert {"tool", "approval", "info", "score"} <= {
        event["event"] for sample in whole["samples"] for event in sample["events"]
    }
    shown = [(entry["task"], entry["model"], entry["primary_metric"]["value"]) for entry in listing.values()]
    passed = [(f"acp/{agent.label}", sum(case.passed for case in agent.cases)) for agent in run.agents]
    assert sorted(shown) == sorted((suite.name, model, count / len(suite.cases)) for model, count in passed * 2)
    assert len({value for _, _, value in shown}) == 2


def harbor() -> str:
    """Return the interpreter of Harbor, or skip the test."""
    try:
        return harbor_python()
    except Absent as reason:
        pytest.skip(f"Harbor cannot be had here: {reason}")


def test_harbor_reads_the_same_in_a_task_directory(tmp_path: Path) -> None:
    folders = [EXAMPLES / "count-words", harbor_task(tmp_path / "plain"), steps_task(tmp_path / "steps")]
    theirs = json.loads(output_of([harbor(), "-W", "ignore", "-c", TASKS, *folders], tmp_path))

    for folder, (instructions, timeouts, env, tests, solution) in zip(folders, theirs, strict=True):
        case = case_of(folder)
        grader, command = grader_of(case), case.solution_command
        assert [turn.text for turn in case.turns] == instructions
        assert (case.timeouts.turn, case.timeouts.trial) == (max(timeouts), sum(timeouts))
        assert grader.variables == env
        assert f"{grader.tests}/test.sh" == tests
        assert command is not None
        assert command.command[-1].replace("{solution}", command.files) == solution


@pytest.mark.parametrize("text", ["hello", HOSTILE, HUGE], ids=["plain", "hostile", "huge"])
def test_harbor_accepts_every_trajectory_and_notices_a_broken_one(tmp_path: Path, text: str) -> None:
    python = harbor()
    run = built(tmp_path / "run", text)
    paths = write_atif([run], tmp_path / "atif")
    broken = tmp_path / "broken.json"
    broken.write_bytes(paths[0].read_bytes().replace(b'"step_id": 2', b'"step_id": 7', 1))
    *valid, invalid = json.loads(output_of([python, "-c", VALIDATE, *paths, broken], tmp_path))

    assert len(valid) == sum(trial.outcome is not None for trial in run.trials()) == 22
    assert [errors for is_valid, errors, _ in valid if not is_valid] == []
    assert {steps for _, _, steps in valid} == {3}
    assert invalid[0] is False


def swebench() -> str:
    """Return the interpreter of SWE-bench, or skip the test."""
    try:
        return swebench_python()
    except Absent as reason:
        pytest.skip(f"SWE-bench cannot be had here: {reason}")


async def test_swebench_selects_the_predictions_of_a_real_run_and_reads_their_patches(tmp_path: Path) -> None:
    python, suite = swebench(), tasks("project")
    run = await run_tasks(tmp_path / "run", {"org/some": scripted_agent(2)}, suite)
    predictions = to_swebench([read_run(run)])
    (tmp_path / "predictions.jsonl").write_text(predictions.text, "utf-8")
    names = [*(case.id for case in suite.cases), "another__instance-1"]
    (tmp_path / "dataset.json").write_text(json.dumps([{"instance_id": name} for name in names]))
    command = [python, "-W", "ignore", "-c", PREDICTIONS, "predictions.jsonl", "dataset.json"]
    found = json.loads(output_of(command, tmp_path).splitlines()[-1])
    patches = {record.result().key.case: record.patch() for record in RunDirectory.open(run).records()}
    changed = {
        case: [line[6:] for line in patch.splitlines() if line.startswith("--- a/")] for case, patch in patches.items()
    }

    assert predictions.left_out == ()
    assert found["patches"] == patches
    assert found["files"] == changed
    assert found["models"] == ["org/some"]
    assert sorted(found["submitted"]) == sorted(patches)
    assert found["incomplete"] == ["another__instance-1"]
    # Those that the agent left as they were are not evaluated.
    assert sorted(found["empty"]) == sorted(case for case, patch in patches.items() if not patch)
    assert sorted(found["due"]) == sorted(case for case, patch in patches.items() if patch)
    assert 0 < len(found["due"]) < len(patches)
