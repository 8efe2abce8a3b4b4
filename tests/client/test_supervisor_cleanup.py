"""Responses that arrive after their caller was cancelled, and notifications outside of requests."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.errors import ConnectionLost
from tests.client.scripted_agent import Json, ScriptedAgent, result

pytestmark = pytest.mark.timeout(30)

CLOSES: Json = {"sessionCapabilities": {"close": {}, "fork": {}}}


@pytest.mark.parametrize("method", ["session/new", "session/fork"])
async def test_a_session_that_was_opened_too_late_is_closed_at_the_agent(tmp_path: Path, method: str) -> None:
    async def open_late(params: Json) -> Json:
        await agent.until("$/cancel_request")
        return result(sessionId="late")

    agent = ScriptedAgent(CLOSES)
    async with (
        asyncio.timeout(60),
        connect(agent, unstable={"fork"}) as remote,
        remote.new_session(tmp_path) as session,
    ):
        agent.answers[method] = open_late
        opening = asyncio.ensure_future(remote.new_session(tmp_path) if method == "session/new" else session.fork())
        await agent.until(method, 2 if method == "session/new" else 1)
        opening.cancel()
        assert await agent.until("session/close") == {"sessionId": "late"}
        assert list(remote._request_handler.sessions) == ["s1"]


async def test_a_session_whose_opening_is_cancelled_as_it_succeeds_is_closed(tmp_path: Path) -> None:
    agent = ScriptedAgent(CLOSES)
    async with asyncio.timeout(60), connect(agent) as remote:
        opening = asyncio.ensure_future(remote.new_session(tmp_path))

        def give_up(session: ClientSession) -> None:
            opening.cancel()

        remote.on_session = give_up
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert await agent.until("session/close") == {"sessionId": "s1"}
        await remote.call("_ping", {})
        assert remote._request_handler.sessions == {}


async def test_a_late_session_under_the_id_of_another_closes_nothing(tmp_path: Path) -> None:
    async def open_late(params: Json) -> Json:
        await agent.until("$/cancel_request")
        return result(sessionId="s1")

    agent = ScriptedAgent(CLOSES)
    async with asyncio.timeout(60), connect(agent) as remote:
        session = await remote.new_session(tmp_path)
        agent.answers["session/new"] = open_late
        opening = asyncio.ensure_future(remote.new_session(tmp_path))
        await agent.until("session/new", 2)
        opening.cancel()
        assert (await session.prompt("go")).stop_reason == "end_turn"
        assert agent.calls("session/close") == []


async def test_an_agent_that_closes_nothing_keeps_its_late_session(tmp_path: Path) -> None:
    async def open_late(params: Json) -> Json:
        await agent.until("$/cancel_request")
        return result(sessionId="late")

    agent = ScriptedAgent()
    agent.answers["session/new"] = open_late
    async with asyncio.timeout(60), connect(agent) as remote:
        opening = asyncio.ensure_future(remote.new_session(tmp_path))
        await agent.until("session/new")
        opening.cancel()
        await remote.call("_ping", {})
        assert agent.calls("session/close") == []


async def test_the_completion_of_a_url_elicitation_is_reported(tmp_path: Path) -> None:
    completed: list[str] = []

    async def prompt(params: Json) -> Json:
        agent.send({"method": "elicitation/complete", "params": {"elicitationId": "e1"}})
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=prompt)
    async with asyncio.timeout(60), connect(agent, on_elicitation_complete=completed.append) as remote:
        session = await remote.new_session(tmp_path)
        await session.prompt("go")
        await remote.call("_ping", {})
    assert completed == ["e1"]


@pytest.mark.fault("CAN-07")
@pytest.mark.parametrize("end", ["timeout", "crash"])
async def test_an_answer_to_a_question_that_is_over_has_no_effect(tmp_path: Path, end: str) -> None:
    asked: asyncio.Queue[PermissionRequest] = asyncio.Queue()

    async def think_about_it(question: PermissionRequest) -> None:
        asked.put_nowait(question)
        await asyncio.Event().wait()

    async def write(params: Json) -> Json:
        if len(agent.calls("session/prompt")) > 1:
            return result(stopReason="end_turn")
        content = {"sessionId": "s1", "path": str(tmp_path / "new"), "content": "x"}
        answers.append(await agent.ask("fs/write_text_file", content))
        return result(stopReason="end_turn")

    answers: list[Json] = []
    agent = ScriptedAgent({"sessionCapabilities": {"resume": {}}}, prompt=write)
    rules = Permissions(on_request=think_about_it, timeout=0.1 if end == "timeout" else 60)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, workspace=Workspace(tmp_path), restart=True) as remote,
    ):
        session = await remote.new_session(tmp_path)
        turn = session.prompt("go")
        running = asyncio.ensure_future(ended(turn))
        question = await asked.get()
        if end == "crash":
            await agent.transport.aclose()
        await running
        assert question.allow(always=True) is False
        assert (await session.prompt("again")).stop_reason == "end_turn"
    assert ["error" in answer for answer in answers] == ([] if end == "crash" else [True])
    assert files_in(tmp_path) == []


async def ended(turn: ClientTurn) -> None:
    with suppress(ConnectionLost):
        await turn


def files_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]
