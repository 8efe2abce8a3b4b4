"""duologue: the Agent Client Protocol in Python, both sides, every transport.

Each name is loaded when it is first used, so that importing the package costs nothing. Further public modules:
`duologue.types` (classes to annotate with or to construct), `duologue.events`, `duologue.errors`, `duologue.sync`,
`duologue.testing`, `duologue.recording`, `duologue.integrations`; for work on the wire `duologue.schema` and
`duologue.lowlevel`. Inside the package only programs import from here.
"""

from __future__ import annotations

from duologue.lazy_exports import lazy_exports

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than everything else here
__version__ = "0.1.0"

if TYPE_CHECKING:
    from duologue.agent.agent import Agent as Agent
    from duologue.agent.hosting.function_agent import run as run
    from duologue.agent.session import Session as Session
    from duologue.agent.settings import Settings as Settings
    from duologue.agent.settings import choice as choice
    from duologue.agent.settings import toggle as toggle
    from duologue.agent.turn import Turn as Turn
    from duologue.client.permissions.policy import Permissions as Permissions
    from duologue.client.services.terminals import Terminals as Terminals
    from duologue.client.services.workspace import Workspace as Workspace
    from duologue.named_agents import connect as connect
    from duologue.sync import ask as ask
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "duologue.agent.agent": "Agent",
            "duologue.agent.hosting.function_agent": "run",
            "duologue.agent.session": "Session",
            "duologue.agent.settings": "Settings choice toggle",
            "duologue.agent.turn": "Turn",
            "duologue.client.permissions.policy": "Permissions",
            "duologue.client.services.terminals": "Terminals",
            "duologue.client.services.workspace": "Workspace",
            "duologue.named_agents": "connect",
            "duologue.sync": "ask",
        },
    )
