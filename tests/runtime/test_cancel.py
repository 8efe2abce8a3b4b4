"""Cancellation in both directions; every request still gets exactly one response."""

from __future__ import annotations

import asyncio

import pytest

from duologue.errors import RequestCancelled
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method
from duologue.transports.memory import memory_pair
from tests.runtime.messages import PING, PROMPT, UPDATE, Ping, Update, connected_pair, frame


@pytest.mark.fault("CAN-13")
async def test_cancelling_the_wait_cancels_the_handler_at_the_other_end() -> None:
    agent_side = Handlers()
    began, cancelled = asyncio.Event(), asyncio.Event()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        if params.text == "quick":
            return params
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return params

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        wait = asyncio.ensure_future(client.request(PING, Ping()))
        await began.wait()
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait
        await cancelled.wait()
        await client.request(PING, Ping(text="quick"))  # the late answer has come and was dropped
        assert client._peer.unmatched_responses == 0


async def responses_to(handlers: Handlers, *frames: bytes, answers: int) -> list[bytes]:
    """Return the responses of an end with these handlers to these frames, sent at once."""
    near, far = memory_pair()
    got: list[bytes] = []
    async with asyncio.timeout(60), Connection(far, handlers), near:
        for each in frames:
            near.send(each)
        while len(got) < answers:
            got += await near.receive()
    return got


@pytest.mark.fault("CAN-08")
@pytest.mark.rule(84)
async def test_a_request_cancelled_before_its_handler_began_is_answered_once() -> None:
    agent_side = Handlers()
    calls: list[str] = []

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        calls.append(params.text)
        return params

    got = await responses_to(
        agent_side,
        frame(id=1, method="ping", params={"text": "a"}),
        frame(method="$/cancel_request", params={"requestId": 1}),
        frame(id=2, method="ping", params={"text": "b"}),
        answers=2,
    )
    assert [b'"code":-32800' in answer for answer in got] == [True, False]
    assert calls == ["b"]


@pytest.mark.fault("CAN-08")
@pytest.mark.rule(85, 87)
@pytest.mark.parametrize(
    "params", [{"requestId": 99}, {"requestId": "1"}, {"requestId": None}, {"requestId": [1]}, {}, None, 5]
)
async def test_a_cancellation_of_no_running_request_is_ignored(params: object) -> None:
    agent_side = Handlers()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        await asyncio.sleep(0)
        return params

    got = await responses_to(
        agent_side,
        frame(id=1, method="ping", params={"text": "a"}),
        frame(method="$/cancel_request", params=params),
        answers=1,
    )
    assert got == [b'{"jsonrpc":"2.0","id":1,"result":{"text":"a"}}']


async def test_a_handler_that_finishes_although_cancelled_answers_with_its_result() -> None:
    agent_side = Handlers()
    began = asyncio.Event()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Ping(text="finished anyway")
        return params

    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(far, agent_side), near:
        near.send(frame(id="a", method="ping", params={}))
        await began.wait()
        near.send(frame(method="$/cancel_request", params={"requestId": "a"}))
        assert await near.receive() == [b'{"jsonrpc":"2.0","id":"a","result":{"text":"finished anyway"}}']


@pytest.mark.rule(86)
async def test_a_handler_that_cancels_itself_answers_as_cancelled() -> None:
    agent_side = Handlers()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        raise asyncio.CancelledError

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        with pytest.raises(RequestCancelled):
            await client.request(PING, Ping())


@pytest.mark.fault("CAN-14")
async def test_a_late_result_is_passed_to_on_late_result() -> None:
    agent_side = Handlers()
    began, release = asyncio.Event(), asyncio.Event()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        if params.text == "quick":
            return params
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await release.wait()
            if params.text == "refuse":
                raise
        return Ping(text=f"made for {params.text}")

    late_results: list[Ping] = []

    def on_late_result(result: Ping) -> None:
        late_results.append(result)
        raise ValueError("the connection does not mind")

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        for text in ("you", "refuse"):
            began.clear()
            wait = asyncio.ensure_future(client.request(PING, Ping(text=text), on_late_result=on_late_result))
            await began.wait()
            wait.cancel()
            with pytest.raises(asyncio.CancelledError):
                await wait
        assert late_results == []
        release.set()
        await client.request(PING, Ping(text="quick"), on_late_result=on_late_result)
        assert late_results == [Ping(text="made for you")]


@pytest.mark.fault("CAN-14")
async def test_a_result_at_the_moment_of_the_cancellation_is_not_lost() -> None:
    near, far = memory_pair()
    late_results: list[Ping] = []
    async with asyncio.timeout(60), Connection(near) as client, far:
        wait = asyncio.ensure_future(client.request(PING, Ping(), on_late_result=late_results.append))
        await far.receive()
        far.send(frame(id=1, result={"text": "made for you"}))
        while client._peer.pending:  # noqa: ASYNC110
            await asyncio.sleep(0)
        wait.cancel()  # its answer was read, but it has not run since
        with pytest.raises(asyncio.CancelledError):
            await wait
        assert late_results == [Ping(text="made for you")]


@pytest.mark.fault("CAN-14")
async def test_a_result_between_cancellation_and_the_next_step_of_the_caller_is_not_lost() -> None:
    near, far = memory_pair()
    late_results: list[Ping] = []
    async with asyncio.timeout(60), Connection(near) as client, far:

        def leave(result: Ping) -> None:
            wait.cancel()

        wait = asyncio.ensure_future(client.request(PING, Ping(), on_result=leave, on_late_result=late_results.append))
        await far.receive()
        far.send(frame(id=1, result={"text": "made for you"}))
        with pytest.raises(asyncio.CancelledError):
            await wait
        assert late_results == [Ping(text="made for you")]


async def test_a_result_that_waits_behind_notifications_when_its_caller_leaves_is_not_lost() -> None:
    near, far = memory_pair()
    client_side = Handlers()
    handling, go_on, seen = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        handling.set()
        await go_on.wait()

    async with asyncio.timeout(60), Connection(near, client_side) as client, far:
        prompt = client.request(PROMPT, Update(session_id="s", text=""), on_late_result=lambda _: seen.set())
        wait = asyncio.ensure_future(prompt)
        await far.receive()
        far.send(frame(method="update", params={"sessionId": "s", "text": ""}))
        far.send(frame(id=1, result={}))
        await handling.wait()
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait
        assert not seen.is_set()
        go_on.set()
        await seen.wait()


@pytest.mark.fault("CAN-09")
async def test_a_method_that_handles_cancellation_is_called_even_if_that_arrived_first() -> None:
    agent_side = Handlers()
    calls: list[str] = []

    @agent_side.on(Method("ping", Ping, Ping, handles_cancellation=True))
    async def ping(context: Context, params: Ping) -> Ping:
        calls.append(params.text)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Ping(text="cancelled")
        return params

    got = await responses_to(
        agent_side,
        frame(id=1, method="ping", params={"text": "a"}),
        frame(method="$/cancel_request", params={"requestId": 1}),
        answers=1,
    )
    assert got == [b'{"jsonrpc":"2.0","id":1,"result":{"text":"cancelled"}}']
    assert calls == ["a"]
