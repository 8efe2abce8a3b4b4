"""Serve an agent of one version of the protocol in another version.

    bridge = Bridge(lambda: ProcessTransport(["some-agent"]), version=1, agent_version=2)
    await bridge.serve(StdioTransport())

Each client gets its own agent. When one of the two ends, so does the other.
"""

from __future__ import annotations

import asyncio
from typing import Any

from duologue.errors import DuologueError
from duologue.protocol.feature_filter import EVERYTHING
from duologue.protocol.negotiation import VersionNegotiator, check_versions
from duologue.relay.bridge.agent_side import BridgeAgentHandler
from duologue.relay.bridge.passthrough import pass_extensions
from duologue.relay.bridge.state import BridgeState
from duologue.relay.pump import OpenProcess
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Handlers
from duologue.runtime.observers import FrameObserver
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport
from duologue.transports.methods import INITIALIZE


class Bridge:
    """Serve an agent to clients that speak another version of the protocol.

    Args:
        open_agent: Creates the transport to a new agent.
        version: The version that the clients speak.
        agent_version: The version that the agent speaks.

    Attributes:
        failure: Why an agent could not be reached, or was lost; `None` if its client left first.

    Raises:
        ValueError: There is no such version.
    """

    def __init__(self, open_agent: OpenProcess, *, version: int, agent_version: int) -> None:
        self.failure: DuologueError | None = None
        check_versions((version, agent_version))
        self._open_agent = open_agent
        self._version = version
        self._agent_version = agent_version

    async def serve(self, transport: Transport, *, observers: tuple[FrameObserver, ...] = ()) -> None:
        """Serve one client until it leaves or its agent ends."""
        handlers = Handlers()
        state = BridgeState(self._open_agent, self._agent_version)
        negotiator = VersionNegotiator(BridgeAgentHandler(state), handlers, (self._version,), EVERYTHING)
        pass_extensions(handlers, lambda: state.agent_connection)
        try:
            async with Connection(transport, handlers, first_method=INITIALIZE, observers=observers) as connection:
                state.client_connection = connection
                await _until_one_ends(connection, state)
                self.failure = state.failure
        finally:
            await negotiator.aclose()
            await state.aclose()


async def _until_one_ends(connection: Connection, state: BridgeState) -> None:
    tasks = TaskScope()
    ends: set[asyncio.Task[Any]] = {tasks.start(connection.wait_closed()), tasks.start(state.is_over.wait())}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await tasks.cancel(1.0)
