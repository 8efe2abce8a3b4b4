"""How duologue's agents listen: the server that `agent.serve()` runs, with a door that is open."""

from __future__ import annotations

import asyncio

from duologue.transports.asgi.doors import Doors
from duologue.transports.asgi.endpoint import Endpoint
from duologue.transports.asgi.limits import Limits
from duologue.transports.asgi.running import Place, run
from duologue.transports.base import Servable


def listen(agent: Servable) -> None:
    """Serve until told to stop; prints the port."""
    limits = Limits()
    app = Endpoint(lambda _: agent, Doors(None, limits), limits)
    asyncio.run(run(app, Place(), lambda port: print(port, flush=True)))
