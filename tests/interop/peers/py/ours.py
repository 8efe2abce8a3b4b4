"""Our built-in agent as a web application in a web server with settings of its own, behind a load balancer."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import os
import socket

import uvicorn
from gate import gated

from duologue.builtin.agent import builtin_agent

listener = socket.create_server(("127.0.0.1", 0))
print(f"ws://127.0.0.1:{listener.getsockname()[1]}/acp", flush=True)
app = gated(builtin_agent().asgi(token=os.environ["INTEROP_TOKEN"]))
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
