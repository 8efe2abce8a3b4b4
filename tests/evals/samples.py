"""Suites, keys and results that several tests use."""

from __future__ import annotations

from pathlib import Path

from duologue.evals.record.key import TrialKey
from duologue.evals.record.manifest import AgentIdentity, RunManifest, TrialManifest
from duologue.evals.record.outcomes import OutcomeKind, TrialOutcome
from duologue.evals.record.result import TrialResult
from duologue.evals.suite.loader import load_suite
from duologue.evals.suite.suite import Suite

SUITE = """
name = "small"
trials = 3

[defaults]
timeouts = { turn = 30 }

[[cases]]
id = "greet"
prompts = ["Say hello."]
graders = [{ type = "text", matches = "(?i)hello" }]

[[cases]]
id = "edit"
prompts = ["Write a file.", { text = "Now a longer one." }]
graders = [{ type = "file", path = "notes.txt", contains = ["one"] }]
"""


def write_suite(folder: Path, text: str = SUITE) -> Path:
    """Write a suite file and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "suite.toml"
    path.write_text(text)
    return path


def small_suite(folder: Path) -> Suite:
    """Return a suite with the cases `greet` and `edit`."""
    return load_suite(write_suite(folder))


def run_manifest(suite: Suite, *, agents: tuple[str, ...] = ("one", "two"), trials: int = 2) -> RunManifest:
    """Return the manifest of a run of all cases."""
    return RunManifest(
        id="run-1",
        started="2026-11-18T00:00:00Z",
        suite=suite.name,
        suite_digest=suite.digest,
        cases=[case.id for case in suite.cases],
        agents=[AgentIdentity(label=label) for label in agents],
        trials=trials,
    )


def trial_manifest(key: TrialKey) -> TrialManifest:
    """Return the manifest of a trial."""
    return TrialManifest(key=key, agent=AgentIdentity(label=key.agent, name="agent", version="1.2"))


def trial_result(key: TrialKey, kind: OutcomeKind = "completed", output: str = "hello") -> TrialResult:
    """Return a result of a trial."""
    return TrialResult(key=key, outcome=TrialOutcome(kind=kind), stop_reasons=["end_turn"], output=output)
