"""`connect(warm=True)`: a session opened in advance is handed out by `new_session`, and is otherwise invisible."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.client import new_sessions
from duologue.client.agent import RemoteAgent
from duologue.client.connect import connect
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.errors import AuthenticationRequired, InvalidParams
from duologue.events import Event, Text
from tests.client.scripted_agent import Json, ScriptedAgent, error, result, text_chunk

CLOSABLE: Json = {"sessionCapabilities": {"close": {}, "list": {}, "delete": {}}}


@asynccontextmanager
async def warm(agent: ScriptedAgent, **options: Any) -> AsyncGenerator[RemoteAgent]:
    async with asyncio.timeout(60), connect(agent, warm=True, **options) as remote:
        yield remote


async def until_ready(agent: RemoteAgent) -> str:
    """Wait until a spare is open."""
    spare = agent._new_sessions._spare
    assert spare is not None
    await asyncio.wait({spare.opening})
    assert spare.session is not None
    return spare.session.id


async def test_a_new_session_is_the_one_that_was_opened_in_advance() -> None:
    agent = ScriptedAgent()
    async with warm(agent) as remote:
        spare = await until_ready(remote)
        session = await remote.new_session()

        assert session.id == spare == "s1"
        assert (await session.prompt("hi")).stop_reason == "end_turn"
        assert await until_ready(remote) == "s2"
        assert len(agent.calls("session/new")) == 2


async def test_a_session_with_other_options_is_opened_anew_and_the_next_spare_has_them(tmp_path: Path) -> None:
    agent = ScriptedAgent(CLOSABLE)
    async with warm(agent) as remote:
        await until_ready(remote)
        session = await remote.new_session(tmp_path)

        assert session.id == "s2"
        assert (await agent.until("session/close"))["sessionId"] == "s1"
        spare = await until_ready(remote)
        assert agent.calls("session/new")[-1]["cwd"] == str(tmp_path)
        assert (await remote.new_session(tmp_path)).id == spare


async def test_a_session_that_is_asked_for_while_the_spare_is_being_opened_is_that_one() -> None:
    agent = ScriptedAgent()
    may_answer = asyncio.Event()

    async def new(params: Json) -> Json:
        await may_answer.wait()
        return result(sessionId=f"s{next(agent.sessions)}")

    agent.answers["session/new"] = new
    async with warm(agent) as remote:
        opening = asyncio.create_task(remote.new_session())
        await agent.until("session/new")
        may_answer.set()

        assert (await opening).id == "s1"


async def test_events_before_the_session_is_used_arrive_in_order_and_before_later_ones() -> None:
    agent = ScriptedAgent()
    seen: list[str] = []

    def opened(session: ClientSession) -> None:
        session.watch(lambda event: seen.append(event.text) if isinstance(event, Text) else None)

    async with warm(agent) as remote:
        remote.on_session = opened
        await until_ready(remote)
        agent.update(text_chunk("a"), text_chunk("b"))
        agent.answers["session/prompt"] = say(agent, "c")
        marker = asyncio.create_task(remote.call("_after", {}))
        await marker
        assert seen == []
        session = await remote.new_session()
        assert seen == ["a", "b"]
        await session.prompt("go on")

        assert seen == ["a", "b", "c"]
        assert session.transcript.messages[0].text == "ab"


def say(agent: ScriptedAgent, text: str) -> Any:
    async def answer(params: Json) -> Json:
        agent.update(text_chunk(text), session_id=params["sessionId"])
        return result(stopReason="end_turn")

    return answer


async def test_a_request_about_the_spare_waits_until_the_session_is_used(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("be brief")
    agent = ScriptedAgent()
    async with warm(agent, workspace=Workspace(tmp_path), cwd=tmp_path) as remote:
        await until_ready(remote)
        read = agent.ask("fs/read_text_file", {"sessionId": "s1", "path": str(tmp_path / "AGENTS.md")})
        await remote.call("_after", {})
        assert not read.done()
        await remote.new_session(tmp_path)

        assert (await read)["result"]["content"] == "be brief"


async def test_a_request_about_a_spare_that_is_never_used_is_answered_with_an_error(tmp_path: Path) -> None:
    agent = ScriptedAgent(CLOSABLE)
    async with warm(agent, workspace=Workspace(tmp_path), cwd=tmp_path) as remote:
        await until_ready(remote)
        read = agent.ask("fs/read_text_file", {"sessionId": "s1", "path": str(tmp_path / "AGENTS.md")})
        await remote.new_session("/")

        assert (await read)["error"]["code"] == -32002


async def test_an_unused_spare_is_closed_and_deleted_on_leaving() -> None:
    agent = ScriptedAgent(CLOSABLE)
    async with warm(agent) as remote:
        await until_ready(remote)

    assert [call["sessionId"] for call in agent.calls("session/close")] == ["s1"]
    assert [call["sessionId"] for call in agent.calls("session/delete")] == ["s1"]


async def test_an_agent_that_cannot_close_sessions_gets_no_request_for_it() -> None:
    agent = ScriptedAgent()
    async with warm(agent) as remote:
        await until_ready(remote)

    assert agent.calls("session/close") == agent.calls("session/delete") == []


async def test_leaving_does_not_wait_for_an_agent_that_never_opens_the_spare() -> None:
    agent = ScriptedAgent()

    async def new(params: Json) -> Json:
        await asyncio.Event().wait()
        return {}

    agent.answers["session/new"] = new
    async with warm(agent):
        await agent.until("session/new")


async def test_the_spare_is_not_listed_and_not_announced() -> None:
    agent = ScriptedAgent(CLOSABLE)
    announced: list[str] = []

    async def listed(params: Json) -> Json:
        return result(sessions=[{"sessionId": each, "cwd": "/"} for each in ("old", "s1")])

    agent.answers["session/list"] = listed
    async with warm(agent) as remote:
        remote.on_session = lambda session: announced.append(session.id)
        await until_ready(remote)

        assert [each.session_id for each in await remote.list_sessions()] == ["old"]
        assert announced == []
        await remote.new_session()
        assert announced == ["s1"]


async def test_a_list_that_has_the_spare_before_its_response_arrives_does_not_show_it() -> None:
    agent = ScriptedAgent(CLOSABLE)
    is_listed = asyncio.Event()

    async def new(params: Json) -> Json:
        await is_listed.wait()
        return result(sessionId="s1")

    async def listed(params: Json) -> Json:
        asyncio.get_running_loop().call_soon(is_listed.set)
        return result(sessions=[{"sessionId": each, "cwd": "/"} for each in ("old", "s1")])

    agent.answers |= {"session/new": new, "session/list": listed}
    async with warm(agent) as remote:
        assert [each.session_id for each in await remote.list_sessions()] == ["old"]


async def test_a_spare_that_cannot_be_opened_leaves_the_error_to_new_session() -> None:
    agent = ScriptedAgent()

    async def new(params: Json) -> Json:
        return error(-32000, "log in first")

    agent.answers["session/new"] = new
    async with warm(agent) as remote:
        await agent.until("session/new")
        with pytest.raises(AuthenticationRequired):
            await remote.new_session()
        assert len(agent.calls("session/new")) == 2
        agent.answers["session/new"] = agent._new
        assert (await remote.new_session()).id == "s1"


async def test_a_spare_of_an_agent_that_was_started_again_is_not_used() -> None:
    agent = ScriptedAgent()
    async with warm(agent, restart=True) as remote:
        await until_ready(remote)
        await remote._supervisor.reconnect()

        assert (await remote.new_session()).id == "s2"


async def test_an_old_spare_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ScriptedAgent(CLOSABLE)
    async with warm(agent) as remote:
        await until_ready(remote)
        monkeypatch.setattr(new_sessions, "FRESH_SECONDS", 0.0)

        assert (await remote.new_session()).id == "s2"
        assert (await agent.until("session/close"))["sessionId"] == "s1"


@pytest.mark.parametrize("size", [1, 2 * 1024 * 1024], ids=["many events", "a large one"])
async def test_a_spare_with_more_events_than_are_buffered_is_not_used(size: int) -> None:
    agent = ScriptedAgent(CLOSABLE)
    async with warm(agent) as remote:
        await until_ready(remote)
        count = new_sessions.MAX_EVENTS + 1 if size == 1 else 1
        agent.update(*[text_chunk("x" * size)] * count)
        await remote.call("_after", {})

        assert (await remote.new_session()).id == "s2"


async def test_a_caller_that_is_cancelled_leaves_the_spare_to_the_next() -> None:
    agent = ScriptedAgent()
    may_answer = asyncio.Event()

    async def new(params: Json) -> Json:
        await may_answer.wait()
        return result(sessionId=f"s{next(agent.sessions)}")

    agent.answers["session/new"] = new
    async with warm(agent) as remote:
        opening = asyncio.create_task(remote.new_session())
        await agent.until("session/new")
        opening.cancel()
        await asyncio.wait({opening})
        may_answer.set()

        assert (await remote.new_session()).id == "s1"


async def test_two_callers_get_two_sessions() -> None:
    agent = ScriptedAgent()
    async with warm(agent) as remote:
        await until_ready(remote)
        one, other = await asyncio.gather(remote.new_session(), remote.new_session())

        assert one.id != other.id


async def test_settings_are_applied_to_the_spare_when_it_is_used() -> None:
    async with asyncio.timeout(60), connect(builtin_agent(), warm=True) as remote:
        await until_ready(remote)
        with pytest.raises(InvalidParams):
            await remote.new_session(settings={"no such option": True})
        events: list[Event] = []
        remote.on_session = lambda session: (session.watch(events.append), None)[1]
        async with remote.new_session() as session:
            turn = await session.prompt("hello")

        assert turn.text.startswith("Hello!")
        assert "".join(event.text for event in events if isinstance(event, Text)) == turn.text


async def test_without_warm_no_session_is_opened_in_advance() -> None:
    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent) as remote:
        await remote.new_session()
        await remote.call("_after", {})

    assert len(agent.calls("session/new")) == 1


def test_the_example_of_a_warm_client_runs() -> None:
    program = Path(__file__).parents[2] / "examples" / "warm_client.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert [line.partition(" (")[0] for line in done.stdout.splitlines()] == [
        f"You said: session {number}" for number in (1, 2, 3)
    ]
