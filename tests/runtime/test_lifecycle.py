"""Start and end of a connection: the rule of the first request, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duologue.errors import ConnectionLost, InternalError, InvalidRequest
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.transports.base import Transport
from duologue.transports.memory import memory_pair
from tests.chaos.stopwatch import Stopwatch
from tests.runtime.messages import (
    CANCEL,
    HELLO,
    NEW,
    PING,
    PROMPT,
    UPDATE,
    Nothing,
    Ping,
    Scoped,
    Update,
    connected_pair,
    frame,
)


def agent_with_initialize() -> Handlers:
    handlers = Handlers()

    @handlers.on(HELLO)
    async def hello(context: Context, params: Nothing) -> Nothing:
        return params

    @handlers.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return params

    return handlers


@asynccontextmanager
async def gated(handlers: Handlers) -> AsyncGenerator[tuple[Connection, Connection]]:
    near, far = memory_pair()
    async with (
        asyncio.timeout(60),
        Connection(near) as client,
        Connection(far, handlers, first_method="initialize") as agent,
    ):
        yield client, agent


# --- the gate


@pytest.mark.fault("LIF-01")
@pytest.mark.rule(31)
async def test_nothing_is_served_before_initialize() -> None:
    agent_side = agent_with_initialize()
    seen: list[str] = []

    @agent_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        seen.append(params.text)

    async with gated(agent_side) as (client, _):
        with pytest.raises(InvalidRequest, match="initialize must come first"):
            await client.request(PING, Ping())
        await client.notify(UPDATE, Update(session_id="s", text="too early"))
        await client.request(HELLO, Nothing())
        await client.notify(UPDATE, Update(session_id="s", text="in time"))
        assert await client.request(PING, Ping(text="a")) == Ping(text="a")
        assert seen == ["in time"]


@pytest.mark.fault("LIF-02")
async def test_a_second_initialize_is_refused_and_changes_nothing() -> None:
    agent_side = agent_with_initialize()
    calls: list[str] = []

    @agent_side.on(HELLO)
    async def hello(context: Context, params: Nothing) -> Nothing:
        calls.append("hello")
        return params

    async with gated(agent_side) as (client, _):
        await client.request(HELLO, Nothing())
        with pytest.raises(InvalidRequest, match="already called"):
            await client.request(HELLO, Nothing())
        assert calls == ["hello"]
        await client.request(PING, Ping())


async def test_requests_sent_without_waiting_for_initialize_are_served_after_it() -> None:
    agent_side = agent_with_initialize()
    order: list[str] = []
    gate = asyncio.Event()

    @agent_side.on(HELLO)
    async def hello(context: Context, params: Nothing) -> Nothing:
        await gate.wait()
        order.append("hello")
        return params

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        order.append("ping")
        return params

    async with gated(agent_side) as (client, _):
        answers = asyncio.gather(client.request(HELLO, Nothing()), client.request(PING, Ping()))
        await asyncio.sleep(0)
        assert order == []
        gate.set()
        await answers
        assert order == ["hello", "ping"]


async def test_a_failed_initialize_fails_the_requests_that_waited_for_it_and_may_be_repeated() -> None:
    agent_side = agent_with_initialize()
    attempts: list[int] = []

    @agent_side.on(HELLO)
    async def hello(context: Context, params: Nothing) -> Nothing:
        attempts.append(1)
        if len(attempts) == 1:
            raise InternalError("not yet")
        return params

    async with gated(agent_side) as (client, _):
        first = asyncio.ensure_future(client.request(HELLO, Nothing()))
        early = asyncio.ensure_future(client.request(PING, Ping()))
        with pytest.raises(InternalError):
            await first
        with pytest.raises(InvalidRequest):
            await early
        await client.request(HELLO, Nothing())
        await client.request(PING, Ping())


async def test_a_request_that_waits_for_initialize_can_be_cancelled() -> None:
    agent_side = agent_with_initialize()
    gate = asyncio.Event()

    @agent_side.on(HELLO)
    async def hello(context: Context, params: Nothing) -> Nothing:
        await gate.wait()
        return params

    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(far, agent_side, first_method="initialize"), near:
        near.send(frame(id=1, method="initialize"))
        near.send(frame(id=2, method="ping"))
        await asyncio.sleep(0)
        near.send(frame(method="$/cancel_request", params={"requestId": 2}))
        assert b'"id":2' in (await near.receive())[0]
        gate.set()
        assert b'"id":1' in (await near.receive())[0]


# --- the end


async def never_return(context: Context, params: Any) -> Any:
    await asyncio.Event().wait()


def agent_that_never_answers() -> Handlers:
    handlers = Handlers()
    handlers.on(PING)(never_return)
    handlers.on(PROMPT)(never_return)
    handlers.on(UPDATE)(never_return)
    handlers.on(CANCEL)(never_return)
    return handlers


async def failure_of(wait: asyncio.Future[Any]) -> BaseException:
    with pytest.raises(ConnectionLost) as caught:
        await wait
    return caught.value


@pytest.mark.parametrize("turns", range(8))
async def test_leaving_the_connection_fails_waiting_requests_cancels_handlers_and_leaves_no_task(turns: int) -> None:
    """At whatever moment: before anything was read, while it is, and when every handler waits."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(60):
        async with connected_pair(None, agent_that_never_answers()) as (client, agent):
            waits = [asyncio.ensure_future(client.request(PING, Ping())) for _ in range(3)]
            waits += [asyncio.ensure_future(client.request(PROMPT, Update(session_id="s", text="")))]
            for _ in range(3):
                await client.notify(UPDATE, Update(session_id="s", text=""))
                await client.notify(CANCEL, Scoped(session_id="s"))
            for _ in range(turns):
                await asyncio.sleep(0)
        assert asyncio.all_tasks() - before - set(waits) == set()
        for wait in waits:
            assert "closed" in str(await failure_of(wait))
        assert client.is_closed
        assert agent.is_closed


@pytest.mark.parametrize("leaving", ["client", "agent"])
async def test_when_the_peer_is_gone_every_pending_request_ends_within_a_second(leaving: str) -> None:
    left, right = agent_that_never_answers(), agent_that_never_answers()
    async with asyncio.timeout(60), connected_pair(left, right) as (client, agent):
        stays, goes = (agent, client) if leaving == "client" else (client, agent)
        waits = [
            asyncio.ensure_future(stays.request(PING, Ping())),
            asyncio.ensure_future(stays.request(PROMPT, Update(session_id="behind a stuck handler", text=""))),
        ]
        await goes.notify(UPDATE, Update(session_id="behind a stuck handler", text=""))
        await asyncio.sleep(0)
        async with Stopwatch() as watch:
            await goes.aclose()
            for wait in waits:
                await failure_of(wait)
        assert watch.seconds < 1.1  # the second, and the turns of the loop it takes to tell
        with pytest.raises(ConnectionLost):
            await stays.request(PING, Ping())
        await stays.wait_closed()
        assert stays.is_closed


async def test_notifications_received_before_the_end_are_handled_before_the_connection_is_closed() -> None:
    client_side = Handlers()
    seen: list[str] = []

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        await asyncio.sleep(0)
        seen.append(params.text)

    async with asyncio.timeout(60), connected_pair(client_side) as (client, agent):
        for number in range(5):
            await agent.notify(UPDATE, Update(session_id="s", text=str(number)))
        await agent.aclose()
        await client.wait_closed()
        assert seen == ["0", "1", "2", "3", "4"]


async def test_a_request_that_finishes_soon_is_answered_although_the_peer_closed_its_end() -> None:
    """`printf '…' | agent`: the input has ended, but the output is still read."""
    agent_side = agent_with_initialize()
    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(HalfClosed(far), agent_side) as agent:
        near.send(frame(id=1, method="ping", params={"text": "a"}))
        await agent.wait_closed()
        assert await near.receive() == [b'{"jsonrpc":"2.0","id":1,"result":{"text":"a"}}']


class HalfClosed(Transport):
    """Receives once, then sees the end of the stream; what is sent still arrives."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._has_received = False

    @property
    def pending_bytes(self) -> int:
        return self._inner.pending_bytes

    async def receive(self) -> list[bytes]:
        if self._has_received:
            return []
        self._has_received = True
        return await self._inner.receive()

    def send(self, frame: bytes) -> None:
        self._inner.send(frame)

    async def drain(self) -> None:
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        await self._inner.aclose()


class Congested(HalfClosed):
    """Never takes more than it has."""

    is_congested = True


async def test_callers_that_wait_for_a_slow_peer_fail_when_it_is_gone() -> None:
    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(Congested(far)) as connection:
        waits = [
            asyncio.ensure_future(connection.notify(UPDATE, Update(session_id="s", text=""))),
            asyncio.ensure_future(connection.request(PING, Ping())),
        ]
        await asyncio.sleep(0)
        near.send(b"{}")  # the one frame it receives
        for wait in waits:
            await failure_of(wait)
        with pytest.raises(ConnectionLost):
            await connection.notify(UPDATE, Update(session_id="s", text=""))


async def test_a_handler_may_close_its_own_connection() -> None:
    agent_side = Handlers()
    closed = asyncio.Event()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        await context.connection.aclose()
        closed.set()
        return params

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        with pytest.raises(ConnectionLost):
            await client.request(PING, Ping())
        await closed.wait()


async def test_leaving_the_block_while_a_handler_closes_the_connection_leaves_no_task() -> None:
    agent_side = agent_that_never_answers()
    began = asyncio.Event()

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        began.set()
        await context.connection.aclose()
        await never_return(context, params)
        return Scoped(session_id="")

    before = asyncio.all_tasks()
    async with asyncio.timeout(60):
        async with connected_pair(None, agent_side) as (client, _):
            waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(client.request(PING, Ping()))]
            waits += [asyncio.ensure_future(client.request(NEW, Nothing()))]
            await began.wait()
        assert asyncio.all_tasks() - before - set(waits) == set()
        for wait in waits:
            await failure_of(wait)


async def test_closing_twice_has_no_further_effect() -> None:
    async with asyncio.timeout(60), connected_pair() as (client, _):
        await client.aclose()
        await client.aclose()
        with pytest.raises(ConnectionLost):
            await client.notify(UPDATE, Update(session_id="s", text=""))


async def test_a_connection_that_broke_says_why() -> None:
    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(Broken(far)) as connection:
        wait = asyncio.ensure_future(connection.request(PING, Ping()))
        await asyncio.sleep(0)
        near.send(b"{}")
        assert str(await failure_of(wait)) == "the wire was cut"
        assert connection.cause is not None
        assert isinstance(connection.cause.__cause__, OSError)


class Broken(HalfClosed):
    """Fails in a way no transport should."""

    async def receive(self) -> list[bytes]:
        return await super().receive() if not self._has_received else self._fail()

    def _fail(self) -> list[bytes]:
        raise OSError("the wire was cut")


async def test_a_handler_that_ignores_its_cancellation_is_abandoned_and_named(caplog: pytest.LogCaptureFixture) -> None:
    agent_side = Handlers()
    release, ran_on = asyncio.Event(), asyncio.Event()
    both_run = asyncio.Event()
    running: list[str] = []

    async def stubborn(context: Context, params: Any) -> Any:
        running.append(context.method)
        if len(running) == 2:
            both_run.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ran_on.set()
        return params

    agent_side.on(PING)(stubborn)
    agent_side.on(UPDATE)(stubborn)
    before = asyncio.all_tasks()
    try:
        async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
            wait = asyncio.ensure_future(client.request(PING, Ping()))
            await client.notify(UPDATE, Update(session_id="s", text="stuck"))
            await client.notify(UPDATE, Update(session_id="s", text="never begun"))
            await both_run.wait()
        await failure_of(wait)
    finally:
        release.set()
        abandoned = asyncio.all_tasks() - before
        await asyncio.wait(abandoned)
    assert ran_on.is_set()
    assert sorted(running) == ["ping", "update"]
    assert len(abandoned) == 2
    reports = [record.getMessage() for record in caplog.records]
    assert [report.count("ignores cancellation") for report in reports] == [1, 1]


async def test_a_response_behind_a_stuck_handler_does_not_wait_forever() -> None:
    """The answer has arrived, but its session's handler never returns: leaving the block must still end the wait."""
    client_side, agent_side = Handlers(), Handlers()
    client_side.on(UPDATE)(never_return)

    @agent_side.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        await context.connection.notify(UPDATE, params)
        return Ping()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return params

    async with asyncio.timeout(60):
        async with connected_pair(client_side, agent_side) as (client, _):
            wait = asyncio.ensure_future(client.request(PROMPT, Update(session_id="s", text="")))
            await client.request(PING, Ping())
            await client.request(PING, Ping())
            assert not wait.done()
        await failure_of(wait)


async def test_a_queue_worker_that_is_cancelled_releases_waiting_responses() -> None:
    client_side, agent_side = Handlers(), Handlers()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @agent_side.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        await context.connection.notify(UPDATE, params)
        return Ping()

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, _):
        for _ in range(3):
            await client.request(PROMPT, Update(session_id="s", text=""))


async def test_a_transport_that_cannot_be_opened_starts_nothing() -> None:
    class Unopened(HalfClosed):
        async def __aenter__(self) -> Any:
            raise ConnectionLost("no peer")

    before = asyncio.all_tasks()
    with pytest.raises(ConnectionLost, match="no peer"):
        async with Connection(Unopened(memory_pair()[0])):
            pytest.fail("it was entered")
    assert asyncio.all_tasks() == before


def test_an_event_loop_that_dies_with_handlers_running_ends_them_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """No connection is left, and no handler is taken for failed: they were simply dropped."""

    async def leave_everything() -> None:
        near, far = memory_pair()
        agent_side = agent_that_never_answers()
        await Connection(far, agent_side).__aenter__()
        near.send(frame(id=1, method="ping"))
        near.send(frame(method="update", params={"sessionId": "s", "text": ""}))
        near.send(frame(method="cancel", params={"sessionId": "s"}))
        for _ in range(3):
            await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_everything())
    waiting = asyncio.all_tasks(loop)
    assert len(waiting) == 4  # the reader, a lane, an urgent notification and a request
    for task in waiting:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # what asyncio says of it is not the point
        del task
    del waiting
    loop.close()
    gc.collect()
    assert [record.getMessage() for record in caplog.records] == []


async def test_actions_after_a_failed_request_are_dropped_and_collected() -> None:
    agent_side = Handlers()
    payloads: list[weakref.ref[Payload]] = []

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        payload = Payload()
        payloads.append(weakref.ref(payload))

        async def follow() -> None:
            pytest.fail(f"{payload} of {context.method} must not follow an error")

        context.after_response(follow)
        raise InternalError("no")

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        with pytest.raises(InternalError):
            await client.request(PING, Ping())
        gc.collect()
        assert payloads[0]() is None


class Payload:
    """Something that can be seen to be gone."""


# --- many connections


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096


@pytest.mark.fault("LIF-15")
async def test_a_thousand_connections_leave_nothing_behind(chaos_factor: int, record_property: Any) -> None:
    count = 1000 * chaos_factor
    record_property("count", count)

    async def one_conversation() -> None:
        async with connected_pair(None, agent_with_initialize()) as (client, _):
            await client.request(PING, Ping())

    for _ in range(50):  # what is cached once is no growth
        await one_conversation()
    gc.collect()
    tasks, files, objects, memory = asyncio.all_tasks(), descriptors(), len(gc.get_objects()), resident_bytes()
    for _ in range(count):
        await one_conversation()
    gc.collect()
    grown = resident_bytes() - memory  # before the list of all objects, which may take megabytes itself

    assert asyncio.all_tasks() == tasks
    assert descriptors() == files
    assert len(gc.get_objects()) < objects + 500
    assert grown < 5 * 1024 * 1024


async def test_handlers_run_in_tasks_of_the_loops_own_factory() -> None:
    loop = asyncio.get_running_loop()
    made: list[Any] = []

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(asyncio.Task(work, loop=loop, **options))
        task: asyncio.Task[Any] = made[-1]
        return task

    tasks: list[Any] = []

    async def ping(context: Context, params: Ping) -> Ping:
        tasks.append(asyncio.current_task())
        return params

    handlers = Handlers()
    handlers.on(PING)(ping)
    loop.set_task_factory(factory)
    try:
        async with connected_pair(None, handlers) as (client, _):
            await client.request(PING, Ping())
    finally:
        loop.set_task_factory(None)
    assert len(tasks) == 1
    assert tasks[0] in made
