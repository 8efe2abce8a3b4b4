"""Messages of LangChain: from the content of a prompt, in a change of the state, and the results that are missing."""

# LangGraph and LangChain are only partly typed.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

from duologue.conversation.content import AudioContent, Content, ImageContent, Resource, ResourceLink, TextContent

STOPPED = "The user stopped this before it was done."
"""Result of a tool call that was cancelled or not permitted."""


def prompt_message(blocks: Iterable[Content]) -> HumanMessage:
    """Return a prompt as a message."""
    return HumanMessage(content=[_to_langchain(block) for block in blocks])


def messages_in(change: Any) -> list[BaseMessage]:
    """Return the messages of a state, or of a change of it."""
    found = change.get("messages", []) if isinstance(change, dict) else []
    return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, BaseMessage)]


def open_calls(history: list[BaseMessage]) -> list[ToolCall]:
    """Return the tool calls of the last answer that have no result."""
    done = {message.tool_call_id for message in history if isinstance(message, ToolMessage)}
    last = next((message for message in reversed(history) if isinstance(message, AIMessage)), None)
    return [] if last is None else [call for call in last.tool_calls if call["id"] not in done]


def missing_results(history: list[BaseMessage]) -> list[ToolMessage]:
    """Return results for tool calls that never got one, because their turn was stopped; providers require them."""
    calls = open_calls(history)
    return [ToolMessage(STOPPED, tool_call_id=call["id"] or "", name=call["name"], status="error") for call in calls]


def _to_langchain(block: Content) -> dict[str, Any]:
    match block:
        case TextContent(text=text):
            return {"type": "text", "text": text}
        case ImageContent(data=data, mime_type=kind):
            return {"type": "image", "base64": data, "mime_type": kind}
        case AudioContent(data=data, mime_type=kind):
            return {"type": "audio", "base64": data, "mime_type": kind}
        case Resource(text=str(text), uri=uri):
            return {"type": "text", "text": f"<resource uri={uri!r}>\n{text}\n</resource>"}
        case Resource(blob=str(blob), mime_type=kind):
            return {"type": "file", "base64": blob, "mime_type": kind or "application/octet-stream"}
        case ResourceLink(uri=uri, name=name):
            return {"type": "text", "text": f"[{name}]({uri})"}
        case _:
            return {"type": "text", "text": str(block)}
