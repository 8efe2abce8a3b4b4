"""Reading, writing and forwarding single messages with duologue, no pipes involved."""

from __future__ import annotations

import json
from typing import Any, cast

from msgspec import UNSET

from benchmarks.programs.timing import serve
from benchmarks.wire import CHUNK_TEXTS, SESSION, chunk_messages, compact, mixed_messages
from duologue.jsonrpc.codec import (
    METHOD_AT,
    METHOD_BYTE,
    SHALLOW_BYTES,
    is_well_formed,
    parse,
    serialize_notification,
)
from duologue.jsonrpc.envelope import read_envelope, with_id
from duologue.runtime.fast_path import NotificationFastPath
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1
from duologue.schema.codec import decoder_for

DECODERS = {
    name: decoder_for(kind.params)
    for table in (v1.METHODS, v1.NOTIFICATIONS)
    for name, kind in cast("dict[str, Any]", table).items()
}

handlers = Handlers()
shortcut = NotificationFastPath(handlers)


@handlers.on(v1.SESSION_UPDATE)
async def update(context: Context, params: v1.SessionNotification) -> None:
    raise NotImplementedError("nothing is handled here")


shortcut.refresh()


def read(frame: bytes) -> Any:
    """Decode as a connection does: notifications in one pass, everything else in two."""
    if frame[METHOD_AT] == METHOD_BYTE:
        whole = shortcut.decode(frame)
        if (len(frame) <= SHALLOW_BYTES and frame.isascii()) or is_well_formed(frame):
            return whole.params
    message = parse(frame)
    return DECODERS[message.method](message.params)  # type: ignore[index, arg-type]  # there are both


def write(item: tuple[str, Any]) -> bytes:
    return serialize_notification(*item)


def build_and_write(text: str) -> bytes:
    update = v1.AgentMessageChunk(content=v1.TextContent(text=text))
    return serialize_notification("session/update", v1.SessionNotification(session_id=SESSION, update=update))


def forward(frame: bytes) -> bytes:
    """Pass a message on as the relay of `duologue serve` does."""
    read_envelope(frame)
    return frame


def relay(frame: bytes) -> bytes:
    """Pass a message on as the relay of `duologue serve --shared` does: a request goes by another id."""
    envelope = read_envelope(frame)
    return frame if envelope is None or envelope.id is UNSET else with_id(frame, 7)


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
        "relay mix": (relay, frames),
    }
)
