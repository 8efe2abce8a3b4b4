"""One process for many clients, who must not notice each other."""

from __future__ import annotations

import asyncio
import json

import pytest

from duologue.relay.shared_process import SharedProcessRelay
from tests.relay.agents import SESSIONS, process
from tests.relay.clients import Client, clients


async def begin(client: Client, id: int | str = 0) -> str:
    """Say hello and open a session."""
    assert "result" in await client.answer(id, "initialize", mark="welcome")
    answer = await client.answer(1, "session/new")
    session: str = answer["result"]["sessionId"]
    return session


@pytest.mark.fault("GWY-05")
async def test_answers_go_to_who_asked_although_all_count_alike(chaos_factor: int) -> None:
    async def ask_all(number: int, client: Client) -> None:
        await client.answer(0, "initialize")
        for id in range(1, 4 * chaos_factor):
            answer = await client.answer(id, "x", mark=f"{number}/{id}")
            assert answer["result"]["mark"] == f"{number}/{id}"

    async with clients(SharedProcessRelay(process(SESSIONS)), 100) as everyone:
        await asyncio.gather(*(ask_all(number, client) for number, client in enumerate(everyone)))


async def test_the_agent_is_initialized_once_and_all_clients_get_its_response() -> None:
    async with clients(SharedProcessRelay(process(SESSIONS)), 3) as everyone:
        for client in everyone:
            client.ask("hello", "initialize", mark="first")
        answers = [await client.next() for client in everyone]
        later = await everyone[0].answer(9, "x")

    assert {json.dumps(answer) for answer in answers} == {
        '{"jsonrpc": "2.0", "id": "hello", "result": {"mark": "first", "id": 1}}'
    }
    assert later["result"]["id"] == 2


async def test_updates_go_to_the_owner_of_a_session_even_before_its_creation_is_answered() -> None:
    async with clients(SharedProcessRelay(process(SESSIONS)), 2) as (ann, bob):
        await ann.answer(0, "initialize")
        await bob.answer(0, "initialize")
        ann.ask(1, "session/new")
        early, response = await ann.next(), await ann.next()
        session = await begin(bob)
        await ann.answer(2, "tell", to="s1", text="for ann")

    assert early == {"jsonrpc": "2.0", "method": "early", "params": {"sessionId": "s1"}}
    assert response is not None
    assert response["result"]["sessionId"] == "s1"
    assert session == "s2"


@pytest.mark.fault("GWY-06")
async def test_updates_of_sessions_of_other_clients_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with clients(SharedProcessRelay(process(SESSIONS)), 2) as (ann, bob):
        session = await begin(ann)
        await begin(bob)
        stolen = await bob.answer(2, "steal", whose=session)
        await bob.answer(3, "tell", to="nobody", text="lost")
        ann.ask(4, "tell", to=session, text="still hers")
        update = await ann.next()

    assert stolen["error"]["code"] == -32603
    assert update is not None
    assert update["params"]["text"] == "still hers"
    assert "session of another" in caplog.text
    assert "session that no client has" in caplog.text


async def test_a_session_of_another_client_does_not_exist() -> None:
    async with clients(SharedProcessRelay(process(SESSIONS)), 2) as (ann, bob):
        session = await begin(ann)
        await begin(bob)
        answers = [
            await bob.answer(number, method, sessionId=session)
            for number, method in enumerate(("session/prompt", "session/load", "session/close"), 10)
        ]
        unknown = await bob.answer(20, "session/prompt", sessionId="nowhere")

    assert [answer["error"]["code"] for answer in (*answers, unknown)] == [-32002] * 4


async def test_questions_and_answers_and_cancellations_find_their_way() -> None:
    async with clients(SharedProcessRelay(process(SESSIONS)), 2) as (ann, bob):
        session = await begin(ann)
        await begin(bob)
        ann.ask(5, "ask", sessionId=session)
        question = await ann.next()
        await ann.next()
        bob.send({"jsonrpc": "2.0", "id": 1, "result": "not for bob to say"})
        await bob.answer(6, "x")
        ann.send({"jsonrpc": "2.0", "id": 1, "result": "yes"})
        noted = await ann.next()
        ann.ask(7, "never")
        await ann.next()
        ann.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 7}})
        cancelled = await ann.next()

    assert question is not None
    assert question["method"] == "question"
    assert noted is not None
    assert noted["params"]["params"]["result"] == "yes"
    assert cancelled is not None
    assert cancelled["params"]["params"] != {"requestId": 7}
    assert isinstance(cancelled["params"]["params"]["requestId"], int)


async def test_a_client_that_leaves_has_its_turns_cancelled_and_its_sessions_released() -> None:
    shared = SharedProcessRelay(process(SESSIONS))
    async with clients(shared, 1) as [bob]:
        await bob.answer(0, "initialize")
        async with clients(shared, 1) as [ann]:
            session = await begin(ann)
            ann.ask(5, "ask", sessionId=session)
            await ann.next()
        notes = [await bob.next() for _ in range(2)]
        loaded = await bob.answer(9, "session/load", sessionId=session)

    assert sorted(str(note and note["params"]["of"]) for note in notes) == ["answer", "session/cancel"]
    assert "result" in loaded


async def test_all_clients_get_an_error_when_the_agent_ends_and_the_next_client_a_new_agent() -> None:
    shared = SharedProcessRelay(process(SESSIONS))
    async with clients(shared, 2) as (ann, bob):
        await begin(ann)
        await begin(bob)
        bob.ask(5, "never")
        await bob.next()
        ended = await ann.answer(6, "end")
        message = await bob.next()

        assert "code 3" in ended["error"]["message"]
        assert message is not None
        assert (message["id"], message["error"]) == (5, ended["error"])
        assert [await ann.next(), await bob.next()] == [None, None]
    async with clients(shared, 1) as [carol]:
        assert await begin(carol) == "s1"


async def test_an_invalid_message_is_answered_to_the_client_that_sent_it() -> None:
    async with clients(SharedProcessRelay(process(SESSIONS)), 1) as [client]:
        client.send(b"nonsense")
        answer = await client.next()

    assert answer is not None
    assert answer["error"]["code"] == -32700
