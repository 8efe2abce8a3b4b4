"""Reading, writing and forwarding single messages with duologue, no pipes involved."""

from __future__ import annotations

import json
from typing import Any, cast

from benchmarks.programs.timing import serve
from benchmarks.wire import CHUNK_TEXTS, SESSION, chunk_messages, compact, mixed_messages
from duologue.jsonrpc.codec import parse, serialize_notification, serialize_request
from duologue.schema import v1
from duologue.schema.codec import decoder_for

DECODERS = {
    name: decoder_for(kind.params)
    for table in (v1.METHODS, v1.NOTIFICATIONS)
    for name, kind in cast("dict[str, Any]", table).items()
}


def read(frame: bytes) -> Any:
    message = parse(frame)
    return DECODERS[message.method](message.params)  # type: ignore[index, arg-type]  # there are both


def write(item: tuple[str, Any]) -> bytes:
    return serialize_notification(*item)


def build_and_write(text: str) -> bytes:
    update = v1.AgentMessageChunk(content=v1.TextContent(text=text))
    return serialize_notification("session/update", v1.SessionNotification(session_id=SESSION, update=update))


def forward(frame: bytes) -> bytes:
    parse(frame)
    return frame


def forward_under_new_id(frame: bytes) -> bytes:
    message = parse(frame)
    assert isinstance(message.method, str)
    return serialize_request(7, message.method, message.params)


mixed = mixed_messages()
frames = [compact(message) for message in mixed]
for message, frame in zip(mixed, frames, strict=True):
    written = json.loads(write((message["method"], read(frame))))
    assert written["params"] == message["params"], (message, written)

serve(
    {
        "read mix": (read, frames),
        "read chunks": (read, [compact(message) for message in chunk_messages()]),
        "write mix": (write, [(message["method"], read(frame)) for message, frame in zip(mixed, frames, strict=True)]),
        "build and write chunks": (build_and_write, CHUNK_TEXTS * 12),
        "forward mix": (forward, frames),
        "forward mix, new ids": (forward_under_new_id, frames),
    }
)
