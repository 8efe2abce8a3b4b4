"""Reaching an agent and exchanging first words with it, as often as that is needed.

An agent that never answers is an error, not a wait.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from dataclasses import dataclass

from msgspec import structs

from duologue.client.auth import AuthOptions, can_use_terminal
from duologue.client.request_handler import ClientRequestHandler
from duologue.client.supervisor import LiveConnection
from duologue.client.target import AgentTarget
from duologue.compat.dialects import Dialect
from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation
from duologue.errors import AgentExited, ConnectionLost, DowngradeRequired, InitializeTimeout, StartError
from duologue.protocol.interfaces import AgentProxy
from duologue.protocol.negotiation import initialize
from duologue.protocol.values import ClientCapabilities, InitializeResult
from duologue.runtime.connection import Connection, FrameObserver
from duologue.runtime.handlers import Handlers
from duologue.transports.base import Transport
from duologue.transports.process.transport import ProcessTransport

__all__ = ["Connector"]


@dataclass(frozen=True)
class Connector:
    """Reaches one agent.

    Attributes:
        way: How.
        desk: What we can do for it.
        handlers: The caller's table; each connection works with a copy of it.
        observers: Observers of every frame of every connection.
        info: Who we are.
        seconds: Until it must have answered.
        versions: Of the protocol, that we speak.
        unstable: The unstable features that are switched on, by name.
        login: How to log in; a login in a terminal is advertised only where one can run.
        dialect: What the agent speaks, if that is an older dialect.
        meta: Custom capabilities, advertised in `_meta` of ours.
    """

    target: AgentTarget
    request_handler: ClientRequestHandler
    handlers: Handlers
    observers: tuple[FrameObserver, ...]
    client_info: Implementation | None
    startup_timeout: float
    protocol_versions: tuple[int, ...]
    unstable: frozenset[str]
    login: AuthOptions | None
    dialect: Dialect | None = None
    meta: JsonObject | None = None

    async def __call__(self) -> LiveConnection:
        """A connection to an agent that has answered.

        Raises:
            StartError: It cannot be started, or never answers.
            ConnectionLost: It ends before it answers.
            ProtocolViolation: It speaks another version of the protocol.
        """
        try:
            return await self._connect(self.protocol_versions)
        except DowngradeRequired:
            if 1 not in self.protocol_versions:
                raise
            return await self._connect((1,))

    @property
    def _features(self) -> ClientCapabilities:
        can_log_in = can_use_terminal(self.target, self.login)
        return structs.replace(self.request_handler.capabilities, terminal_login=can_log_in, meta=self.meta)

    async def _connect(self, versions: tuple[int, ...]) -> LiveConnection:
        transport = self.target.open()
        # A copy for each connection: what one of them registers is bound to its own sessions.
        spoken = self._in_dialect(transport)
        connection = Connection(spoken, self.handlers.copy(), ignore_stray_output=True, observers=self.observers)
        await connection.__aenter__()
        try:
            return LiveConnection(connection, *await self._initialize(versions, connection, transport))
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

    async def _initialize(
        self, versions: tuple[int, ...], connection: Connection, transport: Transport
    ) -> tuple[AgentProxy, InitializeResult]:
        us = (
            self.client_info
            if self.client_info is not None
            else Implementation("duologue", importlib.metadata.version("duologue"))
        )
        again = self.target.is_reopenable
        try:
            async with asyncio.timeout(self.startup_timeout):
                return await initialize(
                    connection, self.request_handler, us, self._features, versions, self.unstable, can_start_over=again
                )
        except TimeoutError:
            raise InitializeTimeout(_never_answered(transport, connection.stray_output, self.startup_timeout)) from None
        except AgentExited as end:
            raise _before_it_answered(end, connection.stray_output) from None
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
