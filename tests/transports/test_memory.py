"""Both ends in one process keep the promises of a real connection."""

from __future__ import annotations

import asyncio

import pytest

from duologue.errors import ConnectionLost, OutputLimitExceeded
from duologue.transports.memory import memory_pair


async def test_all_frames_sent_so_far_are_received_at_once_and_in_order() -> None:
    one, other = memory_pair()
    for number in range(100):
        one.send(b"%d" % number)

    assert await other.receive() == [b"%d" % number for number in range(100)]


async def test_receiving_waits_for_the_first_frame() -> None:
    one, other = memory_pair()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        received = tasks.create_task(other.receive())
        await asyncio.sleep(0)
        assert not received.done()
        one.send(b"{}")
    assert received.result() == [b"{}"]


async def test_closing_one_end_ends_the_other_after_what_was_sent() -> None:
    one, other = memory_pair()
    async with one:
        one.send(b"last")

    assert await other.receive() == [b"last"]
    assert await other.receive() == []
    with pytest.raises(ConnectionLost, match="other end was closed"):
        other.send(b"{}")
    with pytest.raises(ConnectionLost, match="this transport is closed"):
        one.send(b"{}")
    assert await one.receive() == []


async def test_closing_wakes_the_receivers_at_both_ends() -> None:
    one, other = memory_pair()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(end.receive()) for end in (one, other)]
        await asyncio.sleep(0)
        await one.aclose()
    assert [task.result() for task in waiting] == [[], []]


async def test_waiting_frames_are_counted_in_bytes_and_congest_beyond_the_limit() -> None:
    one, other = memory_pair(bound=10)
    one.send(b"x" * 10)
    assert (one.pending_bytes, one.is_congested) == (10, False)
    one.send(b"x")
    assert (one.pending_bytes, one.is_congested) == (11, True)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        drained = tasks.create_task(one.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        await other.receive()
    assert (one.pending_bytes, one.is_congested) == (0, False)


async def test_draining_fails_when_the_other_end_is_closed_instead() -> None:
    one, other = memory_pair(bound=1)
    one.send(b"xx")
    async with asyncio.timeout(60):
        drained, _ = await asyncio.gather(one.drain(), other.aclose(), return_exceptions=True)
    assert isinstance(drained, ConnectionLost)
    assert one.pending_bytes == 0


async def test_far_beyond_the_bound_the_connection_ends() -> None:
    one, other = memory_pair(bound=10)
    one.send(b"x" * 40)
    with pytest.raises(OutputLimitExceeded, match="41 bytes"):
        one.send(b"x")

    with pytest.raises(OutputLimitExceeded):
        await one.receive()
    assert await other.receive() == [b"x" * 40, b"x"]
    assert await other.receive() == []
