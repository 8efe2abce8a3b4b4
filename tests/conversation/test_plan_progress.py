"""The progress of a plan: each step sends the complete plan again."""

from __future__ import annotations

import pytest

from duologue.conversation.plan_progress import PlanProgress
from duologue.conversation.updates import PlanEntry, PlanUpdate


class Sent:
    def __init__(self) -> None:
        self.statuses: list[list[str]] = []

    async def send(self, update: PlanUpdate) -> None:
        self.statuses.append([entry.status for entry in update.entries or []])


async def test_a_step_is_in_progress_during_its_block_and_completed_after_it() -> None:
    sent = Sent()
    plan = PlanProgress(sent.send, ["Read", PlanEntry("Write")], None)
    async with plan.step():
        pass
    async with plan.step("Write"):
        pass
    assert sent.statuses == [
        ["in_progress", "pending"],
        ["completed", "pending"],
        ["completed", "in_progress"],
        ["completed", "completed"],
    ]


async def test_a_step_whose_block_raises_is_pending_again() -> None:
    sent = Sent()
    plan = PlanProgress(sent.send, ["Read"], "named")
    with pytest.raises(RuntimeError):
        async with plan.step():
            raise RuntimeError
    assert sent.statuses == [["in_progress"], ["pending"]]


async def test_a_step_that_the_plan_does_not_have_is_added_and_one_without_a_name_must_be_pending() -> None:
    plan = PlanProgress(Sent().send, [], None)
    with pytest.raises(ValueError, match="no step of the plan is pending"):
        async with plan.step():
            pass
    async with plan.step("Check"):
        pass
    assert plan.entries == [PlanEntry("Check", status="completed")]
