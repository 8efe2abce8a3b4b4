"""Runs as logs of Inspect, as ATIF and as predictions of SWE-bench: complete, private, and the same each time.

That these programs accept them is tested in tests/interop.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from duologue.evals.exceptions import RecordError
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trajectory import StepKind, TrajectoryStep
from duologue.evals.report.exports.atif import write_atif
from duologue.evals.report.exports.conversation_steps import MOST_LEVELS, arguments, group_steps
from duologue.evals.report.exports.inspect_log import write_inspect_logs
from duologue.evals.report.exports.swebench import to_swebench
from duologue.evals.report.harness_results import read_harness_run
from duologue.evals.report.run_summary import RunSummary, read_run
from tests.evals.hostile_texts import HOSTILE, HUGE
from tests.evals.run_builder import build_run

LETTERS = {"one": {"a": "PFC", "b": "PV-"}, "two": {"a": "PPP", "b": "FFF"}}


def run_of(folder: Path, text: str = "hello") -> RunSummary:
    """Return a run with passed, failed, missing and quarantined trials."""
    fields = {"b": {"quarantine": "known bug", "tags": ["slow"], "reference": text}}
    return read_run(build_run(folder, LETTERS, text=text, fields=fields, costs={"one": 0.5}))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    """Return a run that no test changes."""
    return run_of(tmp_path_factory.mktemp("run"))


def log_of(path: Path) -> dict[str, Any]:
    """Return a JSON log."""
    log: dict[str, Any] = json.loads(path.read_bytes())
    return log


def step(type: StepKind, number: int, **members: Any) -> TrajectoryStep:
    """Return a step whose time is its number."""
    return TrajectoryStep(type=type, number=number, t=float(number), **members)


def test_steps_are_grouped_by_who_made_them_and_tool_calls_end_a_group() -> None:
    groups = group_steps(
        [
            step("prompt", 1, text="fix it"),
            step("thought", 2, text="let me look"),
            step("message", 3, text="I look."),
            step("tool_call", 4, kind="read"),
            step("permission", 5, status="allowed"),
            step("tool_call", 6, kind="edit"),
            step("message", 7, text="Done."),
            step("message", 8, text="Anything else?"),
            step("stop", 9, status="end_turn"),
            step("prompt", 10, text="thanks"),
            step("stop", 11, status="refusal"),
            step("error", 12, name="agent", text="gone"),
            step("other", 13, name="exit", status="0"),
        ]
    )

    assert [(each.source, each.thought, each.text, each.stop_reason) for each in groups] == [
        ("user", "", "fix it", ""),
        ("agent", "let me look", "I look.", ""),
        ("agent", "", "Done.", ""),
        ("agent", "", "Anything else?", "end_turn"),
        ("user", "", "thanks", ""),
        ("agent", "", "", "refusal"),
        ("system", "", "agent: gone", ""),
    ]
    assert [call.kind for call in groups[1].tool_calls] == ["read", "edit"]
    assert [detail.type for detail in groups[1].details] == ["permission"]


def test_arguments_are_an_object_that_other_parsers_can_read() -> None:
    deep: Any = "bottom"
    for _ in range(MOST_LEVELS * 4):
        deep = [deep]
    text = json.dumps(arguments(step("tool_call", 1, input={"deep": deep}))["deep"])

    assert text.startswith("[" * (MOST_LEVELS - 1) + '"[')
    assert "bottom" in text
    assert arguments(step("tool_call", 1, input="ls")) == {"input": "ls"}
    assert arguments(step("tool_call", 1)) == {}


def test_there_is_one_log_of_inspect_for_each_agent(run: RunSummary, tmp_path: Path) -> None:
    paths = write_inspect_logs([run], tmp_path / "logs", log_format="json")

    assert [path.name for path in paths] == [
        "2026-11-18T00-00-00+00-00_small_one_id-run.json",
        "2026-11-18T00-00-00+00-00_small_two_id-run.json",
    ]
    one, two = (log_of(path) for path in paths)
    assert list(one)[:3] == ["version", "status", "eval"]
    assert list(one)[-2:] == ["samples", "reductions"]
    assert one["version"] == 2
    assert one["eval"]["model"] == "acp/one"
    # One of its trials was not run.
    assert (one["status"], two["status"]) == ("cancelled", "success")
    assert [(sample["id"], sample["epoch"]) for sample in one["samples"]] == [
        ("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)
    ]  # fmt: skip


def test_a_missing_trial_is_a_sample_with_an_error_and_no_result(run: RunSummary, tmp_path: Path) -> None:
    path = write_inspect_logs([run], tmp_path / "logs", log_format="json")[0]
    samples = {(sample["id"], sample["epoch"]): sample for sample in log_of(path)["samples"]}

    assert samples["a", 3]["error"]["message"] == "agent_crashed: ConnectionLost: hello"
    assert samples["b", 2]["error"]["message"].startswith("verifier_failed: grader: ")
    for missing in (samples["a", 3], samples["b", 2]):
        assert "passed" not in missing["scores"]
    assert samples["a", 1]["scores"]["passed"]["value"] == "C"
    assert samples["a", 2]["scores"]["passed"]["value"] == "I"
    assert "error" not in samples["a", 1]


def test_the_figures_of_a_log_are_those_of_the_report(run: RunSummary, tmp_path: Path) -> None:
    one, two = (log_of(path)["results"] for path in write_inspect_logs([run], tmp_path / "logs", log_format="json"))
    figures = [
        {(score["name"], score["reducer"]): next(iter(score["metrics"].values()))["value"] for score in each["scores"]}
        for each in (one, two)
    ]

    # Only the case without quarantine counts: 1 of 2 trials passed, and pass@3 needs three.
    assert figures[0] == {("passed", "mean"): 0.5, ("score", "mean"): 0.5}
    assert figures[1] == {
        ("passed", "mean"): 1.0, ("passed", "pass_at_3"): 1.0, ("passed", "pass_k_3"): 1.0, ("score", "mean"): 1.0
    }  # fmt: skip
    assert (one["total_samples"], one["completed_samples"]) == (6, 3)
    assert one["metadata"] == {
        "missing": {"agent_crashed": 1, "verifier_failed": 1, "not_run": 1},
        "quarantine": ["b"],
    }


def test_a_sample_has_the_conversation_the_patch_and_the_usage(run: RunSummary, tmp_path: Path) -> None:
    path = write_inspect_logs([run], tmp_path / "logs", log_format="json")[0]
    sample = log_of(path)["samples"][0]

    assert [message["role"] for message in sample["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert sample["messages"][1]["tool_calls"][0]["function"] == "edit"
    assert sample["output"]["completion"] == "right hello"
    assert sample["output"]["choices"][0]["stop_reason"] == "stop"
    assert sample["model_usage"] == {"acp/one": {"total_tokens": 1000, "total_cost": 0.5}}
    assert sample["metadata"]["patch"].startswith("diff --git a/x b/x")
    assert {event["event"] for event in sample["events"]} == {"sample_init", "info", "tool", "score"}


def test_the_compressed_log_has_the_members_of_the_format(run: RunSummary, tmp_path: Path) -> None:
    path = write_inspect_logs([run], tmp_path / "logs")[0]
    plain = log_of(write_inspect_logs([run], tmp_path / "logs", log_format="json")[0])
    with ZipFile(path) as archive:
        members = {name: json.loads(archive.read(name)) for name in archive.namelist()}

    samples = [f"samples/{sample['id']}_epoch_{sample['epoch']}.json" for sample in plain["samples"]]
    assert list(members) == ["_journal/start.json", *samples, "summaries.json", "reductions.json", "header.json"]
    assert [members[name] for name in samples] == plain["samples"]
    assert members["header.json"] | {"samples": plain["samples"], "reductions": plain["reductions"]} == plain
    assert members["reductions.json"] == plain["reductions"]
    assert [summary.get("error", "")[:13] for summary in members["summaries.json"]] == [
        "", "", "", "verifier_fail", "agent_crashed"
    ]  # fmt: skip


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_the_same_run_gives_the_same_file_for_its_owner_only(run: RunSummary, tmp_path: Path, log_format: Any) -> None:
    first = write_inspect_logs([run], tmp_path / "logs", log_format=log_format)[0]
    content = first.read_bytes()

    assert write_inspect_logs([run], tmp_path / "logs", log_format=log_format)[0] == first
    assert first.read_bytes() == content
    assert first.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in first.parent.iterdir()) == sorted(
        path.name for path in first.parent.glob(f"2026*.{log_format}")
    )


def test_a_file_that_cannot_be_finished_leaves_the_earlier_one(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    path = write_inspect_logs([run], tmp_path / "logs")[0]
    before = path.read_bytes()
    record = RunDirectory.open(Path(run.path))
    next(record.records()).result_file.unlink()

    with pytest.raises(RecordError):
        write_inspect_logs([run], tmp_path / "logs")

    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 2


def test_a_damaged_trajectory_costs_its_steps_and_says_so(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    record = next(RunDirectory.open(Path(run.path)).records())
    record.trajectory_file.write_bytes(b"{")
    sample = log_of(write_inspect_logs([run], tmp_path / "logs", log_format="json")[0])["samples"][0]
    trajectory = json.loads(write_atif([run], tmp_path / "atif")[0].read_bytes())

    assert sample["messages"] == []
    assert "trajectory.jsonl, line 1 is damaged" in sample["metadata"]["damage"]
    assert sample["scores"]["passed"]["value"] == "C"
    assert [each["source"] for each in trajectory["steps"]] == ["system"]
    assert "is damaged" in trajectory["extra"]["damage"]


def test_each_trial_with_a_record_is_a_trajectory(run: RunSummary, tmp_path: Path) -> None:
    paths = write_atif([run], tmp_path / "atif")

    assert [str(path.relative_to(tmp_path / "atif")) for path in paths] == [
        "one/a/1.json", "one/b/1.json", "one/a/2.json", "one/b/2.json", "one/a/3.json",
        "two/a/1.json", "two/b/1.json", "two/a/2.json", "two/b/2.json", "two/a/3.json", "two/b/3.json",
    ]  # fmt: skip
    trajectory = json.loads(paths[0].read_bytes())
    assert trajectory["schema_version"] == "ATIF-v1.8"
    assert trajectory["agent"] == {"name": "hello", "version": "1.0", "extra": {"protocol": "acp"}}
    assert [(each["step_id"], each["source"], each["message"]) for each in trajectory["steps"]] == [
        (1, "user", "hello"), (2, "agent", ""), (3, "agent", "right hello")
    ]  # fmt: skip
    call = trajectory["steps"][1]["tool_calls"][0]
    assert (call["tool_call_id"], call["function_name"], call["arguments"]) == ("call-2", "edit", {})
    assert trajectory["steps"][1]["observation"] == {"results": [{"source_call_id": "call-2", "content": "hello"}]}
    assert trajectory["final_metrics"]["total_cost_usd"] == 0.5
    assert trajectory["final_metrics"]["total_steps"] == 3
    assert (trajectory["extra"]["passed"], trajectory["extra"]["outcome"]) == (True, "completed")
    assert paths[0].stat().st_mode & 0o777 == 0o600


def test_predictions_are_the_patches_of_one_agent_and_one_trial(run: RunSummary) -> None:
    predictions = to_swebench([run], agent="one", trial=1)
    lines = [json.loads(line) for line in predictions.text.splitlines()]

    assert [list(line) for line in lines] == [["instance_id", "model_name_or_path", "model_patch"]] * 2
    assert [(line["instance_id"], line["model_name_or_path"]) for line in lines] == [("a", "one"), ("b", "one")]
    assert lines[0]["model_patch"].startswith("diff --git a/x b/x")
    assert predictions.left_out == ()


def test_a_missing_trial_has_no_prediction(run: RunSummary) -> None:
    predictions = to_swebench([run], agent="one", trial=3)

    assert predictions.text == ""
    assert predictions.left_out == ("b, trial 3: not_run", "a, trial 3: agent_crashed")


def test_the_instance_of_a_prediction_may_be_named_in_the_metadata(tmp_path: Path) -> None:
    path = build_run(tmp_path, {"one": {"a": "P"}}, fields={"a": {"metadata": {"instance_id": "django__django-1"}}})

    assert json.loads(to_swebench([read_run(path)]).text)["instance_id"] == "django__django-1"


@pytest.mark.parametrize(
    ("patch", "reason"),
    [(b"diff\n+caf\xe9\n", "not UTF-8"), (b"diff\n+x\n[12 more bytes]\n", "too large to be recorded")],
)
def test_a_patch_that_would_not_apply_is_left_out(tmp_path: Path, patch: bytes, reason: str) -> None:
    path = build_run(tmp_path, {"one": {"a": "P"}})
    record = next(RunDirectory.open(path).records())
    record.write_patch(patch)
    predictions = to_swebench([read_run(path)])

    assert predictions.text == ""
    assert reason in predictions.left_out[0]


@pytest.mark.parametrize("agent", [None, "three"])
def test_an_agent_must_be_named_if_there_are_several(run: RunSummary, agent: str | None) -> None:
    with pytest.raises(ValueError, match="expected the label of one agent, of which these exist: one, two"):
        to_swebench([run], agent=agent)


def test_two_runs_of_one_agent_have_logs_of_their_own(tmp_path: Path) -> None:
    runs = [read_run(build_run(tmp_path / name, {"one": {"a": "P"}}, name=name)) for name in ("before", "after")]
    logs = write_inspect_logs(runs, tmp_path / "logs", log_format="json")

    assert [log_of(path)["eval"]["model"] for path in logs] == ["acp/before/one", "acp/after/one"]
    assert len({path.name for path in write_atif(runs, tmp_path / "atif")}) == 1
    assert len(set(write_atif(runs, tmp_path / "atif"))) == 2


@pytest.mark.parametrize("text", [HOSTILE, HUGE], ids=["hostile", "huge"])
def test_texts_of_agents_change_nothing_but_texts(tmp_path: Path, text: str) -> None:
    run = run_of(tmp_path, text)
    sample = log_of(write_inspect_logs([run], tmp_path / "logs", log_format="json")[0])["samples"][0]
    paths = write_atif([run], tmp_path / "atif")

    assert sample["output"]["completion"] == f"right {text}"
    assert json.loads(paths[0].read_bytes())["steps"][0]["message"] == text
    assert all(path.is_relative_to(tmp_path / "atif") for path in paths)
    assert json.loads(to_swebench([run], agent="one").text.splitlines()[0])["model_patch"].endswith(f"+{text}\n")


def test_results_of_another_harness_have_no_records(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"id": "a", "input": "x", "output": "y", "trials": []}\n')
    run = read_harness_run(path)

    for write in (write_inspect_logs, write_atif):
        with pytest.raises(RecordError, match="is not the directory of a run"):
            write([run], tmp_path / "out")
