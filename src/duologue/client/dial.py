"""Reaching an agent and exchanging first words with it, as often as that is needed.

An agent that never answers is an error, not a wait.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from dataclasses import dataclass

from msgspec import structs

from duologue.client.desk import Desk
from duologue.client.login import Login, can_use_terminal
from duologue.client.reach import Way
from duologue.client.supervise import Line
from duologue.compat.dialects import Dialect
from duologue.conversation.content import JsonObject
from duologue.conversation.setup import Party
from duologue.dialects.contract import AgentProxy
from duologue.dialects.negotiation import introduce
from duologue.dialects.terms import ClientFeatures, Welcome
from duologue.errors import AgentExited, ConnectionLost, InitializeTimeout, SpeaksVersion1, StartError
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
        handlers: The caller's table; each connection works with a copy of it.
        taps: Observers of every frame of every connection.
        info: Who we are.
        seconds: Until it must have answered.
        versions: Of the protocol, that we speak.
        unstable: The unstable features that are switched on, by name.
        login: How to log in; a login in a terminal is advertised only where one can run.
        dialect: What the agent speaks, if that is an older dialect.
        meta: Custom capabilities, advertised in `_meta` of ours.
    """

    way: Way
    desk: Desk
    handlers: Handlers
    taps: tuple[Tap, ...]
    info: Party | None
    seconds: float
    versions: tuple[int, ...]
    unstable: frozenset[str]
    login: Login | None
    dialect: Dialect | None = None
    meta: JsonObject | None = None

    async def __call__(self) -> Line:
        """A connection to an agent that has answered.

        Raises:
            StartError: It cannot be started, or never answers.
            ConnectionLost: It ends before it answers.
            ProtocolViolation: It speaks another version of the protocol.
        """
        try:
            return await self._dial(self.versions)
        except SpeaksVersion1:
            if 1 not in self.versions:
                raise
            return await self._dial((1,))

    @property
    def _features(self) -> ClientFeatures:
        can_log_in = can_use_terminal(self.way, self.login)
        return structs.replace(self.desk.features, terminal_login=can_log_in, meta=self.meta)

    async def _dial(self, versions: tuple[int, ...]) -> Line:
        transport = self.way.open()
        # A copy for each connection: what one of them registers is bound to its own sessions.
        spoken = self._in_dialect(transport)
        connection = Connection(spoken, self.handlers.copy(), skips_noise=True, taps=self.taps)
        await connection.__aenter__()
        try:
            return Line(connection, *await self._introduce(versions, connection, transport))
        except BaseException:
            await connection.aclose()
            raise

    def _in_dialect(self, transport: Transport) -> Transport:
        if self.dialect is None:
            return transport
        from duologue.compat.normaliser import Normaliser
        from duologue.compat.transport import NormalisedTransport

        credentials = None if self.login is None else self.login.credentials_for
        return NormalisedTransport(transport, Normaliser(self.dialect, "client", credentials=credentials))

    async def _introduce(
        self, versions: tuple[int, ...], connection: Connection, transport: Transport
    ) -> tuple[AgentProxy, Welcome]:
        us = self.info if self.info is not None else Party("duologue", importlib.metadata.version("duologue"))
        again = self.way.can_be_taken_again
        try:
            async with asyncio.timeout(self.seconds):
                return await introduce(
                    connection, self.desk, us, self._features, versions, self.unstable, can_start_over=again
                )
        except TimeoutError:
            raise InitializeTimeout(_never_answered(transport, connection.noise, self.seconds)) from None
        except AgentExited as end:
            raise _before_it_answered(end, connection.noise) from None
        except ConnectionLost as lost:
            # Over HTTP nobody knows before the first request whether there is a server at all.
            if isinstance(lost.__cause__, StartError):
                raise lost.__cause__ from None
            raise


def _before_it_answered(end: AgentExited, noise: str) -> AgentExited:
    """There are agents that print one sentence and exit with 0; that sentence is what helps, and else a hint."""
    printed = f"; it printed {noise}" if noise else ""
    hint = "" if end.stderr else "; is it an ACP agent? Many need a flag for that, such as --acp"
    how = str(end).partition("\n")[0]
    told = f"{how} before it answered `initialize`{printed}{hint}"
    return AgentExited(told, exit_code=end.exit_code, signal=end.signal, stderr=end.stderr)


def _never_answered(transport: Transport, noise: str, seconds: float) -> str:
    said = transport.stderr_tail if isinstance(transport, ProcessTransport) else ""
    printed = f"; it printed {noise}" if noise else ""
    told = f"; the last it wrote to stderr:\n{said}" if said else ""
    return f"the agent did not answer `initialize` within {seconds:g} s; is it an ACP agent?{printed}{told}"
