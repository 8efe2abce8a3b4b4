"""Reading, writing and forwarding single messages the way the official Python SDK does, no pipes involved."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
from typing import Any

from acp import schema

from benchmarks.programs.timing import serve
from benchmarks.wire import CHUNK_TEXTS, SESSION, chunk_messages, compact, mixed_messages

MODELS = {
    "initialize": schema.InitializeRequest,
    "session/new": schema.NewSessionRequest,
    "session/prompt": schema.PromptRequest,
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
}


def read(frame: bytes) -> Any:
    message = json.loads(frame)
    return MODELS[message["method"]].model_validate(message["params"])


def write(item: tuple[str, Any]) -> bytes:
    method, model = item
    params = model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


def build_and_write(text: str) -> bytes:
    content = schema.TextContentBlock(type="text", text=text)
    update = schema.AgentMessageChunk(session_update="agent_message_chunk", content=content)
    return write(("session/update", schema.SessionNotification(session_id=SESSION, update=update, field_meta=None)))


def forward(frame: bytes) -> bytes:
    """Forward as models: connections of the SDK receive and send models only."""
    message = json.loads(frame)
    model = MODELS[message["method"]].model_validate(message["params"])
    return write((message["method"], model))


mixed = mixed_messages()
frames = [compact(message) for message in mixed]

serve(
    {
        "read mix": (read, frames),
        "read chunks": (read, [compact(message) for message in chunk_messages()]),
        "write mix": (write, [(message["method"], read(frame)) for message, frame in zip(mixed, frames, strict=True)]),
        "build and write chunks": (build_and_write, CHUNK_TEXTS * 12),
        "forward mix": (forward, frames),
        "relay mix": (forward, frames),
    }
)
