"""An agent of one version, a client of another, and a bridge between them, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import duologue
from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.policy import Permissions
from duologue.relay.bridge.bridge import Bridge
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Servable, Transport
from duologue.transports.memory import MemoryTransport, memory_pair
from tests.agent.v2.wire_client import WireClient
from tests.agent.wire_validator import V1, V2, WireValidator
from tests.client.scripted_agent import Json, ScriptedAgent, result

SECONDS = 60.0
BOTH_DIRECTIONS = [(1, 2), (2, 1)]
"""The version of the editor, and that of the agent."""


class LocalTarget:
    """Open connections to an agent in this process.

    Attributes:
        lines: The agent's ends of all connections.
        judges: Validate the messages to our own agents against the schema.
    """

    def __init__(self, agent: Servable) -> None:
        self.connections: list[Transport] = []
        self.validators: list[WireValidator] = []
        self._agent = agent
        self.tasks = TaskScope()

    def open(self) -> Transport:
        near, far = memory_pair()
        self.connections.append(far)
        agent = self._agent
        if isinstance(agent, Agent):
            self._validate(agent, far)  # pyright: ignore[reportUnknownArgumentType]  # of whatever settings it is
        else:
            self.tasks.start(agent.serve(far))
        return near

    def _validate(self, agent: Agent[Any], far: Transport) -> None:
        self.validators.append(validator := WireValidator(V2 if agent._protocol_versions == (2,) else V1))
        self.tasks.start(agent.serve(far, observers=(validator,)))

    @property
    def complaints(self) -> list[str]:
        """The schema violations in messages to the agents."""
        return [complaint for validator in self.validators for complaint in validator.complaints]


def agent_of_version(version: int, handler: Any = None, **options: Any) -> Agent[Any]:
    """Return an agent that speaks one version only."""
    agent: Agent[Any] = Agent("far", protocol_versions=(version,), unstable=True, **options)

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> Any:
        return await turn.say(f"You said {turn.text}.") if handler is None else await handler(turn)

    return agent


@asynccontextmanager
async def across(
    agent: Servable, version: int, agent_version: int, *, but: tuple[str, ...] = (), **options: Any
) -> AsyncGenerator[RemoteAgent]:
    """Connect to an agent through a bridge; validate all messages, and check at the end that no task is left.

    Messages that contain one of `but` may violate the schema, because the agent intends that.
    """
    target = LocalTarget(agent)
    validator = WireValidator(V1 if version == 1 else V2)
    bridge = Bridge(target.open, version=version, agent_version=agent_version)
    options.setdefault("permissions", Permissions.allow_everything())
    observers = (validator, *options.pop("observers", ()))
    async with duologue.connect(
        bridge, protocol_versions=(version,), observers=observers, unstable=True, **options
    ) as remote:
        yield remote
    await target.tasks.settle()
    complaints = [*validator.complaints, *target.complaints]
    assert [each for each in complaints if not any(word in each for word in but)] == []


class EndingClient(WireClient):
    """Also knows when it is alone.

    Attributes:
        ended: Nothing more comes.
    """

    def __init__(self, wire: MemoryTransport, version: int) -> None:
        super().__init__(wire)
        self.validator = WireValidator(V1 if version == 1 else V2)
        self.ended = asyncio.Event()

    async def read(self) -> None:
        await super().read()
        self.ended.set()


class NewerAgent(ScriptedAgent):
    """Answer a prompt of version 2 when it is inserted, and send the scripted updates after that.

    Attributes:
        turn: The updates of each turn, the state that ends it among them.
    """

    def __init__(self, capabilities: Json | None = None) -> None:
        super().__init__()
        info = {"name": "far", "version": "1"}
        self.welcome = {"protocolVersion": 2, "info": info, "capabilities": capabilities or {"session": {}}}
        self.turn: list[Json] = []
        self.answers["session/prompt"] = self._insert

    async def _insert(self, params: Json) -> Json:
        return result(messageId="m1")

    async def _answer(self, message: Json) -> None:
        await super()._answer(message)
        if message["method"] == "session/prompt":
            self.update(*self.turn)

    def sends(self, *updates: Json, **end: Any) -> None:
        """Set the updates of each turn."""
        idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", **end}
        self.turn = [{"sessionUpdate": "state_update", "state": "running"}, *updates, idle]


@asynccontextmanager
async def wire_across(agent: Servable, version: int, agent_version: int) -> AsyncGenerator[EndingClient]:
    """Connect a raw wire client through a bridge; check at the end that no task is left."""
    target = LocalTarget(agent)
    near, far = memory_pair()
    client = EndingClient(near, version)
    bridge = Bridge(target.open, version=version, agent_version=agent_version)
    async with asyncio.timeout(SECONDS):
        serving = [target.tasks.start(bridge.serve(far)), target.tasks.start(client.read())]
        yield client
        await client.hang_up()
        await asyncio.gather(*serving)
        await target.tasks.settle()
    assert [*client.validator.complaints, *target.complaints] == []


async def initialize(client: WireClient, version: int, **capabilities: Any) -> Json:
    """Send `initialize` in either version."""
    if version == 2:
        return await client.initialize(**capabilities)
    return await client.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)


async def opened(client: WireClient, version: int, **capabilities: Any) -> str:
    """Send `initialize` and create a session; return its id."""
    await initialize(client, version, **capabilities)
    more: Json = {"mcpServers": []} if version == 1 else {}
    return str((await client.ask("session/new", cwd="/tmp", **more))["sessionId"])
