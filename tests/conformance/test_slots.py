"""Cases run a few at a time, and one that only waits lets another start."""

from __future__ import annotations

import asyncio

import pytest

from duologue.conformance.slots import MOST_WAITING, CaseSlots


async def started(slots: CaseSlots, waiting: int, others: int) -> int:
    """Start cases of which some wait for long and the others work; return how many of the others get a slot at once."""
    count, end = 0, asyncio.Event()

    async def wait() -> None:
        async with slots.take() as slot:
            slot.release()
            slot.release()
            await end.wait()

    async def work() -> None:
        nonlocal count
        async with slots.take():
            count += 1
            await end.wait()

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for case in (*[wait] * waiting, *[work] * others):
            group.create_task(case())
        for _ in range(10 * (waiting + others)):
            await asyncio.sleep(0)
        found = count
        end.set()
    return found


@pytest.mark.parametrize(("slots", "waiting", "working"), [(1, 0, 1), (2, 0, 2), (3, 0, 3), (2, 3, 2), (3, 8, 3)])
async def test_a_case_that_only_waits_lets_another_start(slots: int, waiting: int, working: int) -> None:
    assert await started(CaseSlots(slots), waiting, 20) == working


async def test_with_one_slot_cases_run_one_after_the_other_also_if_one_waits() -> None:
    assert await started(CaseSlots(1), 1, 5) == 0


async def test_only_so_many_cases_wait_without_a_slot() -> None:
    assert await started(CaseSlots(2), MOST_WAITING + 1, 5) == 1
    assert await started(CaseSlots(2), MOST_WAITING + 2, 5) == 0


async def test_a_slot_is_returned_once() -> None:
    slots = CaseSlots(2)
    for _ in range(3):
        assert await started(slots, 2, 5) == 2
