"""Predicates over the steps of a trial."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from duologue.evals.graders.interface import GraderInput
from duologue.evals.graders.predicates import grade_trajectory
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.suite.grader_specs import TrajectoryGrader


def steps_of(*steps: dict[str, Any]) -> list[TrajectoryStep]:
    """Return steps with their numbers; tool calls have ended well."""
    numbered = [{"status": "completed", "number": n, "t": n, **step} for n, step in enumerate(steps, 1)]
    return msgspec.convert(numbered, list[TrajectoryStep])


def call(kind: str, path: str = "", **fields: Any) -> dict[str, Any]:
    """Return a tool call."""
    return {"type": "tool_call", "kind": kind, "name": kind, "paths": [path] if path else [], **fields}


READ = call("read", "/w/a.py")
EDIT = call("edit", "/w/a.py", changes=["/w/a.py"])
NEW = call("edit", "/w/b.py", changes=["/w/b.py"], created=["/w/b.py"])
CLIENT_READ = {"type": "file_read", "paths": ["/w/./a.py"]}
CLIENT_WRITE = {"type": "file_write", "paths": ["/w/a.py"]}
ALLOWED = {"type": "permission", "status": "allowed", "tool_call_id": "1"}
REJECTED = {"type": "permission", "status": "rejected", "tool_call_id": "1"}


@pytest.mark.parametrize(
    ("spec", "steps", "passed"),
    [
        ({"check": "read_before_edit"}, [READ, EDIT], True),
        ({"check": "read_before_edit"}, [EDIT, READ], False),
        ({"check": "read_before_edit"}, [CLIENT_READ, EDIT], True),
        ({"check": "read_before_edit"}, [CLIENT_WRITE], False),
        ({"check": "read_before_edit"}, [NEW, call("edit", "/w/b.py", changes=["/w/b.py"])], True),
        ({"check": "read_before_edit"}, [{**EDIT, "status": "failed"}], True),
        ({"check": "read_before_edit"}, [], True),
        ({"check": "ran", "pattern": "pytest"}, [call("execute", command="python -m pytest")], True),
        ({"check": "ran", "pattern": "pytest"}, [call("execute", command="pytest", status="failed")], False),
        ({"check": "ran", "pattern": "pytest"}, [READ], False),
        ({"check": "never_ran", "pattern": r"\brm\b"}, [{"type": "command", "command": "bash -c 'rm -rf /'"}], False),
        ({"check": "never_ran", "pattern": r"\brm\b"}, [call("execute", command="rm x", status="failed")], False),
        ({"check": "never_ran", "pattern": r"\brm\b"}, [call("execute", command="ls; alarm")], True),
        (
            {"check": "never_ran", "pattern": r"\brm\b"},
            [REJECTED, call("execute", command="rm x", tool_call_id="1", status="failed")],
            True,
        ),
        (
            {"check": "never_ran", "pattern": r"\brm\b"},
            [REJECTED, call("execute", command="rm x", tool_call_id="1")],
            False,
        ),
        ({"check": "called", "kind": "read"}, [READ], True),
        ({"check": "called", "kind": "fetch"}, [READ], False),
        ({"check": "called", "pattern": r"a\.py"}, [READ], True),
        ({"check": "called", "pattern": "needle"}, [call("search", input={"query": "needle"})], True),
        ({"check": "never_called", "kind": "delete"}, [READ, EDIT], True),
        ({"check": "never_called", "kind": "edit"}, [READ, EDIT], False),
        ({"check": "tool_calls", "at_most": 2}, [READ, EDIT], True),
        ({"check": "tool_calls", "at_most": 1}, [READ, EDIT], False),
        ({"check": "tool_calls", "at_least": 1, "kind": "edit"}, [READ], False),
        ({"check": "asked_before_writing"}, [ALLOWED, {**EDIT, "tool_call_id": "1"}], True),
        ({"check": "asked_before_writing"}, [ALLOWED, {**EDIT, "tool_call_id": "2"}], False),
        ({"check": "asked_before_writing"}, [REJECTED, {**EDIT, "tool_call_id": "1"}], False),
        ({"check": "asked_before_writing"}, [REJECTED, {**EDIT, "tool_call_id": "1", "status": "failed"}], True),
        ({"check": "asked_before_writing"}, [ALLOWED, CLIENT_WRITE], True),
        ({"check": "asked_before_writing"}, [CLIENT_WRITE, ALLOWED], False),
        ({"check": "asked_before_writing"}, [READ], True),
    ],
)
def test_a_predicate_holds_or_names_the_step(spec: dict[str, Any], steps: list[dict[str, Any]], passed: bool) -> None:
    trial = GraderInput(id="a", input="p", trajectory=steps_of(*steps))
    found = grade_trajectory(TrajectoryGrader(**spec), trial)

    assert (found.passed, found.score) == (passed, float(passed))
    assert bool(found.reasoning) != passed
