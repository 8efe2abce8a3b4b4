"""The library's message history in the state of a session: loaded, saved, cleared and compacted."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from duologue.agent.session import Session
from duologue.sanitize import shorten

STATE = "pydantic_ai.messages"
"""Key in `session.state` of the library's message history."""

MOST_OF_RESULT = 2000
"""Characters of a tool's result in a conversation that is summarized."""


def load_history(session: Session[Any]) -> list[ModelMessage]:
    """Return the messages of the turns before."""
    return ModelMessagesTypeAdapter.validate_python(session.state.get(STATE, []))


def save_history(session: Session[Any], messages: list[ModelMessage]) -> None:
    """Save the messages for the next turn; no messages clear the history."""
    if messages:
        session.state[STATE] = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    else:
        session.state.pop(STATE, None)


def responses_in(messages: list[ModelMessage]) -> int:
    """Return how often a model answered; a request that failed leaves an answer without parts."""
    return sum(isinstance(message, ModelResponse) and bool(message.parts) for message in messages)


def compacted(history: list[ModelMessage], summary: str) -> list[ModelMessage]:
    """Return a history of the system prompts and the summary of a conversation."""
    system = [part for message in history for part in message.parts if isinstance(part, SystemPromptPart)]
    return [ModelRequest(parts=[*system, UserPromptPart(f"Summary of the conversation so far:\n\n{summary}")])]


def as_text(history: list[ModelMessage]) -> str:
    """Return a conversation as text for a model to summarize."""
    lines: list[str] = []
    for message in history:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                given = [part.content] if isinstance(part.content, str) else part.content
                lines += [f"User: {item if isinstance(item, str) else '(a file)'}" for item in given]
            elif isinstance(part, TextPart):
                lines.append(f"Assistant: {part.content}")
            elif isinstance(part, ToolCallPart):
                lines.append(f"Tool call: {part.tool_name} {shorten(part.args_as_json_str(), MOST_OF_RESULT)}")
            elif isinstance(part, ToolReturnPart):
                lines.append(f"Tool result: {shorten(part.model_response_str(), MOST_OF_RESULT)}")
    return "\n\n".join(lines)
