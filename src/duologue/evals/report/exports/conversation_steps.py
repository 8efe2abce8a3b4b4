"""Group the steps of a trial as other formats expect them: the user, the agent with its tool calls, and the system."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, field

from duologue.evals.record.trajectory import TrajectoryStep
from duologue.schema.lenient_errors import is_array, is_object

MOST_LEVELS = 64
"""Levels of a value that is copied; parsers of other programs refuse deeper ones."""


class ConversationStep(Struct, kw_only=True):
    """A step of the user, of the agent or of the system.

    Attributes:
        source: Who.
        t: Seconds since the start of the recording.
        text: Its message.
        thought: Thoughts of the agent before the message.
        tool_calls: Tool calls of the agent after the message.
        details: Everything else: permissions, plans, files, commands and forms.
        stop_reason: Stop reason, if a turn of the agent ended with this step.
    """

    source: Literal["user", "agent", "system"]
    t: float
    text: str = ""
    thought: str = ""
    tool_calls: list[TrajectoryStep] = field(default_factory=list[TrajectoryStep])
    details: list[TrajectoryStep] = field(default_factory=list[TrajectoryStep])
    stop_reason: str = ""


def group_steps(steps: Iterable[TrajectoryStep]) -> list[ConversationStep]:
    """Return the steps of a trial in groups.

    A group of the agent is its thoughts, then a message, then tool calls; whatever comes before them again begins the
    next group.
    """
    groups: list[ConversationStep] = []
    agent: ConversationStep | None = None

    def begin(step: TrajectoryStep) -> ConversationStep:
        groups.append(ConversationStep(source="agent", t=step.t))
        return groups[-1]

    for step in steps:
        match step.type:
            case "prompt":
                groups.append(ConversationStep(source="user", t=step.t, text=step.text))
                agent = None
            case "error" | "other":
                if (step.name, step.status) == ("exit", "0"):
                    continue  # an agent that ends as it should is nothing that happened to the trial
                text = ": ".join(filter(None, (step.name, step.status, step.text))) or step.type
                groups.append(ConversationStep(source="system", t=step.t, text=text))
                agent = None
            case "thought":
                if agent is None or agent.text or agent.tool_calls:
                    agent = begin(step)
                agent.thought = "\n\n".join(filter(None, (agent.thought, step.text)))
            case "message":
                if agent is None or agent.text or agent.tool_calls:
                    agent = begin(step)
                agent.text = step.text
            case "tool_call":
                agent = agent or begin(step)
                agent.tool_calls.append(step)
            case "stop":
                (agent or begin(step)).stop_reason = step.status
                agent = None
            case _:
                agent = agent or begin(step)
                agent.details.append(step)
    return groups


def call_id(step: TrajectoryStep) -> str:
    """Return the id of a tool call; one without an id gets the number of its step."""
    return step.tool_call_id or f"call-{step.number}"


def function_name(step: TrajectoryStep) -> str:
    """Return what other formats call a function: the kind of the tool call."""
    return step.kind or "other"


def arguments(step: TrajectoryStep) -> dict[str, Any]:
    """Return the raw input of a tool call as an object."""
    if step.input is UNSET or step.input is None:
        return {}
    value = shallow(step.input)
    return value if is_object(value) else {"input": value}


def described(step: TrajectoryStep) -> dict[str, Any]:
    """Return what a step is, without its input and its text."""
    members = msgspec.to_builtins(step)
    for name in ("input", "text", "number", "t"):
        members.pop(name, None)
    return {str(name): value for name, value in members.items()}


def shallow(value: Any, levels: int = MOST_LEVELS) -> Any:
    """Return a value of JSON whose parts below a level are JSON texts."""
    if not is_object(value) and not is_array(value):
        return value
    if levels == 0:
        return msgspec.json.encode(value).decode()
    if is_object(value):
        return {name: shallow(each, levels - 1) for name, each in value.items()}
    return [shallow(each, levels - 1) for each in value]
