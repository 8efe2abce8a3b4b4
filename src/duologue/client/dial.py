"""Reaching an agent and exchanging first words with it, as often as that is needed.

An agent that never answers is an error, not a wait.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from dataclasses import dataclass

from duologue.client.desk import Desk
from duologue.client.reach import Way
from duologue.client.supervise import Line
from duologue.conversation.setup import Party
from duologue.dialects.contract import AgentProxy
from duologue.dialects.terms import Welcome
from duologue.dialects.v1.client import V1AgentProxy
from duologue.errors import AgentExited, InitializeTimeout
from duologue.runtime.connection import Connection, Tap
from duologue.runtime.handlers import Handlers
from duologue.transports.base import Transport
from duologue.transports.process import ProcessTransport

__all__ = ["Dialer"]


@dataclass(frozen=True)
class Dialer:
    """Reaches one agent.

    Attributes:
        way: How.
        desk: What we can do for it.
        handlers: Where its requests arrive.
        taps: Observers of every frame of every connection.
        info: Who we are.
        seconds: Until it must have answered.
    """

    way: Way
    desk: Desk
    handlers: Handlers
    taps: tuple[Tap, ...]
    info: Party | None
    seconds: float

    async def __call__(self) -> Line:
        """A connection to an agent that has answered.

        Raises:
            StartError: It cannot be started, or never answers.
            ConnectionLost: It ends before it answers.
            ProtocolViolation: It speaks another version of the protocol.
        """
        transport = self.way.open()
        connection = Connection(transport, self.handlers, skips_noise=True, taps=self.taps)
        await connection.__aenter__()
        try:
            proxy = V1AgentProxy(connection)
            return Line(connection, proxy, await self._introduce(proxy, connection, transport))
        except BaseException:
            await connection.aclose()
            raise

    async def _introduce(self, proxy: AgentProxy, connection: Connection, transport: Transport) -> Welcome:
        us = self.info if self.info is not None else Party("duologue", importlib.metadata.version("duologue"))
        try:
            async with asyncio.timeout(self.seconds):
                return await proxy.initialize(us, self.desk.features)
        except TimeoutError:
            raise InitializeTimeout(_never_answered(transport, connection.noise, self.seconds)) from None
        except AgentExited as end:
            if noise := connection.noise:
                raise _quoting(end, noise) from None
            raise


def _quoting(end: AgentExited, noise: str) -> AgentExited:
    """There are agents that print one sentence and exit with 0; that sentence is what helps."""
    told = AgentExited(f"{end}; it printed {noise}", exit_code=end.exit_code, signal=end.signal)
    told.stderr = end.stderr
    return told


def _never_answered(transport: Transport, noise: str, seconds: float) -> str:
    said = transport.stderr_tail if isinstance(transport, ProcessTransport) else ""
    printed = f"; it printed {noise}" if noise else ""
    told = f"; the last it wrote to stderr:\n{said}" if said else ""
    return f"the agent did not answer `initialize` within {seconds:g} s; is it an ACP agent?{printed}{told}"
