"""Exceptions that end a turn before its handler returns."""

from __future__ import annotations


class StopTurn(Exception):
    """Ends the turn with a stop reason; raised by `turn.stop()`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ToolCancelled(StopTurn):
    """The user cancelled one tool call. Catch it around the `async with` to go on; otherwise the turn ends."""

    def __init__(self, tool_call_id: str) -> None:
        super().__init__("cancelled")
        self.tool_call_id = tool_call_id
