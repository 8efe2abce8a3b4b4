"""The log of Zed: *dev: open acp logs*, *Copy All Messages*, pasted into a file; a JSON array without times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from duologue.recording.format import FrameDirection
from duologue.trace.importers.foreign_log import ForeignFrame, ForeignLog

_HEAD = re.compile(rb'\s*\[\s*\{\s*"_(?:direction|type)"')
_DIRECTIONS: dict[str, FrameDirection] = {"outgoing": "to_agent", "incoming": "to_client"}


class _Message(Struct):
    direction: Literal["incoming", "outgoing", "stderr"] = msgspec.field(name="_direction")
    type: Literal["request", "response", "notification", "stderr"] = msgspec.field(name="_type")
    id: int | str | None = None
    method: str = ""
    params: Raw = Raw(b"null")


class _Error(Struct, forbid_unknown_fields=True):
    code: int
    message: str
    data: Any = None


_decode = msgspec.json.Decoder(_Message).decode
_decode_error = msgspec.json.Decoder(_Error).decode


def is_zed(head: bytes) -> bool:
    """Return True if a file begins as the log of Zed does."""
    return _HEAD.match(head) is not None


def read_zed(log: ForeignLog) -> Iterator[ForeignFrame]:
    """Yield the messages, and what the agent wrote to stderr."""
    for number, item in log.items(1):
        try:
            message = _decode(item)
            if message.type == "stderr":
                yield ForeignFrame(0.0, "", msgspec.json.decode(message.params, type=str).encode() + b"\n")
                continue
            direction = _DIRECTIONS[message.direction]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as error:
            log.leave_out(number, f"not a message of Zed's log: {error}")
            continue
        yield ForeignFrame(0.0, direction, msgspec.json.encode(_frame(message)))


def _frame(message: _Message) -> dict[str, Any]:
    id_ = {} if message.type == "notification" else {"id": message.id}
    if message.type == "response":
        return {"jsonrpc": "2.0", **id_, "error" if _is_error(message.params) else "result": message.params}
    params = {} if bytes(message.params) == b"null" else {"params": message.params}
    return {"jsonrpc": "2.0", **id_, "method": message.method, **params}


def _is_error(result: Raw) -> bool:
    """Return True if a response is an error: the log has both in the same member."""
    try:
        _decode_error(result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
