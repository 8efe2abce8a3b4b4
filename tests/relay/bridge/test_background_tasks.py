"""Background tasks pass a bridge, with the names of the other version."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue import Turn
from duologue.types import BackgroundTaskHandle
from tests.client.scripted_agent import Json, result
from tests.relay.bridge.spans import BOTH_DIRECTIONS, NewerAgent, across, agent_of_version

pytestmark = pytest.mark.timeout(60)

EXTENSION = ("async_task",)
"""Updates of version 1 that its schema does not have."""


@pytest.mark.parametrize(("version", "agent_version"), BOTH_DIRECTIONS)
async def test_a_task_is_shown_and_stopped_behind_a_bridge(tmp_path: Path, version: int, agent_version: int) -> None:
    frames: list[bytes] = []

    async def wait(task: BackgroundTaskHandle) -> None:
        await asyncio.Event().wait()

    async def work(turn: Turn[Any]) -> None:
        await turn.session.run_in_background("npm test", wait)

    agent = agent_of_version(agent_version, work)

    def observe(direction: str, frame: bytes) -> None:
        frames.append(frame)

    async with across(agent, version, agent_version, but=EXTENSION, observers=(observe,)) as remote:
        assert remote.capabilities.background_tasks
        async with remote.new_session(tmp_path) as session:
            await session.prompt("go")
            [task] = session.background_tasks
            assert (task.title, task.state) == ("npm test", "running")
            assert await session.stop_task(task.task_id)
            assert [each.state for each in session.background_tasks] == ["stopped"]
    name = b'"async_task_spawned"' if version == 1 else b'"_async_task_spawned"'
    assert any(name in frame for frame in frames)


async def test_a_stop_request_passes_to_an_agent_that_does_not_advertise_tasks(tmp_path: Path) -> None:
    agent = NewerAgent()

    async def stop(params: Json) -> Json:
        return result(stopped=True)

    agent.answers["_session/async_task/stop"] = stop
    agent.turn = [
        {"sessionUpdate": "_async_task_spawned", "asyncTaskId": "t", "name": "x", "canStop": True},
        {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"},
    ]
    async with across(agent, 1, 2, but=EXTENSION) as remote, remote.new_session(tmp_path) as session:
        await session.prompt("go")
        assert await session.stop_task("t")
        [sent] = agent.calls("_session/async_task/stop")
        assert (sent["sessionId"], sent["asyncTaskId"]) == ("s1", "t")
