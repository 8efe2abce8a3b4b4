"""The order contract, clause by clause (docs/topics/order.md)."""

from __future__ import annotations

import asyncio
import random

import pytest

from duologue.errors import Deadlock, InvalidParams
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method, Notification
from tests.runtime.messages import (
    CANCEL,
    CLOSE,
    NEW,
    PING,
    PROMPT,
    UPDATE,
    Nothing,
    Ping,
    Scoped,
    Update,
    connected_pair,
)


def agent_that_streams(count: int) -> Handlers:
    handlers = Handlers()

    @handlers.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        for number in range(count):
            await context.connection.notify(UPDATE, Update(session_id=params.session_id, text=str(number)))
        return Ping(text="done")

    return handlers


@pytest.mark.fault("ORD-01")
@pytest.mark.rule(76)
@pytest.mark.parametrize("seed", range(5))
async def test_every_update_is_handled_in_order_before_the_prompt_returns_however_long_handlers_wait(seed: int) -> None:
    chance = random.Random(seed)
    seen: list[str] = []
    client_side = Handlers()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        seen.append(params.text)

    async with asyncio.timeout(60), connected_pair(client_side, agent_that_streams(200)) as (client, _):
        await client.request(PROMPT, Update(session_id="s", text="go"))
        assert seen == [str(number) for number in range(200)]


async def test_sessions_run_in_parallel_even_when_one_is_stuck() -> None:
    client_side = Handlers()
    stuck = asyncio.Event()
    seen: list[str] = []

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        if params.session_id == "slow":
            await stuck.wait()
        seen.append(params.session_id)

    async with asyncio.timeout(60), connected_pair(client_side, agent_that_streams(3)) as (client, agent):
        await agent.notify(UPDATE, Update(session_id="slow", text="x"))
        await client.request(PROMPT, Update(session_id="quick", text="go"))
        assert seen == ["quick"] * 3
        stuck.set()
        await client.request(PROMPT, Update(session_id="slow", text="go"))
        assert seen == ["quick"] * 3 + ["slow"] * 4


async def test_queues_that_become_ready_together_do_not_wait_for_each_other() -> None:
    """The lanes of two sessions arrive in one read; the worker that takes the first is found waiting."""
    client_side = Handlers()
    released, seen = asyncio.Event(), asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        if params.session_id == "first":
            await released.wait()
        else:
            seen.set()

    async with asyncio.timeout(60), connected_pair(client_side) as (_, agent):
        await agent.notify(UPDATE, Update(session_id="first", text=""))
        await agent.notify(UPDATE, Update(session_id="second", text=""))
        await seen.wait()
        released.set()


async def test_responses_that_end_nothing_overtake_queued_updates() -> None:
    client_side = Handlers()
    gate = asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        await gate.wait()

    agent_side = agent_that_streams(0)

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return params

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, agent):
        await agent.notify(UPDATE, Update(session_id="s", text="blocks the lane"))
        assert await client.request(PING, Ping(text="quick")) == Ping(text="quick")
        prompt = asyncio.ensure_future(client.request(PROMPT, Update(session_id="s", text="")))
        await client.request(PING, Ping())
        assert not prompt.done()
        gate.set()
        assert await prompt == Ping(text="done")


async def send_early(context: Context, update: Update) -> None:
    """Send an update before the response that announces its session, as other agents do."""
    context.connection._writer.send(context.connection._peer.notification(UPDATE.name, update))


@pytest.mark.fault("ORD-05")
async def test_updates_of_an_unannounced_session_are_buffered_and_handled_before_its_response_is_released() -> None:
    client_side, agent_side = Handlers(), Handlers()
    events: list[str] = []

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        events.append(f"update {params.text}")

    @client_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return params

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        for text in ("one", "two"):
            await send_early(context, Update(session_id="fresh", text=text))
        await context.connection.request(PING, Ping())  # there was time to handle them
        return Scoped(session_id="fresh")

    def on_result(result: Scoped) -> None:
        events.append(f"introduced {result.session_id}")

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, _):
        await client.request(NEW, Nothing(), on_result=on_result)
        events.append("returned")
        assert events == ["introduced fresh", "update one", "update two", "returned"]


async def test_updates_buffered_for_a_session_that_is_never_announced_are_delivered_when_no_opening_is_left() -> None:
    client_side, agent_side = Handlers(), Handlers()
    seen = asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        seen.set()

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        await send_early(context, Update(session_id="stranger", text=""))
        return Scoped(session_id="fresh")

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, _):
        await client.request(NEW, Nothing())
        await seen.wait()


@pytest.mark.fault("ORD-04")
async def test_an_agents_updates_for_a_new_session_are_sent_after_the_response_that_announces_it() -> None:
    agent_side = Handlers()
    sent: list[bytes] = []

    def watch(direction: str, frame: bytes) -> None:
        if direction == "out":
            sent.append(frame)

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        await context.connection.notify(UPDATE, Update(session_id="fresh", text="too early"))
        return Scoped(session_id="fresh")

    async with asyncio.timeout(60), connected_pair(None, agent_side, observers=(watch,)) as (client, _):
        await client.request(NEW, Nothing())
        request, answer, update = sent
        assert b'"method":"new"' in request
        assert b'"result":{"sessionId":"fresh"}' in answer
        assert b"too early" in update


async def test_an_action_after_the_response_runs_after_it() -> None:
    agent_side, client_side = Handlers(), Handlers()
    order: list[str] = []
    seen = asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        order.append("update")
        seen.set()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        context.after_response(lambda: context.connection.notify(UPDATE, Update(session_id="s", text="")))
        return params

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, _):
        await client.request(PING, Ping())
        order.append("answer")
        await seen.wait()
        assert sorted(order) == ["answer", "update"]


async def test_an_urgent_notification_overtakes_the_updates_queued_before_it() -> None:
    agent_side = Handlers()
    gate, cancelled = asyncio.Event(), asyncio.Event()

    @agent_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        await gate.wait()

    @agent_side.on(CANCEL)
    async def cancel(context: Context, params: Scoped) -> None:
        cancelled.set()

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        for _ in range(10):
            await client.notify(UPDATE, Update(session_id="s", text=""))
        await client.notify(CANCEL, Scoped(session_id="s"))
        await cancelled.wait()
        gate.set()


@pytest.mark.fault("ORD-07")
async def test_a_handler_may_call_the_peer_that_is_waiting_for_it() -> None:
    client_side, agent_side = Handlers(), Handlers()

    @client_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return Ping(text=params.text + "!")

    @agent_side.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        return await context.connection.request(PING, Ping(text=params.text))

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, _):
        assert await client.request(PROMPT, Update(session_id="s", text="hello")) == Ping(text="hello!")


async def test_a_wait_that_only_its_own_queue_could_end_raises_deadlock_at_once() -> None:
    client_side = Handlers()
    raised: list[Deadlock] = []

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        try:
            await context.connection.request(PROMPT, Update(session_id="s", text="again"))
        except Deadlock as error:
            raised.append(error)

    async with asyncio.timeout(60), connected_pair(client_side, agent_that_streams(1)) as (client, _):
        await client.request(PROMPT, Update(session_id="s", text="go"))
        assert "update" in str(raised[0])
        assert "prompt" in str(raised[0])
        assert "'s'" in str(raised[0])


async def test_a_handler_may_prompt_another_session_and_wait_for_it() -> None:
    client_side = Handlers()
    answers: list[Ping] = []

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        if params.session_id == "outer":
            answers.append(await context.connection.request(PROMPT, Update(session_id="inner", text="")))

    async with asyncio.timeout(60), connected_pair(client_side, agent_that_streams(1)) as (client, _):
        await client.request(PROMPT, Update(session_id="outer", text="go"))
        assert answers == [Ping(text="done")]


async def test_a_failing_notification_handler_stops_nothing() -> None:
    client_side = Handlers()
    seen: list[str] = []

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        seen.append(params.text)
        if params.text == "0":
            raise ValueError("broken on purpose")
        if params.text == "1":
            raise asyncio.CancelledError

    async with asyncio.timeout(60), connected_pair(client_side, agent_that_streams(3)) as (client, _):
        await client.request(PROMPT, Update(session_id="s", text="go"))
        assert seen == ["0", "1", "2"]


async def test_an_urgent_notification_whose_handler_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    agent_side = agent_that_streams(0)

    @agent_side.on(CANCEL)
    async def cancel(context: Context, params: Scoped) -> None:
        raise ValueError("broken on purpose")

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        await client.notify(CANCEL, Scoped(session_id="s"))
        assert await client.request(PROMPT, Update(session_id="s", text="")) == Ping(text="done")
    assert "handling 'cancel' failed" in caplog.text


async def test_a_closed_session_may_be_announced_again() -> None:
    """While a session is being opened, updates of a closed one with the same id are held like those of a new one."""
    client_side, agent_side = Handlers(), Handlers()
    events: list[str] = []

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        events.append(f"update {params.text}")

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        await send_early(context, Update(session_id="again", text=f"{len(events)}"))
        return Scoped(session_id="again")

    @agent_side.on(CLOSE)
    async def close(context: Context, params: Scoped) -> Nothing:
        return Nothing()

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, _):
        for _ in range(2):
            await client.request(NEW, Nothing(), on_result=lambda _: events.append("introduced"))
            await client.request(CLOSE, Scoped(session_id="again"))
    assert events == ["introduced", "update 0", "introduced", "update 2"]


async def test_updates_of_known_sessions_do_not_wait_for_one_that_is_being_opened() -> None:
    client_side, agent_side = Handlers(), Handlers()
    answer, seen = asyncio.Event(), asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        if params.session_id == "known":
            seen.set()

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        await answer.wait()
        return Scoped(session_id="fresh")

    @agent_side.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        await context.connection.notify(UPDATE, params)
        return Ping()

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, agent):
        await client.request(PROMPT, Update(session_id="known", text=""))
        seen.clear()
        opening = [asyncio.ensure_future(client.request(NEW, Nothing())) for _ in range(2)]
        await agent.notify(UPDATE, Update(session_id="known", text=""))
        await seen.wait()
        # a session named in a request that still runs is known to both ends, too
        await client.request(PROMPT, Update(session_id="prompted meanwhile", text=""))
        answer.set()
        await asyncio.gather(*opening)


@pytest.mark.fault("ORD-09")
async def test_one_slow_session_among_a_hundred_delays_no_other() -> None:
    agent_side = Handlers()
    release = asyncio.Event()

    @agent_side.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        await context.connection.notify(UPDATE, params)
        if params.session_id == "0":
            await release.wait()
        return Ping()

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        slow, *others = (
            asyncio.ensure_future(client.request(PROMPT, Update(session_id=str(n), text=""))) for n in range(100)
        )
        await asyncio.gather(*others)
        assert not slow.done()
        release.set()
        await slow


async def test_on_release_is_called_in_order_among_the_notifications() -> None:
    seen: list[str] = []
    behind = asyncio.Event()
    client_side, agent_side = Handlers(), Handlers()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        await asyncio.sleep(0)
        seen.append(params.text)
        if params.text == "behind":
            behind.set()

    @agent_side.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        async def follow() -> None:
            await context.connection.notify(UPDATE, Update(session_id="s", text="behind"))

        for number in range(3):
            await context.connection.notify(UPDATE, Update(session_id="s", text=str(number)))
        context.after_response(follow)
        return Ping(text="done")

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, _):
        await client.request(
            PROMPT, Update(session_id="s", text=""), on_release=lambda answer: seen.append(f"released {answer.text}")
        )
        await behind.wait()
    assert seen == ["0", "1", "2", "released done", "behind"]


ASK = Method("ask", Scoped, Ping, side="client")


async def test_a_request_that_overtook_notifications_can_wait_for_them_and_for_none_behind_it() -> None:
    client_side, agent_side = Handlers(), Handlers()
    seen: list[str] = []
    may_go_on = asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        await (may_go_on.wait() if params.text != "behind" else asyncio.Event().wait())
        seen.append(params.text)

    @client_side.on(ASK)
    async def ask(context: Context, params: Scoped) -> Ping:
        seen.append("asked")
        may_go_on.set()
        assert context.position is not None
        return Ping(text=await context.position)

    def at_position(context: Context, params: Scoped) -> str:
        seen.append("at its place")
        return f"place in {params.session_id}"

    client_side.positions[ASK.name] = at_position
    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (_, agent):
        for text in ("one", "two"):
            await agent.notify(UPDATE, Update(session_id="s", text=text))
        answer = asyncio.ensure_future(agent.request(ASK, Scoped(session_id="s")))
        await asyncio.sleep(0)
        await agent.notify(UPDATE, Update(session_id="s", text="behind"))
        assert (await answer).text == "place in s"

    assert seen == ["asked", "one", "two", "at its place"]


async def test_a_request_acts_at_its_position_before_the_notifications_behind_it() -> None:
    client_side = Handlers()
    seen: list[str] = []
    is_over = asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        seen.append(params.text)
        if params.text == "behind":
            is_over.set()

    @client_side.on(ASK)
    async def ask(context: Context, params: Scoped) -> Ping:
        assert context.position is not None
        await context.position
        seen.append("asked")
        return Ping()

    client_side.positions[ASK.name] = lambda context, params: None
    async with asyncio.timeout(60), connected_pair(client_side) as (_, agent):
        await agent.notify(UPDATE, Update(session_id="s", text="before"))
        answer = asyncio.ensure_future(agent.request(ASK, Scoped(session_id="s")))
        await asyncio.sleep(0)
        await agent.notify(UPDATE, Update(session_id="s", text="behind"))
        await answer
        await is_over.wait()

    assert seen == ["before", "asked", "behind"]


async def test_a_request_has_no_position_if_no_notification_waits_before_it() -> None:
    client_side = Handlers()

    @client_side.on(ASK)
    async def ask(context: Context, params: Scoped) -> Ping:
        return Ping(text=str(context.position))

    client_side.positions[ASK.name] = None
    async with asyncio.timeout(60), connected_pair(client_side) as (_, agent):
        assert (await agent.request(ASK, Scoped(session_id="s"))).text == "None"


async def test_an_exception_at_a_position_fails_only_its_request(caplog: pytest.LogCaptureFixture) -> None:
    client_side, seen = Handlers(), asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        seen.set()

    @client_side.on(ASK)
    async def ask(context: Context, params: Scoped) -> Ping:
        assert context.position is not None
        return Ping(text=await context.position)

    def at_position(context: Context, params: Scoped) -> str:
        raise InvalidParams("not here")

    client_side.positions[ASK.name] = at_position
    async with asyncio.timeout(60), connected_pair(client_side) as (_, agent):
        with pytest.raises(InvalidParams, match="not here"):
            await agent.request(ASK, Scoped(session_id="s"))
        await agent.notify(UPDATE, Update(session_id="s", text=""))
        await seen.wait()
    assert caplog.records == []


async def test_an_update_handler_may_await_a_response_that_needs_an_answer_to_the_peer() -> None:
    """On a typed connection no request waits for notifications unless its handler does."""
    client_side, agent_side = Handlers(), Handlers()
    handled = asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        assert (await context.connection.request(PING, Ping(text="may I?"))).text == "you may"
        handled.set()

    @client_side.on(ASK)
    async def ask(context: Context, params: Scoped) -> Ping:
        return Ping(text="you may")

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return await context.connection.request(ASK, Scoped(session_id="s"))

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (_, agent):
        await agent.notify(UPDATE, Update(session_id="s", text=""))
        await handled.wait()


async def test_an_unknown_request_can_wait_for_the_unknown_notifications_before_it() -> None:
    client_side, seen = Handlers(), list[str]()

    async def other_notification(context: Context, params: object) -> None:
        if not seen:
            await asyncio.sleep(0)
        seen.append(context.method)

    async def other_request(context: Context, params: object) -> dict[str, str]:
        if context.position is not None:
            await context.position
        seen.append(context.method)
        return {}

    client_side.other_notifications, client_side.other_requests = other_notification, other_request
    async with asyncio.timeout(60), connected_pair(client_side) as (_, agent):
        for name in ("_one", "_two"):
            await agent.notify(Notification(name, Nothing), Nothing())
        answer = asyncio.ensure_future(agent.request(Method("_ask", Nothing, Nothing), Nothing()))
        await asyncio.sleep(0)
        await agent.notify(Notification("_behind", Nothing), Nothing())
        await answer
    assert seen[:3] == ["_one", "_two", "_ask"]
