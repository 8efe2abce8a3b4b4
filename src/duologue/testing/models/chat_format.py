"""OpenAI's chat completions: read requests, write answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from duologue.conversation.content import JsonObject
from duologue.testing.models.answer import ModelAnswer
from duologue.testing.models.request import ModelMessage, ModelRequest, ModelToolResult
from duologue.testing.models.script import ModelToolCall, ModelUsage
from duologue.testing.models.wire import WireEvent, is_object, objects, text_in, text_of

FINISH_REASONS = {
    "end": "stop",
    "tool_calls": "tool_calls",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "content_filter": "content_filter",
    "refusal": "stop",
}
SYSTEM_ROLES = ("system", "developer")


def read(body: JsonObject) -> ModelRequest:
    """Return the request in a body."""
    messages = objects(body.get("messages"))
    system = [text_in(message.get("content")) for message in messages if message.get("role") in SYSTEM_ROLES]
    functions = [tool.get("function", tool) for tool in objects(body.get("tools"))]
    return ModelRequest(
        api="chat",
        model=text_of(body, "model"),
        system="\n".join(system),
        messages=[_message(message) for message in messages if message.get("role") not in SYSTEM_ROLES],
        tools=[text_of(function, "name") for function in functions if is_object(function)],
        is_streamed=body.get("stream") is True,
        body=body,
    )


def _message(message: JsonObject) -> ModelMessage:
    text = text_in(message.get("content")) or text_of(message, "refusal")
    match message.get("role"):
        case "assistant":
            calls = [_call(call) for call in objects(message.get("tool_calls"))]
            return ModelMessage("assistant", text, calls)
        case "tool":
            return ModelMessage("user", "", [], [ModelToolResult(text_of(message, "tool_call_id"), text)])
        case _:
            return ModelMessage("user", text)


def _call(call: JsonObject) -> ModelToolCall:
    function: Any = call.get("function")
    function = function if is_object(function) else {}
    return ModelToolCall(text_of(function, "name"), text_of(function, "arguments"), text_of(call, "id"))


def write(answer: ModelAnswer, request: ModelRequest) -> JsonObject:
    """Return a whole answer."""
    message: JsonObject = {
        "role": "assistant",
        "content": "".join(answer.text) if answer.text or not (answer.calls or answer.refusal) else None,
        "refusal": "".join(answer.refusal) or None,
    }
    if answer.thinking:
        message["reasoning_content"] = "".join(answer.thinking)
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": FINISH_REASONS[answer.stop]}
    whole = {**_envelope(answer, "chat.completion"), "choices": [choice]}
    return whole if answer.usage is None else {**whole, "usage": _usage(answer.usage)}


def write_events(answer: ModelAnswer, request: ModelRequest) -> Iterator[WireEvent]:
    """Yield the events of a streamed answer."""
    envelope = _envelope(answer, "chat.completion.chunk")

    def chunk(delta: JsonObject, finish: str | None = None, *, is_piece: bool = False) -> WireEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return WireEvent({**envelope, "choices": [choice]}, is_piece=is_piece)

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for name, pieces in (
        ("reasoning_content", answer.thinking),
        ("content", answer.text),
        ("refusal", answer.refusal),
    ):
        for piece in pieces:
            yield chunk({name: piece}, is_piece=True)
    for index, call in enumerate(answer.calls):
        head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield chunk({"tool_calls": [head]})
        for piece in call.pieces:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, is_piece=True)
    yield chunk({}, FINISH_REASONS[answer.stop])
    options: Any = request.body.get("stream_options")
    if answer.usage is not None and is_object(options) and options.get("include_usage") is True:
        yield WireEvent({**envelope, "choices": [], "usage": _usage(answer.usage)})
    yield WireEvent({}, raw="[DONE]")


def _envelope(answer: ModelAnswer, kind: str) -> JsonObject:
    return {"id": f"chatcmpl-{answer.number}", "object": kind, "created": int(time.time()), "model": answer.model}


def _usage(usage: ModelUsage) -> JsonObject:
    return {
        "prompt_tokens": usage.all_input,
        "completion_tokens": usage.output,
        "total_tokens": usage.all_input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
