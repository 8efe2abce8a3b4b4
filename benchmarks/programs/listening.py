"""The server of duologue's agents, without authentication."""

from __future__ import annotations

import asyncio

from duologue.transports.base import Servable
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, run


def listen(agent: Servable) -> None:
    """Serve until terminated; print the port."""
    limits = Limits()
    app = ServerApp(lambda _: agent, AccessControl(None, limits), limits)
    asyncio.run(run(app, ServerAddress(), lambda port: print(port, flush=True)))
