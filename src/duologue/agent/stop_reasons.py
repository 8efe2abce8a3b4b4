"""How a turn can end before its handler returns."""

from __future__ import annotations

__all__ = ["StopTurn", "ToolCancelled"]


class StopTurn(Exception):
    """Ends the turn with a stop reason from anywhere inside it; raised by `turn.stop()`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ToolCancelled(StopTurn):
    """The user cancelled one tool call. Catch it around its block to go on without it; otherwise the turn ends."""

    def __init__(self, tool_call_id: str) -> None:
        super().__init__("cancelled")
        self.tool_call_id = tool_call_id
