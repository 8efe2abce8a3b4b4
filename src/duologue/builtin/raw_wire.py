"""The wire of a process that is this agent's alone, for the few commands that reach past the protocol.

`/noise` writes lines to it that no message makes, and `/crash` ends the process. Where the agent is an object inside
another program there is no such wire, and both commands only say so.
"""

from __future__ import annotations

from contextvars import ContextVar

from duologue.transports.base import Servable, Transport

__all__ = ["OwnProcess", "own_wire"]

own_wire: ContextVar[Transport | None] = ContextVar("own_wire", default=None)
"""The real stdout (and stdin) of this process, if the agent that handles this turn has it for itself."""


class OwnProcess:
    """An agent that has this process, its stdin and its stdout for itself."""

    def __init__(self, agent: Servable) -> None:
        self._agent = agent

    async def serve(self, transport: Transport) -> None:
        """Serve the agent; everything that is done for this client knows the wire."""
        own_wire.set(transport)
        await self._agent.serve(transport)
