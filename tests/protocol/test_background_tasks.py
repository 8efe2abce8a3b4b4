"""Background tasks on the wire: what is declared, and every update to the wire and back."""

from __future__ import annotations

from typing import Any

import pytest

from duologue.conversation.updates import BackgroundTaskUpdate, SubagentUpdate, UnrecognizedUpdate
from duologue.protocol.background_tasks import declares_tasks, extension_from_wire, task_to_wire, with_tasks_declared
from duologue.schema.base import Other

AIR = {"version": 1, "capabilities": ["asyncTasks"]}
META = {"jetbrains": {"air": AIR}}

FORMS: list[tuple[BackgroundTaskUpdate, dict[str, Any]]] = [
    (
        BackgroundTaskUpdate(
            task_id="t",
            is_new=True,
            title="npm test",
            kind="shell",
            description="tests",
            can_stop=True,
            tool_call_id="c",
            other={"showInTranscript": False},
            meta={"a": 1},
        ),
        {
            "sessionUpdate": "async_task_spawned",
            "asyncTaskId": "t",
            "name": "npm test",
            "taskType": "shell",
            "description": "tests",
            "showInTranscript": False,
            "canStop": True,
            "toolCallId": "c",
            "_meta": {"a": 1},
        },
    ),
    (
        BackgroundTaskUpdate(task_id="t", summary="half", output_file="/o", other={"lastToolName": "Bash"}),
        {
            "sessionUpdate": "async_task_progress",
            "asyncTaskId": "t",
            "summary": "half",
            "outputFilePath": "/o",
            "lastToolName": "Bash",
        },
    ),
    (
        BackgroundTaskUpdate(task_id="t", state="completed"),
        {"sessionUpdate": "async_task_state_update", "asyncTaskId": "t", "state": "completed"},
    ),
]


@pytest.mark.parametrize("prefix", ["", "_"])
@pytest.mark.parametrize(("update", "wire"), FORMS)
def test_an_update_is_written_and_read_back(update: BackgroundTaskUpdate, wire: dict[str, Any], prefix: str) -> None:
    tag = prefix + wire["sessionUpdate"]
    written = task_to_wire(update, prefix)

    assert (written.tag, dict(written)) == (tag, {**wire, "sessionUpdate": tag})
    assert extension_from_wire(written) == update


def test_an_announcement_has_every_field_that_clients_require() -> None:
    assert dict(task_to_wire(BackgroundTaskUpdate(task_id="t", is_new=True, title="x"))) == {
        "sessionUpdate": "async_task_spawned",
        "asyncTaskId": "t",
        "name": "x",
        "taskType": "task",
        "description": "x",
        "showInTranscript": True,
        "canStop": False,
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"sessionUpdate": "async_task_spawned", "asyncTaskId": 1},
        {"sessionUpdate": "async_task_state_update", "asyncTaskId": "t", "state": 1},
        {"sessionUpdate": "_subagent_spawned"},
        {"sessionUpdate": "mood", "asyncTaskId": "t"},
    ],
)
def test_a_malformed_or_unknown_update_is_kept_as_received(fields: dict[str, Any]) -> None:
    tag = fields["sessionUpdate"]
    assert extension_from_wire(Other(tag, fields)) == UnrecognizedUpdate(tag=tag, fields=fields)


def test_an_update_without_a_name_is_kept_as_received() -> None:
    assert extension_from_wire(Other(None, {})) == UnrecognizedUpdate(tag=None, fields={})


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("completed", "end_turn"),
        ("cancelled", "cancelled"),
        ("failed", "error"),
        ("disconnected", "error"),
        (5, "error"),
    ],
)
def test_the_earlier_spelling_of_a_subagents_end_is_read(state: Any, reason: str) -> None:
    fields = {"sessionUpdate": "subagent_state_update", "subagentSessionId": "c", "state": state}
    assert extension_from_wire(Other("subagent_state_update", fields)) == SubagentUpdate(
        session_id="c", state={"state": "idle", "stopReason": reason}
    )


def test_the_earlier_spelling_of_a_new_subagent_is_read() -> None:
    fields: dict[str, Any] = {"subagentSessionId": "c", "name": "Scout", "task": "Look", "capabilities": {"cancel": {}}}
    assert extension_from_wire(Other("_subagent_spawned", fields)) == SubagentUpdate(
        session_id="c", title="Scout", description="Look", state={"state": "running"}, can_cancel=True
    )
    assert extension_from_wire(Other("subagent_spawned", {"subagentSessionId": "c"})) == SubagentUpdate(
        session_id="c", state={"state": "running"}, can_cancel=False
    )


@pytest.mark.parametrize(
    ("meta", "is_declared"),
    [
        (META, True),
        ({"jetbrains": {"air": {**AIR, "version": 2}}}, True),
        ({"jetbrains": {"air": {**AIR, "version": 0}}}, False),
        ({"jetbrains": {"air": {**AIR, "version": "1"}}}, False),
        ({"jetbrains": {"air": {"version": 1, "capabilities": "asyncTasks"}}}, False),
        ({"jetbrains": {"air": {"version": 1, "capabilities": ["planFile"]}}}, False),
        ({"jetbrains": []}, False),
        (None, False),
    ],
)
def test_tasks_are_declared_by_name_and_version(meta: Any, is_declared: bool) -> None:
    assert declares_tasks(meta) is is_declared
    assert declares_tasks(with_tasks_declared(meta))


def test_declaring_tasks_keeps_everything_else() -> None:
    meta: dict[str, Any] = {"a": 1, "jetbrains": {"b": 2, "air": {"version": 1, "capabilities": ["planFile"], "c": 3}}}
    assert with_tasks_declared(meta) == {
        "a": 1,
        "jetbrains": {"b": 2, "air": {"version": 1, "capabilities": ["planFile", "asyncTasks"], "c": 3}},
    }
    assert meta["jetbrains"]["air"]["capabilities"] == ["planFile"]
    assert with_tasks_declared(META) == META
    assert with_tasks_declared(None) == META
