"""OpenAI's Responses API: read requests, write answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

from duologue.conversation.content import JsonObject
from duologue.testing.models.answer import AnsweredCall, ModelAnswer
from duologue.testing.models.chat_format import SYSTEM_ROLES
from duologue.testing.models.request import ModelMessage, ModelRequest, ModelToolResult
from duologue.testing.models.script import ModelToolCall, ModelUsage
from duologue.testing.models.wire import WireEvent, objects, text_in, text_of, typed_event

INCOMPLETE = {"max_tokens": "max_output_tokens", "content_filter": "content_filter"}


def read(body: JsonObject) -> ModelRequest:
    """Return the request in a body."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
    system = [text_in(item.get("content")) for item in items if item.get("role") in SYSTEM_ROLES]
    messages = [_message(item) for item in items if item.get("role") not in SYSTEM_ROLES]
    return ModelRequest(
        api="responses",
        model=text_of(body, "model"),
        system="\n".join([text_of(body, "instructions"), *system]).strip("\n"),
        messages=[message for message in messages if message is not None],
        tools=[text_of(tool, "name") or text_of(tool, "type") for tool in objects(body.get("tools"))],
        is_streamed=body.get("stream") is True,
        body=body,
    )


def _message(item: JsonObject) -> ModelMessage | None:
    match item.get("type", "message"):
        case "message":
            text = text_in(item.get("content"))
            return ModelMessage("assistant" if item.get("role") == "assistant" else "user", text)
        case "function_call":
            call = ModelToolCall(text_of(item, "name"), text_of(item, "arguments"), text_of(item, "call_id"))
            return ModelMessage("assistant", "", [call])
        case "function_call_output":
            return ModelMessage(
                "user", "", [], [ModelToolResult(text_of(item, "call_id"), text_in(item.get("output")))]
            )
        case _:
            return None


def write(answer: ModelAnswer, request: ModelRequest) -> JsonObject:
    """Return a whole answer."""
    return _response(answer, [_done(item) for item in _items(answer)])


def write_events(answer: ModelAnswer, request: ModelRequest) -> Iterator[WireEvent]:
    """Yield the events of a streamed answer."""
    numbers = count()
    for event in _events(answer):
        yield typed_event({**event.data, "sequence_number": next(numbers)}, is_piece=event.is_piece)


def _events(answer: ModelAnswer) -> Iterator[WireEvent]:
    begun = {**_response(answer, []), "status": "in_progress", "usage": None, "incomplete_details": None}
    yield WireEvent({"type": "response.created", "response": begun})
    yield WireEvent({"type": "response.in_progress", "response": begun})
    items = _items(answer)
    for index, item in enumerate(items):
        yield WireEvent({"type": "response.output_item.added", "output_index": index, "item": _begun(item)})
        match item["type"]:
            case "reasoning":
                yield from _part(item["id"], index, "reasoning_summary", "summary_text", answer.thinking)
            case "message":
                if answer.refusal:
                    yield from _part(item["id"], index, "refusal", "refusal", answer.refusal)
                else:
                    yield from _part(item["id"], index, "output_text", "output_text", answer.text)
            case _:
                calls = {f"fc_{call.id}": call for call in answer.calls}
                yield from _arguments(item["id"], index, calls[item["id"]])
        yield WireEvent({"type": "response.output_item.done", "output_index": index, "item": _done(item)})
    whole = _response(answer, [_done(item) for item in items])
    yield WireEvent({"type": f"response.{whole['status']}", "response": whole})


def _part(item_id: str, index: int, name: str, kind: str, pieces: list[str]) -> Iterator[WireEvent]:
    """Yield the events of one part of an item: of a summary, of a text or of a refusal."""
    is_summary = kind == "summary_text"
    position = {"item_id": item_id, "output_index": index, "summary_index" if is_summary else "content_index": 0}
    part_event = "response.reasoning_summary_part" if is_summary else "response.content_part"
    text_event = "response.reasoning_summary_text" if is_summary else f"response.{name}"
    extra: JsonObject = {"logprobs": []} if kind == "output_text" else {}
    yield WireEvent({"type": f"{part_event}.added", **position, "part": _content(kind, "")})
    for piece in pieces:
        yield WireEvent({"type": f"{text_event}.delta", **position, "delta": piece, **extra}, is_piece=True)
    text = "".join(pieces)
    member = "refusal" if kind == "refusal" else "text"
    yield WireEvent({"type": f"{text_event}.done", **position, member: text, **extra})
    yield WireEvent({"type": f"{part_event}.done", **position, "part": _content(kind, text)})


def _arguments(item_id: str, index: int, call: AnsweredCall) -> Iterator[WireEvent]:
    position = {"item_id": item_id, "output_index": index}
    kind = "response.function_call_arguments"
    for piece in call.pieces:
        yield WireEvent({"type": f"{kind}.delta", **position, "delta": piece}, is_piece=True)
    yield WireEvent({"type": f"{kind}.done", **position, "name": call.name, "arguments": call.arguments})


def _items(answer: ModelAnswer) -> list[JsonObject]:
    """Return the items of the output, finished."""
    items: list[JsonObject] = []
    if answer.thinking:
        summary = [_content("summary_text", "".join(answer.thinking))]
        items.append({"id": f"rs_{answer.number}", "type": "reasoning", "summary": summary})
    if answer.text or answer.refusal:
        kind, pieces = ("refusal", answer.refusal) if answer.refusal else ("output_text", answer.text)
        content = [_content(kind, "".join(pieces))]
        items.append({"id": f"msg_{answer.number}", "type": "message", "role": "assistant", "content": content})
    items += [
        {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in answer.calls
    ]
    return items


def _begun(item: JsonObject) -> JsonObject:
    empty: JsonObject = {"reasoning": {"summary": []}, "message": {"content": []}, "function_call": {"arguments": ""}}
    return {**item, **empty[item["type"]], "status": "in_progress"}


def _done(item: JsonObject) -> JsonObject:
    return {**item, "status": "completed"}


def _content(kind: str, text: str) -> JsonObject:
    match kind:
        case "refusal":
            return {"type": kind, "refusal": text}
        case "output_text":
            return {"type": kind, "text": text, "annotations": [], "logprobs": []}
        case _:
            return {"type": kind, "text": text}


def _response(answer: ModelAnswer, output: list[JsonObject]) -> JsonObject:
    reason = INCOMPLETE.get(answer.stop)
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed" if reason is None else "incomplete",
        "error": None,
        "incomplete_details": None if reason is None else {"reason": reason},
        "instructions": None,
        "metadata": {},
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None if answer.usage is None else _usage(answer.usage),
    }


def _usage(usage: ModelUsage) -> JsonObject:
    return {
        "input_tokens": usage.all_input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.all_input + usage.output,
    }
