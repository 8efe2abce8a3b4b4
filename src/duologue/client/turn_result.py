"""Result of a turn so far: its text, tool calls and plan, limited in bytes as the transcript is."""

from __future__ import annotations

import math
from sys import getsizeof

from duologue.client.quirks import failure_in
from duologue.conversation.memory_size import memory_size
from duologue.errors import TurnIncomplete, TurnTimeout
from duologue.events import Event, Message, Plan, Text, TitleChanged, ToolCall
from duologue.sanitize import quote

_PIECE_BYTES = 64
"""Memory for a piece of text in addition to its characters."""

_MOST_DENIED = 100
"""Denied actions that are named; an agent may try as often as it likes."""

_ENDS = {
    "end_turn": "the agent went on without a permission",
    "refusal": "the agent refused the prompt",
    "max_tokens": "the answer was cut off at the limit of tokens",
    "max_turn_requests": "the turn was cut off at the agent's limit of requests to its model",
    "cancelled": "the turn was cancelled",
}
"""Meaning of each stop reason for the answer."""


class TurnResult:
    """Result of one turn.

    Attributes:
        plan: The last plan of the turn.
        failure: Why the model failed, if the agent reports that in an update of a turn that ended well.
        denied: What the client did not permit in this turn.
        is_truncated: The beginning of the text, or the oldest tool calls, were dropped.

    Args:
        max_bytes: Memory limit of the text, and another one of the tool calls; `None`: no limit.
    """

    def __init__(self, max_bytes: int | None) -> None:
        self.plan: Plan | None = None
        self.failure: str | None = None
        self.denied: list[str] = []
        self.is_truncated = False
        self._max_bytes: float = math.inf if max_bytes is None else max_bytes
        self._texts: dict[str | None, list[str]] = {}
        self._text_bytes = 0
        self._tool_calls: dict[str, ToolCall] = {}
        self._tool_bytes = 0

    @property
    def text(self) -> str:
        """Text of the agent's messages."""
        return "".join(text for pieces in self._texts.values() for text in pieces)

    @property
    def last_text(self) -> str:
        """Text of the agent's last message."""
        return "".join(next(reversed(self._texts.values()), ()))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Tool calls as they are now."""
        return list(self._tool_calls.values())

    def record(self, event: Event) -> None:
        """Add one event of the turn to the result."""
        match event:
            case Text():
                self.add_text(event.message_id, event.text)
            case Message(role="agent"):
                self._texts[event.message_id] = [event.text]
                self._text_bytes += getsizeof(event.text)
            case ToolCall():
                self._tool_calls[event.tool_call_id] = event
                self._tool_bytes += memory_size(event)
                if self._tool_bytes > self._max_bytes:
                    self._shrink_tool_calls(int(self._max_bytes))
            case Plan():
                self.plan = event
            case TitleChanged():
                self.failure = failure_in(event.meta, self.failure)
            case _:
                pass

    def add_denied(self, what: str) -> None:
        """Add an action that the client did not permit."""
        if len(self.denied) < _MOST_DENIED and what not in self.denied:
            self.denied.append(what)

    def check(self, stop_reason: str | None) -> None:
        """Check that the turn ended with `end_turn` and without a denied permission.

        Raises:
            TurnIncomplete: It did not.
        """
        if stop_reason == "end_turn" and not self.denied:
            return
        message = _ENDS.get(stop_reason or "", f"the turn ended with the stop reason {quote(stop_reason)}")
        if self.denied:
            message += f"; not permitted: {', '.join(self.denied)} (give `permissions` that allow it)"
        message += "; `text` of this error is the answer so far, and `check=False` returns it"
        raise TurnIncomplete(message, text=self.text, stop_reason=stop_reason, denied=self.denied)

    def timeout_error(self, seconds: float, stop_reason: str | None) -> TurnTimeout:
        """Return the error of a turn that was cancelled after so many seconds."""
        message = f"the agent did not answer within {seconds:g} s, so the turn was cancelled"
        return TurnTimeout(message, text=self.text, stop_reason=stop_reason, denied=self.denied)

    def add_text(self, message_id: str | None, text: str) -> None:
        """Add a chunk of a message of the agent."""
        try:
            self._texts[message_id].append(text)
        except KeyError:
            self._texts[message_id] = [text]
        self._text_bytes += _PIECE_BYTES + (len(text) if text.isascii() else getsizeof(text))
        if self._text_bytes > self._max_bytes:
            self._shrink_text(int(self._max_bytes))

    def _shrink_text(self, limit: int) -> None:
        """Join the pieces of each message; if that is not enough, keep the last three quarters of the limit."""
        joined = [(message_id, "".join(pieces)) for message_id, pieces in self._texts.items()]
        self._text_bytes = sum(_PIECE_BYTES + getsizeof(text) for _, text in joined)
        capacity = limit * 3 // 4 if self._text_bytes > limit * 7 // 8 else limit
        remaining: list[tuple[str | None, list[str]]] = []
        for message_id, text in reversed(joined):
            size = _PIECE_BYTES + getsizeof(text)
            if size > capacity:
                self.is_truncated = True
                remaining.append((message_id, [text[len(text) - len(text) * capacity // size :]]))
                self._text_bytes = limit * 3 // 4
                break
            remaining.append((message_id, [text]))
            capacity -= size
        self._texts = dict(reversed(remaining))

    def _shrink_tool_calls(self, limit: int) -> None:
        weights = {tool_call_id: memory_size(call) for tool_call_id, call in self._tool_calls.items()}
        self._tool_bytes = sum(weights.values())
        goal = limit * 3 // 4 if self._tool_bytes > limit * 7 // 8 else limit
        for tool_call_id, weight in weights.items():
            if self._tool_bytes <= goal:
                break
            self.is_truncated = True
            self._tool_bytes -= weight
            del self._tool_calls[tool_call_id]
