"""Exports of acp-devtools (`acp-devtools export`), version 1: one JSON document with an array `messages`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from duologue.recording.format import FrameDirection
from duologue.trace.importers.foreign_log import ForeignFrame, ForeignLog

_HEAD = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"exportedAt"')
_BEFORE_MESSAGES = re.compile(rb'.*?"messages"\s*:\s*\[', re.DOTALL)
_DIRECTIONS: dict[str, FrameDirection] = {"editor-to-agent": "to_agent", "agent-to-editor": "to_client"}


class _Session(Struct, rename="camel"):
    agent_command: str | None = None
    started_at: float = 0.0


class _Export(Struct):
    version: int
    session: _Session


class _Message(Struct):
    timestamp: float
    direction: Literal["editor-to-agent", "agent-to-editor"]
    raw: str


_decode = msgspec.json.Decoder(_Message).decode


def is_acp_devtools(head: bytes) -> bool:
    """Return True if a file begins as an export does."""
    return _HEAD.match(head) is not None


def read_acp_devtools(log: ForeignLog) -> Iterator[ForeignFrame]:
    """Yield the messages of an export."""
    before = _BEFORE_MESSAGES.match(log.head)
    try:
        export = msgspec.json.decode(b"" if before is None else before[0] + b"]}", type=_Export)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"line 1: not an export of acp-devtools: {error}") from None
    if export.version != 1:
        raise ValueError(f"line 1: an export of version {export.version}; only version 1 can be imported")
    log.started = export.session.started_at / 1000
    log.agent = _words(export.session.agent_command or "")
    for number, item in log.items(2):
        try:
            message = _decode(item)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            log.leave_out(number, f"not a message of an export: {error}")
            continue
        t = log.seconds_since_start(message.timestamp / 1000)
        yield ForeignFrame(t, _DIRECTIONS[message.direction], message.raw.encode("utf-8", "surrogatepass"))


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return [command]
