"""The client side without an event loop: for scripts, and for notebooks that already run one.

import duologue.sync

with duologue.sync.connect("gemini --acp") as agent, agent.new_session("/repo") as session:
    for event in session.prompt("Fix the flaky test"):
        print(event)
"""

from __future__ import annotations

from duologue.client.blocking.client import BlockingAgent, BlockingSession, ask, connect, open
from duologue.client.blocking.turn import BlockingTurn
from duologue.client.target import use_name_resolver
from duologue.named_agents import resolve_name

use_name_resolver(resolve_name)

__all__ = ["BlockingAgent", "BlockingSession", "BlockingTurn", "ask", "connect", "open"]
