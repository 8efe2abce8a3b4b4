"""Rules about lines and the outer members of messages: encoding, JSON-RPC, ids, error codes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from duologue.trace.frames import TracedFrame
from duologue.trace.rules.base import ProtocolRule, Violation, sender
from duologue.trace.wire_state import WireState

_RESERVED_CODES = range(-32768, -32099)
"""Codes that JSON-RPC reserves, without those that it leaves to implementations."""
_DEFINED_CODES = (-32700, -32600, -32601, -32602, -32603, -32800)


class Lines(ProtocolRule):
    """Each line is one message of JSON-RPC 2.0 in UTF-8, and there is nothing else."""

    numbers = (1, 2, 3, 4, 5)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a line that is not a message, or not one of JSON-RPC 2.0."""
        if not frame.dir:
            return
        self.observe(sender(frame), 1, 2, 3, 4 if frame.dir == "to_client" else 5)
        if frame.kind == "invalid":
            yield self._invalid(frame)
        elif wire.message and wire.message.get("jsonrpc") != "2.0":
            version = wire.message.get("jsonrpc", "nothing")
            yield Violation(1, f"`jsonrpc` is {version!r}, not '2.0'", (frame.number,), "$.jsonrpc")

    def _invalid(self, frame: TracedFrame) -> Violation:
        reason, frames = frame.problems[0].message, (frame.number,)
        text = frame.entry.text
        if text is None:
            return Violation(1, reason, frames, "$")
        if "\N{REPLACEMENT CHARACTER}" in text and _is_json(text):
            return Violation(2, "bytes that are not UTF-8", frames, "$")
        if text.lstrip(" \t").startswith("{"):
            return Violation(3, "not one whole message, but a part of one, or several", frames, "$")
        return Violation(4 if frame.dir == "to_client" else 5, f"a line that is not a message: {reason}", frames, "$")


class ResultOrError(ProtocolRule):
    """A response has one of the two."""

    numbers = (8,)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a response with both or neither."""
        if frame.kind not in ("response", "error") or not wire.message:
            return
        self.observe(sender(frame), 8)
        has = [name for name in ("result", "error") if name in wire.message]
        if len(has) != 1:
            problem = "both `result` and `error`" if has else "neither `result` nor `error`"
            yield Violation(8, f"a response with {problem}", (frame.number,), "$")


class RequestIds(ProtocolRule):
    """Requests have ids that are not null."""

    numbers = (136, 175)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a request with the id null."""
        if frame.kind == "request":
            rule = 175 if frame.version == 1 else 136
            self.observe(sender(frame), rule)
            if frame.id is None:
                yield Violation(rule, f"{frame.method} with the id null", (frame.number,), "$.id")


class ErrorCodes(ProtocolRule):
    """Reserved codes have the meaning that they are reserved for."""

    numbers = (185,)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a reserved code without a meaning."""
        if frame.kind == "error" and (code := wire.error_code) is not None:
            self.observe(sender(frame), 185)
            if code in _RESERVED_CODES and code not in _DEFINED_CODES:
                yield Violation(185, f"the reserved code {code} has no meaning", (frame.number,), "$.error.code")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


RULES: tuple[type[ProtocolRule], ...] = (Lines, ResultOrError, RequestIds, ErrorCodes)
