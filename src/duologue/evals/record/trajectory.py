"""The steps of a trial: what graders and people read of it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

StepKind: TypeAlias = Literal[
    "prompt", "message", "thought", "tool_call", "permission", "plan", "file_read", "file_write", "command",
    "elicitation", "stop", "error", "other",
]  # fmt: skip


class TrajectoryStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a trial, in the order in which they began.

    Attributes:
        type: What it is. `file_read`, `file_write` and `command` are requests of the agent to its client.
        number: Its number, from 1.
        t: Seconds since the start of the recording.
        seconds: How long it took; None if it has no length or did not end.
        text: Text of a prompt, message, thought, plan or error; output of a tool call.
        name: Title of a tool call, or of what a permission is asked for; name of another step.
        kind: Kind of a tool call.
        status: Status of a tool call; stop reason; `allowed`, `rejected` or `cancelled` for a permission.
        tool_call_id: Id of the tool call.
        paths: Files that it is about.
        changes: Files that a tool call changed, according to its content.
        created: Those of them that did not exist before.
        command: Command line that was run.
        input: Raw input of a tool call.
    """

    type: StepKind
    number: int
    t: float
    seconds: float | None = None
    text: str = ""
    name: str = ""
    kind: str = ""
    status: str = ""
    tool_call_id: str = ""
    paths: list[str] = []
    changes: list[str] = []
    created: list[str] = []
    command: str = ""
    input: Any | UnsetType = UNSET
