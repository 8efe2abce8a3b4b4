"""The steps of a plan, shown while they are worked on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.schema import v1
from duologue.types import PlanEntry
from tests.agent.wire_client import agent_with, client_for


async def statuses_of(tmp_path: Path, answer: object) -> list[list[str]]:
    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        await client.prompt(await client.new(), "go")
        return [[str(entry.status) for entry in plan.entries] for plan in client.of(v1.Plan)]


async def test_each_step_is_in_progress_inside_its_block_and_completed_after_it(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        plan = await turn.plan("Read", PlanEntry("Write", priority="high"))
        async with plan.step():
            pass
        async with plan.step("Write"):
            pass
        async with plan.step("Check"):
            pass
        assert [entry.priority for entry in plan.entries] == ["medium", "high", "medium"]

    assert await statuses_of(tmp_path, answer) == [
        ["pending", "pending"],
        ["in_progress", "pending"],
        ["completed", "pending"],
        ["completed", "in_progress"],
        ["completed", "completed"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "completed"],
    ]


async def test_a_step_that_fails_is_pending_again_and_without_pending_steps_one_must_be_named(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        plan = await turn.plan("Read")
        with pytest.raises(OSError, match="no disk"):
            async with plan.step():
                raise OSError("no disk")
        async with plan.step():
            with pytest.raises(ValueError, match="no step of the plan is pending"):
                await plan.step().__aenter__()

    assert await statuses_of(tmp_path, answer) == [
        ["pending"],
        ["in_progress"],
        ["pending"],
        ["in_progress"],
        ["completed"],
    ]
