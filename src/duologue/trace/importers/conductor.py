"""Traces of the Rust conductor (`agent-client-protocol-conductor --trace FILE`): JSON lines with times.

A message that passes through proxies is in the trace once for each part of its way. Those that the agent sends and
receives are imported; those between proxies and the client are not, nor are those of MCP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from duologue.recording.format import FrameDirection
from duologue.trace.importers.foreign_log import ForeignFrame, ForeignLog

MAX_OPEN_REQUESTS = 100_000
"""Requests of MCP that are remembered until their responses come."""

_HEAD = re.compile(rb'\s*\{\s*"type"\s*:\s*"(?:request|response|notification)"\s*,\s*"ts"')


class _Event(Struct, rename={"from_": "from"}):
    type: Literal["request", "response", "notification"]
    ts: float
    from_: str
    to: str
    protocol: str = "acp"
    id: int | str | None = None
    method: str = ""
    params: Raw = Raw(b"null")
    is_error: bool = False
    payload: Raw = Raw(b"null")


_decode = msgspec.json.Decoder(_Event).decode


def is_conductor(head: bytes) -> bool:
    """Return True if a file begins as a trace does."""
    return _HEAD.match(head) is not None


def read_conductor(log: ForeignLog) -> Iterator[ForeignFrame]:
    """Yield the messages that the agent sent and received."""
    of_mcp: set[int | str | None] = set()
    for number, line in log.lines():
        try:
            event = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            log.leave_out(number, f"not an event of a trace: {error}")
            continue
        direction = _direction(event)
        if event.protocol != "acp":
            if event.type == "request" and len(of_mcp) < MAX_OPEN_REQUESTS:
                of_mcp.add(event.id)
        elif event.type == "response" and event.id in of_mcp:
            of_mcp.discard(event.id)
        elif direction is not None:
            yield ForeignFrame(round(event.ts, 6), direction, msgspec.json.encode(_frame(event)))


def _direction(event: _Event) -> FrameDirection | None:
    if event.to == "Agent":
        return "to_agent"
    return "to_client" if event.from_ == "Agent" else None


def _frame(event: _Event) -> dict[str, Any]:
    if event.type == "response":
        return {"jsonrpc": "2.0", "id": event.id, "error" if event.is_error else "result": event.payload}
    id_ = {"id": event.id} if event.type == "request" else {}
    params = {} if bytes(event.params) == b"null" else {"params": event.params}
    return {"jsonrpc": "2.0", **id_, "method": event.method, **params}
