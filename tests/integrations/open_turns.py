"""Turns that stay open for a test, of our client or of a scripted one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from duologue.agent.agent import Agent
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.testing import Script, ScriptedClient, Step

__all__ = ["our_turn", "scripted_turn"]


class TurnHolder:
    """An agent whose turns wait until the test is done with them."""

    def __init__(self) -> None:
        self.agent: Agent[Settings] = Agent("holder")
        self.done = asyncio.Event()
        self._turn: asyncio.Future[Turn[Settings]] = asyncio.get_running_loop().create_future()

        @self.agent.on_prompt
        async def wait(turn: Turn[Settings]) -> None:
            self._turn.set_result(turn)
            await self.done.wait()

    async def turn(self) -> Turn[Settings]:
        """Wait until the prompt has come."""
        return await self._turn


@asynccontextmanager
async def our_turn(cwd: Path, **options: Any) -> AsyncGenerator[Turn[Settings]]:
    """Hold a turn of a session of our client, which offers its files and terminals."""
    services: dict[str, Any] = {
        "workspace": Workspace(),
        "terminals": Terminals(),
        "permissions": Permissions.allow_everything(),
        **options,
    }
    holder = TurnHolder()
    async with (
        connect(holder.agent, **services) as remote,
        remote.new_session(cwd) as session,
        asyncio.TaskGroup() as group,
    ):
        asked = group.create_task(session.ask("hold"))
        try:
            yield await holder.turn()
        finally:
            holder.done.set()
            await asked


@asynccontextmanager
async def scripted_turn(cwd: Path) -> AsyncGenerator[Turn[Settings]]:
    """Hold a turn of a client that plays a script and offers nothing: no files, no terminals."""
    steps = [
        Step(
            send={
                "id": 1,
                "method": "session/prompt",
                "params": {"sessionId": "$session", "prompt": [{"type": "text", "text": "hold"}]},
            }
        ),
        Step(expect={"id": 1, "result": {"stopReason": "end_turn"}}),
    ]
    holder = TurnHolder()
    async with asyncio.TaskGroup() as group:
        played = group.create_task(ScriptedClient(Script(step=steps)).run(holder.agent, cwd=cwd))
        try:
            yield await holder.turn()
        finally:
            holder.done.set()
            await played
