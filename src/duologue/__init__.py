"""duologue: the Agent Client Protocol in Python, both sides, every transport.

This is the front door; each name is loaded when it is first used, so that importing it costs nothing. What is not
listed here is imported from its own module, whose path is the path of its file. Inside the package only programs use
it.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duologue.agent.agent import Agent
    from duologue.agent.hosting.function_agent import run
    from duologue.agent.session import Session
    from duologue.agent.settings import Settings, choice, toggle
    from duologue.agent.turn import Turn
    from duologue.client.blocking.client import ask
    from duologue.client.connect import connect
    from duologue.client.permissions.policy import Permissions
    from duologue.client.services.terminals import Terminals
    from duologue.client.services.workspace import Workspace

__version__ = "0.1.0"

_HOME = {
    "Agent": "duologue.agent.agent",
    "Permissions": "duologue.client.permissions.policy",
    "Session": "duologue.agent.session",
    "Settings": "duologue.agent.settings",
    "Terminals": "duologue.client.services.terminals",
    "Turn": "duologue.agent.turn",
    "Workspace": "duologue.client.services.workspace",
    "ask": "duologue.client.blocking.client",
    "choice": "duologue.agent.settings",
    "connect": "duologue.client.connect",
    "run": "duologue.agent.hosting.function_agent",
    "toggle": "duologue.agent.settings",
}

__all__ = [
    "Agent",
    "Permissions",
    "Session",
    "Settings",
    "Terminals",
    "Turn",
    "Workspace",
    "__version__",
    "ask",
    "choice",
    "connect",
    "run",
    "toggle",
]

# A library is quiet until somebody asks it to speak.
logging.getLogger("duologue").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'duologue' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
