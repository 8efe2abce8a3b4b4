"""An agent of one version, a client of another, and a bridge between them, in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import duologue
from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.client.permissions import Permissions
from duologue.client.remote import RemoteAgent
from duologue.relay.bridge.bridge import Bridge
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Servable, Transport
from duologue.transports.memory import memory_pair
from tests.agent.judge import V1, V2, Judge

SECONDS = 10.0
BOTH_WAYS = [(1, 2), (2, 1)]
"""The version of the editor, and that of the agent."""


class Near:
    """An agent of this process as something that can be opened, as often as one likes.

    Attributes:
        lines: The agent's ends of all that was opened.
    """

    def __init__(self, agent: Servable) -> None:
        self.lines: list[Transport] = []
        self._agent = agent
        self.tasks = TaskScope()

    def open(self) -> Transport:
        near, far = memory_pair()
        self.lines.append(far)
        self.tasks.start(self._agent.serve_on(far))
        return near


def speaking(version: int, handler: Any = None, **options: Any) -> Agent[Any]:
    """An agent that speaks one version alone."""
    agent: Agent[Any] = Agent("far", versions=(version,), **options)

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> Any:
        return await turn.say(f"You said {turn.text}.") if handler is None else await handler(turn)

    return agent


@asynccontextmanager
async def across(
    agent: Servable, version: int, agent_version: int, *, but: tuple[str, ...] = (), **options: Any
) -> AsyncGenerator[RemoteAgent]:
    """An agent behind a bridge; whatever the editor is told is held against the schema, and nothing stays behind.

    Messages with one of the words `but` may break the schema, because the agent means them to.
    """
    way = Near(agent)
    judge = Judge(V1 if version == 1 else V2)
    bridge = Bridge(way.open, version=version, agent_version=agent_version)
    options.setdefault("permissions", Permissions.allow_everything())
    taps = (judge, *options.pop("taps", ()))
    async with duologue.connect(bridge, versions=(version,), taps=taps, **options) as remote:
        yield remote
    await way.tasks.settle()
    assert [each for each in judge.complaints if not any(word in each for word in but)] == []
