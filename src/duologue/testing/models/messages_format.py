"""Anthropic's messages: read requests, write answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from duologue.conversation.content import JsonObject
from duologue.testing.models.answer import ModelAnswer
from duologue.testing.models.request import ModelMessage, ModelRequest, ModelToolResult
from duologue.testing.models.script import ModelToolCall
from duologue.testing.models.wire import WireEvent, is_object, objects, text_in, text_of, typed_event

STOP_REASONS = {
    "end": "end_turn",
    "tool_calls": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "content_filter": "refusal",
    "refusal": "refusal",
}
SIGNATURE = "c2NyaXB0ZWQ="
"""Replaces the signature that a real model adds to its thinking."""


def read(body: JsonObject) -> ModelRequest:
    """Return the request in a body."""
    return ModelRequest(
        api="messages",
        model=text_of(body, "model"),
        system=text_in(body.get("system")),
        messages=[_message(message) for message in objects(body.get("messages"))],
        tools=[text_of(tool, "name") for tool in objects(body.get("tools"))],
        is_streamed=body.get("stream") is True,
        body=body,
    )


def _message(message: JsonObject) -> ModelMessage:
    content = message.get("content")
    blocks = objects(content)
    text = content if isinstance(content, str) else text_in([block for block in blocks if block.get("type") == "text"])
    return ModelMessage(
        "assistant" if message.get("role") == "assistant" else "user",
        text,
        [_call(block) for block in blocks if block.get("type") == "tool_use"],
        [_result(block) for block in blocks if block.get("type") == "tool_result"],
    )


def _call(block: JsonObject) -> ModelToolCall:
    given: Any = block.get("input")
    return ModelToolCall(text_of(block, "name"), given if is_object(given) else {}, text_of(block, "id"))


def _result(block: JsonObject) -> ModelToolResult:
    return ModelToolResult(
        text_of(block, "tool_use_id"), text_in(block.get("content")), is_error=block.get("is_error") is True
    )


def write(answer: ModelAnswer, request: ModelRequest) -> JsonObject:
    """Return a whole answer."""
    content: list[JsonObject] = []
    if answer.thinking:
        content.append({"type": "thinking", "thinking": "".join(answer.thinking), "signature": SIGNATURE})
    if answer.text or answer.refusal:
        content.append({"type": "text", "text": "".join(answer.text or answer.refusal)})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)} for call in answer.calls
    ]
    message = {**_envelope(answer), "content": content, **_end(answer)}
    return message if answer.usage is None else {**message, "usage": _usage(answer, answer.usage.output)}


def write_events(answer: ModelAnswer, request: ModelRequest) -> Iterator[WireEvent]:
    """Yield the events of a streamed answer."""
    start: JsonObject = {**_envelope(answer), "content": [], "stop_reason": None, "stop_sequence": None}
    yield typed_event({"type": "message_start", "message": {**start, "usage": _usage(answer, 1)}})
    yield typed_event({"type": "ping"})
    index = 0
    if answer.thinking:
        block: JsonObject = {"type": "thinking", "thinking": "", "signature": ""}
        end = {"type": "signature_delta", "signature": SIGNATURE}
        yield from _block(index, block, "thinking_delta", "thinking", answer.thinking, end)
        index += 1
    if answer.text or answer.refusal:
        yield from _block(index, {"type": "text", "text": ""}, "text_delta", "text", answer.text or answer.refusal)
        index += 1
    for call in answer.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield from _block(index, block, "input_json_delta", "partial_json", call.pieces)
        index += 1
    usage = {"output_tokens": 0} if answer.usage is None else _usage(answer, answer.usage.output)
    yield typed_event({"type": "message_delta", "delta": _end(answer), "usage": usage})
    yield typed_event({"type": "message_stop"})


def _block(
    index: int, block: JsonObject, kind: str, member: str, pieces: list[str], end: JsonObject | None = None
) -> Iterator[WireEvent]:
    yield typed_event({"type": "content_block_start", "index": index, "content_block": block})
    for piece in pieces:
        delta = {"type": kind, member: piece}
        yield typed_event({"type": "content_block_delta", "index": index, "delta": delta}, is_piece=True)
    if end is not None:
        yield typed_event({"type": "content_block_delta", "index": index, "delta": end})
    yield typed_event({"type": "content_block_stop", "index": index})


def _input(arguments: str) -> Any:
    """Return arguments as a value; what is not JSON stays a text."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _envelope(answer: ModelAnswer) -> JsonObject:
    return {"id": f"msg_{answer.number}", "type": "message", "role": "assistant", "model": answer.model}


def _end(answer: ModelAnswer) -> JsonObject:
    is_sequence = answer.stop == "stop_sequence"
    return {"stop_reason": STOP_REASONS[answer.stop], "stop_sequence": "STOP" if is_sequence else None}


def _usage(answer: ModelAnswer, output: int) -> JsonObject:
    usage = answer.usage
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    return {
        "input_tokens": usage.input,
        "output_tokens": output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }
