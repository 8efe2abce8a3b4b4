"""The conversation of a trial as chat messages of Inspect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.report.exports.conversation_steps import (
    ConversationStep,
    arguments,
    call_id,
    function_name,
)


def chat_messages(identity: str, groups: Sequence[ConversationStep], model: str) -> list[dict[str, Any]]:
    """Return the messages of the user and the agent, and the results of tool calls."""
    messages: list[dict[str, Any]] = []

    def add(message: dict[str, Any]) -> None:
        messages.append({"id": f"{identity}/{len(messages) + 1}", **message})

    for group in groups:
        match group.source:
            case "user":
                add({"role": "user", "content": group.text, "source": "input"})
            case "system":
                # Something that happened to the trial and that the agent did not read: part of the events.
                continue
            case "agent":
                if not (group.text or group.thought or group.tool_calls):
                    continue
                message = {"role": "assistant", "content": _content(group), "source": "generate", "model": model}
                if group.tool_calls:
                    message["tool_calls"] = [tool_call(step) for step in group.tool_calls]
                add(message)
                for step in group.tool_calls:
                    add(_tool_message(step))
    return messages


def tool_call(step: TrajectoryStep) -> dict[str, Any]:
    """Return a tool call: its kind is the function, its title is what is shown."""
    call: dict[str, Any] = {
        "id": call_id(step),
        "function": function_name(step),
        "arguments": arguments(step),
        "type": "function",
    }
    if step.name or step.command:
        call["view"] = tool_view(step)
    return call


def tool_view(step: TrajectoryStep) -> dict[str, Any]:
    """Return how a tool call is shown: its title, with its command or its files."""
    content = step.command or "\n".join(step.paths)
    return {"title": step.name, "format": "text", "content": content}


def tool_error(step: TrajectoryStep) -> dict[str, Any] | None:
    """Return the error of a tool call that failed."""
    return {"type": "unknown", "message": step.text or "failed"} if step.status == "failed" else None


def _content(group: ConversationStep) -> str | list[dict[str, Any]]:
    if not group.thought:
        return group.text
    parts: list[dict[str, Any]] = [{"type": "reasoning", "reasoning": group.thought}]
    return [*parts, {"type": "text", "text": group.text}] if group.text else parts


def _tool_message(step: TrajectoryStep) -> dict[str, Any]:
    message = {
        "role": "tool",
        "content": step.text,
        "tool_call_id": call_id(step),
        "function": function_name(step),
    }
    error = tool_error(step)
    return message if error is None else {**message, "error": error}
