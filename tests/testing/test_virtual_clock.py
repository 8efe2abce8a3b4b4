"""A clock on which timers fire without waiting, in their order."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from duologue.testing import ClockStopped, VirtualClock


async def test_an_hour_takes_no_time(virtual_time: VirtualClock) -> None:
    began = time.monotonic()
    await asyncio.sleep(3600)

    assert virtual_time.elapsed == pytest.approx(3600)
    assert time.monotonic() - began < 60


async def test_timers_fire_in_their_order_and_at_their_time(virtual_time: VirtualClock) -> None:
    fired: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        fired.append((name, round(virtual_time.elapsed, 6)))

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("c", 30.0), ("a", 0.5), ("b", 10.0), ("d", 30.0)):
            group.create_task(wait(name, seconds))

    assert fired == [("a", 0.5), ("b", 10.0), ("c", 30.0), ("d", 30.0)]


async def test_a_timeout_ends_a_wait_that_has_no_other_end(virtual_time: VirtualClock) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.Event().wait()

    assert virtual_time.elapsed == pytest.approx(30)


async def test_a_wait_that_never_ends_is_an_error() -> None:
    with pytest.raises(ClockStopped, match="every task waits for another"):
        with VirtualClock():
            await asyncio.Event().wait()
    assert asyncio.current_task() is not None
    await asyncio.sleep(0)  # the test itself is not cancelled


async def test_a_timer_that_is_repeated_forever_is_an_error() -> None:
    with pytest.raises(ClockStopped, match="more than 100 virtual seconds"):
        with VirtualClock(limit=100):
            for _ in range(1000):
                await asyncio.sleep(1)


async def test_a_thread_is_waited_for_in_real_time(virtual_time: VirtualClock) -> None:
    async with asyncio.timeout(3000):
        assert await asyncio.to_thread(lambda: 7) == 7

    assert virtual_time.elapsed < 3000


async def test_a_process_is_waited_for_in_real_time(virtual_time: VirtualClock) -> None:
    async with asyncio.timeout(300):
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(7)", stdout=subprocess.PIPE)
        output, _ = await process.communicate()

    assert output == b"7\n"


async def test_time_never_goes_back() -> None:
    loop = asyncio.get_running_loop()
    times = [loop.time()]
    with VirtualClock():
        times.append(loop.time())
        await asyncio.sleep(1000)
        times.append(loop.time())
    times.append(loop.time())
    await asyncio.sleep(0.01)
    times.append(loop.time())

    assert times == sorted(times)
    assert times[-1] - times[0] >= 1000


async def test_another_event_loop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "_selector", None)
    try:
        with pytest.raises(RuntimeError, match="a virtual clock needs an event loop of asyncio, not "):
            VirtualClock().__enter__()
    finally:
        monkeypatch.undo()
