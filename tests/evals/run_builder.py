"""Build run directories as a runner writes them: real attempts, recordings and grades, from letters for each trial.

P passes, F fails, C crashed, V has a grader that cannot decide, N is not graded, D is damaged, `-` was not run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from duologue.evals.graders.grading import grade_record
from duologue.evals.record.key import TrialKey
from duologue.evals.record.manifest import AgentIdentity, RunManifest, TrialManifest
from duologue.evals.record.outcomes import TrialOutcome
from duologue.evals.record.result import TrialMetrics, TrialResult
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.suite.case import Case
from duologue.evals.suite.grader_specs import FileGrader
from duologue.evals.suite.loader import load_suite
from duologue.evals.suite.suite import Suite
from duologue.recording.recorder import Recorder
from duologue.usage.amounts import SessionUsage

STARTED = "2026-11-18T00:00:00Z"

Runs = Mapping[str, Mapping[str, str]]
"""For each agent and case, a letter for each trial."""


def build_run(
    folder: Path,
    letters: Runs,
    *,
    name: str = "run",
    text: str = "hello",
    fields: Mapping[str, Mapping[str, Any]] | None = None,
    costs: Mapping[str, float] | None = None,
) -> Path:
    """Write a run and return its directory.

    Args:
        folder: Where to write it, and its suite.
        letters: A letter for each trial of each case of each agent.
        name: Name of the directory.
        text: What agents answer, in all their texts; their prompts, patches and reasons have it as well.
        fields: Further fields of cases.
        costs: Cost of a trial of an agent.
    """
    cases = list(dict.fromkeys(case for of_agent in letters.values() for case in of_agent))
    suite = write_small_suite(folder / "suite", cases, text, fields or {})
    trials = max(len(each) for of_agent in letters.values() for each in of_agent.values())
    manifest = RunManifest(
        id=f"id-{name}",
        started=STARTED,
        suite=suite.name,
        suite_digest=suite.digest,
        cases=cases,
        agents=[AgentIdentity(label=label, name=text, version="1.0") for label in letters],
        trials=trials,
    )
    run = RunDirectory.create(folder / name, manifest, suite)
    by_id = {case.id: case for case in suite.cases}
    for key in manifest.trial_keys():
        letter = letters[key.agent].get(key.case, "").ljust(trials, "-")[key.trial - 1]
        _write_trial(run, key, by_id[key.case], letter, text, (costs or {}).get(key.agent))
    return run.path


def write_small_suite(folder: Path, cases: list[str], text: str, fields: Mapping[str, Mapping[str, Any]]) -> Suite:
    """Write a suite whose cases pass if the answer begins with `right`, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, Any]] = [{"name": "small", "description": text}]
    for case in cases:
        graders: list[dict[str, Any]] = [{"type": "text", "matches": r"\Aright"}]
        lines.append({"id": case, "prompts": [text], "graders": graders, "hint": text, **fields.get(case, {})})
    path = folder / "small.jsonl"
    path.write_bytes(b"\n".join(msgspec.json.encode(line) for line in lines))
    return load_suite(path)


def _write_trial(run: RunDirectory, key: TrialKey, case: Case, letter: str, text: str, cost: float | None) -> None:
    if letter == "-":
        return
    output = f"{'right' if letter == 'P' else 'wrong'} {text}"
    with run.begin(key) as attempt:
        attempt.write_manifest(TrialManifest(key=key, agent=AgentIdentity(label=key.agent, name=text, version="1.0")))
        _write_wire(attempt.wire_file, text)
        attempt.write_trajectory(
            [
                TrajectoryStep(type="prompt", number=1, t=0.0, text=text),
                TrajectoryStep(
                    type="tool_call", number=2, t=0.5, name=text, kind="edit", status="completed", text=text
                ),
                TrajectoryStep(type="message", number=3, t=1.0, text=output),
                TrajectoryStep(type="stop", number=4, t=2.0, status="end_turn"),
            ]
        )
        attempt.write_patch(f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+{text}\n".encode())
        attempt.commit(_result(key, letter, output, text, cost))
    record = run.record(key)
    assert record is not None, "it was just committed"
    if letter == "V":
        # The workspace was not saved, so that this grader cannot decide.
        case = msgspec.structs.replace(case, graders=[FileGrader(path="x")])
    if letter in "PFV":
        record.write_grades(asyncio.run(grade_record(record, case)))
    if letter == "D":
        record.result_file.write_text("{")


def _result(key: TrialKey, letter: str, output: str, text: str, cost: float | None) -> TrialResult:
    usage = SessionUsage()
    if cost is not None:
        usage = SessionUsage(total=1000, provenance="reported_per_turn", cost=cost, currency="USD")
    outcome = TrialOutcome(kind="completed", reason="end_turn")
    if letter == "C":
        outcome = TrialOutcome(kind="agent_crashed", reason="ConnectionLost", detail=text)
    return TrialResult(
        key=key,
        outcome=outcome,
        ended=STARTED,
        stop_reasons=["end_turn"],
        output=output,
        metrics=TrialMetrics(seconds=2.0, prompts=1, tool_calls={"edit": 1}, usage=usage),
        writes=[f"HOME/{text}"],
        left_processes=[f"sleep {text}"],
    )


def _write_wire(path: Path, text: str) -> None:
    with Recorder(path) as recorder:
        recorder("out", msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}))
        recorder("in", msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "text": text}}))
