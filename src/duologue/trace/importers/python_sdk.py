"""Events of the official Python SDK, written as JSON lines by an observer.

The SDK writes no file. Its `StreamEvent` has a `direction` and a `message`; a line is both, and perhaps a Unix `time`.
The direction is that of the observing side, which the first request with a known receiver reveals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.recording.format import FrameDirection
from duologue.trace.importers.foreign_log import ForeignFrame, ForeignLog
from duologue.trace.importers.receivers import Receivers

MAX_UNDECIDED = 1000
"""Messages that wait for the first request; after that, the observer was probably a client."""

_HEAD = re.compile(rb'\s*\{[^\n]*?"direction"\s*:\s*"(?:incoming|outgoing)"')
_OF_CLIENT: dict[str, FrameDirection] = {"outgoing": "to_agent", "incoming": "to_client"}
_OF_AGENT: dict[str, FrameDirection] = {"outgoing": "to_client", "incoming": "to_agent"}


class _Event(Struct):
    direction: Literal["incoming", "outgoing"]
    message: Raw
    time: float | None = None


class _Method(Struct):
    method: str | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Event).decode
_decode_method = msgspec.json.Decoder(_Method).decode


def is_python_sdk(head: bytes) -> bool:
    """Return True if a file begins with an event."""
    return _HEAD.match(head) is not None


def read_python_sdk(log: ForeignLog) -> Iterator[ForeignFrame]:
    """Yield the messages of the events."""
    receivers, waiting = Receivers(), list[tuple[float, _Event]]()
    directions: dict[str, FrameDirection] | None = None
    for number, line in log.lines():
        try:
            event = _decode(line)
            method = _decode_method(event.message).method
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            log.leave_out(number, f"not an event with `direction` and `message`: {error}")
            continue
        waiting.append((0.0 if event.time is None else log.seconds_since_start(event.time), event))
        if directions is None:
            receiver = None if isinstance(method, UnsetType) else receivers.of_method(method)
            if receiver is not None:
                directions = _OF_CLIENT if _OF_CLIENT[event.direction] == receiver else _OF_AGENT
            elif len(waiting) == MAX_UNDECIDED:
                directions = _OF_CLIENT
        if directions is not None:
            yield from _frames(waiting, directions)
            waiting.clear()
    yield from _frames(waiting, directions or _OF_CLIENT)


def _frames(events: list[tuple[float, _Event]], directions: dict[str, FrameDirection]) -> Iterator[ForeignFrame]:
    for t, event in events:
        yield ForeignFrame(t, directions[event.direction], bytes(event.message))
