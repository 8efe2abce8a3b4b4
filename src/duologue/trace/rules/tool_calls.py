"""Rules about tool calls and messages of version 1: ids, status, what an approval leads to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from duologue.conversation.work_state import FINAL_STATUSES
from duologue.schema.v1.stable import STABLE
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import member, text
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import WireState

_STATUSES = STABLE.values["ToolCallStatus"]
_CHUNKS = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_TOOLS = frozenset({"tool_call", "tool_call_update", "session/request_permission"})

Incarnation: TypeAlias = tuple[str, int]
"""A session, and how often it was loaded: ids come again in a replay."""


class KnownToolCall(ProtocolRule):
    """A tool call is reported before it is changed, once, and with a known status."""

    numbers = (88, 89, 90)
    methods = _TOOLS

    def __init__(self) -> None:
        super().__init__()
        self._created: Remembered[tuple[Incarnation, str], int] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report an update of, or a question about, an unknown tool call, and a second one with the same id."""
        if frame.version != 1:
            return
        if frame.update in ("tool_call", "tool_call_update"):
            tool, status, at = text(wire.update, "toolCallId"), wire.update.get("status"), "$.params.update"
        elif frame.kind == "request" and frame.method == "session/request_permission":
            tool, status, at = wire.asked_tool, member(wire.body, "toolCall", "status"), "$.params.toolCall"
        else:
            return
        if status is not None:
            self.observe("agent", 90)
            if not isinstance(status, str) or status not in _STATUSES:
                message = f"the status {str(status)[:200]!r} is not one of {', '.join(sorted(_STATUSES))}"
                yield Violation(90, message, (frame.number,), f"{at}.status")
        if frame.update == "tool_call":
            yield from self._created_once(frame, wire, tool)
        elif tool:
            self.observe("agent", 88)
            if not wire.is_partial and (frame.session, tool) not in wire.tools:
                message = f"{frame.update or frame.method} for the unknown tool call {tool!r}"
                yield Violation(88, message, (frame.number,), f"{at}.toolCallId")

    def _created_once(self, frame: TracedFrame, wire: WireState, tool: str) -> Iterator[Violation]:
        self.observe("agent", 89)
        key = (frame.session, wire.loads.get(frame.session, 0)), tool
        first = self._created.get(key)
        if first is not None:
            message = f"a second `tool_call` with the id {tool!r}"
            yield Violation(89, message, (frame.number, first), "$.params.update.toolCallId")
        else:
            self._created[key] = frame.number


class ApprovedToolFinished(ProtocolRule):
    """An approved tool call reaches a final status."""

    numbers = (93,)
    methods = frozenset({*_TOOLS, "session/prompt", "session/cancel"})

    def __init__(self) -> None:
        super().__init__()
        self._approved: Remembered[str, dict[str, int]] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report approved tool calls that are open when their turn ends."""
        if frame.version != 1:
            return
        request = wire.request_of(frame) if frame.kind == "response" else None
        if frame.method == "session/cancel":
            self._approved.pop(frame.session, None)
        elif frame.update in ("tool_call", "tool_call_update") and text(wire.update, "status") in FINAL_STATUSES:
            self._approved.get(frame.session, {}).pop(text(wire.update, "toolCallId"), None)
        elif request is None:
            return
        elif frame.method == "session/request_permission":
            is_allowed = request.options.get(text(wire.body, "outcome", "optionId"), "").startswith("allow")
            if is_allowed and request.tool and request.session in wire.prompts:
                if request.session not in self._approved:
                    self._approved[request.session] = {}
                approved = self._approved[request.session]
                if len(approved) < MAX_APPROVED:
                    approved[request.tool] = request.number
                self.observe("agent", 93)
        elif frame.method == "session/prompt":
            for tool, asked in self._approved.pop(request.session, {}).items():
                message = f"the approved tool call {tool!r} has no final status at the end of its turn"
                yield Violation(93, message, (frame.number, asked))


class SharedMessageIds(ProtocolRule):
    """A message is over when a chunk with another id comes."""

    numbers = (94,)
    methods = frozenset(_CHUNKS)

    def __init__(self) -> None:
        super().__init__()
        self._current: Remembered[tuple[Incarnation, str], str] = Remembered()
        self._over: Remembered[tuple[Incarnation, str, str], int] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a chunk of a message that was over."""
        if frame.version != 1 or frame.update not in _CHUNKS or not (message_id := text(wire.update, "messageId")):
            return
        self.observe("agent", 94)
        session = frame.session, wire.loads.get(frame.session, 0)
        current = self._current.get((session, frame.update))
        if current == message_id:
            return
        over = self._over.get((session, frame.update, message_id))
        if over is not None:
            message = f"a chunk of the message {message_id[:200]!r}, after another message began"
            yield Violation(94, message, (frame.number, over), "$.params.update.messageId")
        if current is not None:
            self._over[session, frame.update, current] = frame.number
        self._current[session, frame.update] = message_id


MAX_APPROVED = 1000
"""Approved tool calls of a turn that are remembered."""

RULES: tuple[type[ProtocolRule], ...] = (KnownToolCall, ApprovedToolFinished, SharedMessageIds)
