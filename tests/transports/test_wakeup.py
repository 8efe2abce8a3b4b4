"""Tasks that wait for a wakeup: all are woken, in order, and each costs the same however many wait."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType

from duologue.transports.buffered import Wakeup


async def waiting(wakeup: Wakeup, count: int, woken: list[int]) -> list[asyncio.Task[None]]:
    """Return tasks that wait, and then append their number."""

    async def wait(number: int) -> None:
        await wakeup.wait()
        woken.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_all_waiting_tasks_are_woken_in_order() -> None:
    wakeup, woken = Wakeup(), list[int]()
    tasks = await waiting(wakeup, 100, woken)

    wakeup.set()
    await asyncio.gather(*tasks)

    assert woken == list(range(100))


async def test_a_call_of_set_is_not_remembered() -> None:
    wakeup, woken = Wakeup(), list[int]()
    wakeup.set()
    tasks = await waiting(wakeup, 1, woken)

    assert woken == []
    wakeup.set()
    await asyncio.gather(*tasks)


async def test_cancelled_tasks_leave_the_others_waiting() -> None:
    wakeup, woken = Wakeup(), list[int]()
    tasks = await waiting(wakeup, 10, woken)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.wait(tasks[::2])
    later = await waiting(wakeup, 1, woken)

    wakeup.set()
    await asyncio.gather(*tasks[1::2], *later)

    assert woken == [1, 3, 5, 7, 9, 0]


async def test_a_task_that_is_cancelled_when_it_was_just_woken_stays_cancelled() -> None:
    wakeup, woken = Wakeup(), list[int]()
    (task,) = await waiting(wakeup, 1, woken)
    wakeup.set()
    task.cancel()
    others = await waiting(wakeup, 2, woken)

    assert task.cancelled()
    wakeup.set()
    await asyncio.gather(*others)
    assert woken == [0, 1]


async def test_a_task_costs_the_same_however_many_wait() -> None:
    wakeup, woken, calls = Wakeup(), list[int](), 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def cost() -> int:
        nonlocal calls
        calls = 0
        sys.setprofile(count)
        tasks.extend(await waiting(wakeup, 500, woken))
        sys.setprofile(None)
        return calls

    tasks: list[asyncio.Task[None]] = []
    first, *_, last = [await cost() for _ in range(4)]
    wakeup.set()
    await asyncio.gather(*tasks)

    assert last <= first * 1.1
    assert len(woken) == 2000
