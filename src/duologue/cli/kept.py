"""Terminals whose output can still be shown after the agent has let go of them."""

from __future__ import annotations

from duologue.client.terminals import Terminals
from duologue.dialects.terms import TerminalOutput
from duologue.errors import ResourceNotFound

__all__ = ["KeptTerminals"]

MOST_KEPT = 64
"""Outputs that are kept after their end; older ones have been shown long ago."""


class KeptTerminals(Terminals):
    """protocol/v1/terminals: a tool call goes on showing the output of a terminal that was released."""

    def __init__(self) -> None:
        super().__init__()
        self._outputs: dict[str, TerminalOutput] = {}

    async def release(self, session_id: str, terminal_id: str) -> None:
        """End the command and forget the terminal, but not what it said."""
        self._outputs[terminal_id] = self.output(session_id, terminal_id)
        while len(self._outputs) > MOST_KEPT:
            del self._outputs[next(iter(self._outputs))]
        await super().release(session_id, terminal_id)

    def last_output(self, session_id: str, terminal_id: str) -> TerminalOutput | None:
        """What a terminal has said so far, or had said when it ended."""
        try:
            return self.output(session_id, terminal_id)
        except ResourceNotFound:
            return self._outputs.get(terminal_id)
