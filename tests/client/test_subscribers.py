"""Iterators over the events of a session, and their limits."""

from __future__ import annotations

import asyncio

import pytest

from duologue.client.subscribers import EventSubscribers
from duologue.errors import EventBufferOverflow
from duologue.events import Event, Text


async def test_a_reader_gets_every_event_and_then_the_end() -> None:
    subscribers = EventSubscribers()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        received = group.create_task(read(subscribers))
        await asyncio.sleep(0)
        for number in range(3):
            subscribers.publish(Text(text=str(number)))
        subscribers.close()
    assert received.result() == ["0", "1", "2"]


async def test_a_reader_that_is_too_far_behind_gets_an_error_after_the_queued_events() -> None:
    subscribers = EventSubscribers(max_unread=2)
    events = subscribers.events()
    async with asyncio.timeout(60):
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        subscribers.publish(Text(text="first"))
        assert await first == Text(text="first")
        for number in range(3):
            subscribers.publish(Text(text=str(number)))
        assert await anext(events) == Text(text="0")
        subscribers.publish(Text(text="behind the gap"))
        assert await anext(events) == Text(text="1")
        with pytest.raises(EventBufferOverflow, match="more than 2 events"):
            await anext(events)


async def read(subscribers: EventSubscribers) -> list[str]:
    return [event.text async for event in subscribers.events() if isinstance(event, Text)]


@pytest.mark.fault("PRC-23")
async def test_a_reader_queues_a_limited_number_of_bytes() -> None:
    subscribers = EventSubscribers()
    events = subscribers.events()
    async with asyncio.timeout(60):
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        subscribers.publish(Text(text="first"))
        await first
        for number in range(100):
            subscribers.publish(Text(text=str(number), raw=bytes(1024 * 1024)))
        subscribers.publish(Text(text="behind the gap"))
        received: list[Event] = []
        with pytest.raises(EventBufferOverflow, match="16777216 bytes"):
            while True:
                received.append(await anext(events))
    assert [event.text for event in received if isinstance(event, Text)] == [str(number) for number in range(17)]
