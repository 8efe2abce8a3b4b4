"""Steps and metrics are derived from a recording: of the built-in agent as a process, and of made-up frames."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from duologue import Permissions, Terminals, Workspace, connect
from duologue.evals.record import trajectory_reader
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.record.trajectory_reader import Trajectory, TrajectoryReader, read_trajectory
from duologue.recording.format import Entry, FrameDirection
from duologue.trace.frames import Tracer


async def recorded(folder: Path, *prompts: str) -> Trajectory:
    """Run the built-in agent as a process, and read the steps of its recording."""
    path = folder / "wire.acp"
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "notes.txt").write_text("some notes\n")
    command = [sys.executable, "-m", "duologue", "agent"]
    async with asyncio.timeout(60):
        async with connect(
            command,
            record=path,
            permissions=Permissions.allow_everything(),
            workspace=Workspace(),
            terminals=Terminals(),
        ) as agent:
            session = await agent.new_session(cwd=workspace)
            for prompt in prompts:
                await session.prompt(prompt)
    return read_trajectory(path)


def of_type(trajectory: Trajectory, *types: str) -> list[TrajectoryStep]:
    """Return the steps of some types."""
    return [step for step in trajectory.steps if step.type in types]


async def test_the_steps_of_a_recorded_run(tmp_path: Path) -> None:
    found = await recorded(tmp_path, "/read notes.txt", "/write new.txt", "/run echo hello")

    assert [step.text for step in of_type(found, "prompt")] == ["/read notes.txt", "/write new.txt", "/run echo hello"]
    assert [step.status for step in of_type(found, "stop")] == ["end_turn"] * 3
    assert [step.number for step in found.steps] == list(range(1, len(found.steps) + 1))
    assert [step.t for step in found.steps] == sorted(step.t for step in found.steps)
    read, write, run = of_type(found, "tool_call")
    assert (read.kind, read.status, run.status) == ("read", "completed", "completed")
    assert any(path.endswith("notes.txt") for path in read.paths)
    assert any(path.endswith("new.txt") for path in write.changes)
    assert {step.type for step in found.steps} >= {"file_read", "file_write", "command", "message", "permission"}
    assert of_type(found, "command")[0].command == "echo hello"
    assert {step.status for step in of_type(found, "permission")} == {"allowed"}


async def test_the_metrics_of_a_recorded_run(tmp_path: Path) -> None:
    found = await recorded(tmp_path, "/read notes.txt", "/read notes.txt")
    metrics = found.metrics

    assert (metrics.prompts, metrics.tool_calls, metrics.failed_tool_calls) == (2, {"read": 2}, 0)
    assert metrics.repeated_tool_calls == 1
    assert metrics.seconds is not None
    assert metrics.first_update is not None
    assert 0 < metrics.first_update <= metrics.seconds
    assert 0 <= metrics.tool_seconds <= metrics.seconds


def frames(*messages: tuple[float, str, dict[str, Any]]) -> Iterator[Entry]:
    """Yield the entries of messages: time, direction (`>` is to the agent) and content."""
    for t, arrow, message in messages:
        direction: FrameDirection = "to_agent" if arrow == ">" else "to_client"
        yield Entry(t=t, dir=direction, frame=Raw(msgspec.json.encode({"jsonrpc": "2.0", **message})))


def update(**content: Any) -> dict[str, Any]:
    """Return a session update."""
    return {"method": "session/update", "params": {"sessionId": "s", "update": content}}


def permission(number: int, tool: str) -> dict[str, Any]:
    """Return a permission request of the agent."""
    options = [{"optionId": kind, "name": kind, "kind": f"{kind}_once"} for kind in ("allow", "reject")]
    params = {"sessionId": "s", "toolCall": {"toolCallId": tool, "title": f"run {tool}"}, "options": options}
    return {"id": number, "method": "session/request_permission", "params": params}


def answer(number: int, option: str | None) -> dict[str, Any]:
    """Return the answer to a permission request."""
    chosen = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
    return {"id": number, "result": {"outcome": chosen}}


PROMPT = {"id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}}


def test_permissions_have_their_answers_and_waiting_times() -> None:
    entries = frames(
        (1.0, ">", PROMPT),
        (2.0, "<", permission(1, "a")),
        (3.0, "<", permission(2, "b")),
        (4.0, ">", answer(1, "allow")),
        (5.0, ">", answer(2, "reject")),
        (6.0, "<", permission(3, "c")),
        (6.5, ">", answer(3, None)),
        (7.0, "<", permission(4, "d")),
    )
    found = TrajectoryReader().read(Tracer().trace(entries))

    asked = of_type(found, "permission")
    assert [(step.tool_call_id, step.status) for step in asked] == [
        ("a", "allowed"), ("b", "rejected"), ("c", "cancelled"), ("d", ""),
    ]  # fmt: skip
    assert (found.metrics.permissions_asked, found.metrics.permissions_denied) == (4, 3)
    # Two waited at the same time: from 2 to 5, and from 6 to 6.5.
    assert found.metrics.permission_seconds == pytest.approx(3.5)


def test_commands_of_tool_calls_and_of_terminals_are_command_lines() -> None:
    create = {"sessionId": "s", "command": "bash", "args": ["-c", "rm -rf x"]}
    raw = {"command": "pytest -q | tail", "description": "run the tests"}
    entries = frames(
        (0.0, ">", PROMPT),
        (1.0, "<", update(sessionUpdate="tool_call", toolCallId="t", title="Test", kind="execute", rawInput=raw)),
        (2.0, "<", {"id": 7, "method": "terminal/create", "params": create}),
        (3.0, ">", {"id": 7, "error": {"code": -32000, "message": "no"}}),
        (4.0, "<", update(sessionUpdate="tool_call_update", toolCallId="t", status="failed")),
        (4.5, "<", update(sessionUpdate="usage_update", used=900, size=1000)),
        (4.6, "<", update(sessionUpdate="usage_update", used=100, size=1000)),
        (5.0, "<", {"id": 1, "result": {"stopReason": "end_turn"}}),
    )
    found = TrajectoryReader().read(Tracer().trace(entries))

    (tool,), (terminal,) = of_type(found, "tool_call"), of_type(found, "command")
    assert "pytest -q | tail" in tool.command
    assert (tool.status, tool.seconds, tool.input) == ("failed", 3.0, raw)
    assert (terminal.command, terminal.status) == ("bash -c 'rm -rf x'", "failed")
    metrics = found.metrics
    assert (metrics.failed_tool_calls, metrics.tool_seconds, metrics.seconds) == (1, 3.0, 5.0)
    assert (metrics.context_peak, metrics.first_update) == (900, 1.0)


def test_messages_that_do_not_fit_the_schema_do_not_end_the_reading() -> None:
    entries = frames(
        (0.0, ">", PROMPT),
        (1.0, "<", update(sessionUpdate="tool_call", toolCallId=3)),
        (1.0, "<", {"id": 2, "method": "session/request_permission", "params": [1]}),
        (1.0, "<", {"id": 3, "method": "terminal/create", "params": {"command": 1, "args": "x"}}),
        (2.0, ">", {"id": 2, "result": 5}),
        (3.0, "<", {"id": 1, "result": {"stopReason": "end_turn"}}),
    )
    found = TrajectoryReader().read(Tracer().trace(entries))

    assert [step.type for step in found.steps] == ["prompt", "permission", "command", "stop"]


def test_a_trial_without_end_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory_reader, "MAX_STEPS", 50)
    entries = frames(
        *((float(n), "<", update(sessionUpdate="tool_call", toolCallId=str(n), title="x")) for n in range(10_000))
    )
    found = TrajectoryReader().read(Tracer().trace(entries))

    assert len(found.steps) == 51
    assert found.steps[-1].name == "truncated"
