"""An agent of one version, served in another.

    bridge = Bridge(lambda: ProcessTransport(["some-agent"]), version=1, agent_version=2)
    await bridge.serve(StdioTransport())

Each editor gets an agent of its own. When one of the two ends, so does the other.
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
from duologue.runtime.connection import Connection, FrameObserver
from duologue.runtime.handlers import Handlers
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport
from duologue.transports.methods import INITIALIZE

__all__ = ["Bridge"]


class Bridge:
    """Serves an agent to editors that speak another version of the protocol.

    Args:
        open_agent: Makes the transport to an agent, not yet entered.
        version: What the editors speak.
        agent_version: What the agent speaks.

    Attributes:
        failure: Why an agent could not be reached, or was lost; None if its editor left first.

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
        """Talk to one editor until it leaves, or its agent does."""
        handlers = Handlers()
        between = BridgeState(self._open_agent, self._agent_version)
        dialect = VersionNegotiator(BridgeAgentHandler(between), handlers, (self._version,), EVERYTHING)
        pass_extensions(handlers, lambda: between.far)
        try:
            async with Connection(transport, handlers, first_method=INITIALIZE, observers=observers) as near:
                between.near = near
                await _until_one_ends(near, between)
                self.failure = between.failure
        finally:
            await dialect.aclose()
            await between.aclose()


async def _until_one_ends(near: Connection, between: BridgeState) -> None:
    tasks = TaskScope()
    ends: set[asyncio.Task[Any]] = {tasks.start(near.wait_closed()), tasks.start(between.is_over.wait())}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await tasks.cancel(1.0)
