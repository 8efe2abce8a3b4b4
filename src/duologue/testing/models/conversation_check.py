"""Find the mistakes in a conversation that a real provider rejects: tool calls and results that do not form pairs."""

from __future__ import annotations

from duologue.testing.models.request import ModelRequest


def conversation_error(request: ModelRequest) -> str | None:
    """Return the reason for which a real provider rejects a request; `None` if it accepts it."""
    if request.api == "messages" and not isinstance(request.body.get("max_tokens"), int):
        return "max_tokens: Field required"
    if request.api == "responses":
        # The server of OpenAI knows what precedes it; this one does not.
        return None if "previous_response_id" in request.body else _unpaired(request, is_adjacent=False)
    if not request.messages:
        return "messages: at least one message is required"
    return _unpaired(request, is_adjacent=True)


def _unpaired(request: ModelRequest, *, is_adjacent: bool) -> str | None:
    """Return the first tool call without a result, or result without a call.

    Args:
        request: The request.
        is_adjacent: The results must follow the message with the calls, before any other text.
    """
    waiting: dict[str, str] = {}
    for message in request.messages:
        for result in message.tool_results:
            if waiting.pop(result.id, None) is None:
                return f"the tool result `{result.id}` answers no tool call that waits for a result"
        is_other = bool(message.text or message.tool_calls)
        if is_adjacent and is_other and waiting:
            break
        waiting |= {call.id or "": call.name for call in message.tool_calls}
    if waiting:
        names = ", ".join(f"`{id}` ({name})" for id, name in waiting.items())
        return f"tool calls without a result immediately after them: {names}"
    return None
