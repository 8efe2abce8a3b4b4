"""Our client reaches agents behind the other SDKs' own servers, over WebSocket and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from duologue import Permissions, Workspace, connect
from duologue.client.agent import RemoteAgent
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.errors import ConnectError, RequestError
from duologue.events import Text
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method, Model
from tests.interop.peers import OFFICIAL_NEXT, RUST, TYPESCRIPT
from tests.interop.remote import TOKEN, listening
from tests.interop.sdks import Sdk, install

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

FIVE_MEGABYTES = 5_000_000
LONGEST_SECONDS = 50.0


class Ping(Model, frozen=True, kw_only=True):
    greeting: str


class Pong(Model, frozen=True, kw_only=True):
    received: str


@pytest.fixture(scope="session", params=[TYPESCRIPT, OFFICIAL_NEXT, RUST])
def server_sdk(request: pytest.FixtureRequest) -> Sdk:
    return install(request.param, is_remote=True)


@pytest.fixture(scope="module")
def port(server_sdk: Sdk) -> Iterator[int]:
    with listening(server_sdk) as port:
        yield port


@pytest.fixture(params=["ws", "http"])
def url(request: pytest.FixtureRequest, port: int) -> str:
    return f"{request.param}://127.0.0.1:{port}/acp#token={TOKEN}"


@asynccontextmanager
async def reached(url: str, **services: Any) -> AsyncGenerator[RemoteAgent]:
    async with asyncio.timeout(LONGEST_SECONDS), connect(url, **services) as agent:
        yield agent


@asynccontextmanager
async def session_with(url: str, cwd: Path, **services: Any) -> AsyncGenerator[ClientSession]:
    async with reached(url, **services) as agent, agent.new_session(cwd) as session:
        yield session


async def finished(turn: ClientTurn) -> None:
    await turn


async def test_the_agent_introduces_itself_and_its_session(url: str, tmp_path: Path) -> None:
    async with reached(url) as agent, agent.new_session(tmp_path) as session:
        assert agent.info is not None
        assert agent.info.name == "interop"
        assert session.modes is not None
        assert [mode.mode_id for mode in session.modes.available] == ["ask", "code"]


async def test_a_stream_of_chunks_arrives_whole_and_in_order(url: str, tmp_path: Path) -> None:
    async with session_with(url, tmp_path) as session:
        async with session.prompt("stream 500") as turn:
            pieces = [event.text async for event in turn if isinstance(event, Text)]
        assert pieces == [f"{number} " for number in range(500)]
        assert turn.stop_reason == "end_turn"


async def test_files_and_permissions_are_asked_for_and_answered(url: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    async with session_with(url, tmp_path, workspace=Workspace(), permissions=Permissions(edit="allow")) as session:
        assert (await session.ask(f"read {tmp_path}/notes.txt")).rstrip("\n") == "two"
        assert await session.ask(f"write {tmp_path}/new.txt hello") == "written"
        assert await session.ask("permission", check=False) == "id-reject_once"  # there was no user to ask
    assert (tmp_path / "new.txt").read_text() == "hello"


async def test_a_turn_is_cancelled_and_its_final_updates_are_received(url: str, tmp_path: Path) -> None:
    async with session_with(url, tmp_path) as session:
        began = asyncio.Event()
        session.watch(lambda event: began.set())
        turn = session.prompt("wait")
        async with asyncio.TaskGroup() as group:
            group.create_task(finished(turn))
            await began.wait()
            await session.cancel()
        assert (turn.stop_reason, turn.text) == ("cancelled", "waiting stopped")
        assert await session.ask("echo and on") == "and on"


async def test_two_sessions_of_one_connection_do_not_mix(url: str, tmp_path: Path) -> None:
    async with reached(url) as agent, agent.new_session(tmp_path) as one, agent.new_session(tmp_path) as other:
        long, short = await asyncio.gather(one.ask("stream 100"), other.ask("echo me"))
        assert (long, short) == ("".join(f"{number} " for number in range(100)), "me")


async def test_a_session_is_loaded_with_all_that_was_said_before_loading_returns(url: str, tmp_path: Path) -> None:
    async with reached(url) as agent:
        session = await agent.new_session(tmp_path)
        await session.prompt("stream 50")
        await session.aclose()
        loaded = await agent.load_session(session.id, tmp_path)
        assert [message.role for message in loaded.transcript.messages] == ["user", "agent"]
        assert len(loaded.last_message_text().split()) == 50


async def test_a_session_is_resumed_without_hearing_it_again(url: str, tmp_path: Path) -> None:
    async with reached(url) as agent:
        session = await agent.new_session(tmp_path)
        await session.prompt("stream 5")
        await session.aclose()
        resumed = await agent.resume_session(session.id, tmp_path)
        assert resumed.transcript.messages == []
        assert await resumed.ask("echo here again") == "here again"


@pytest.mark.fault("HTT-27")
async def test_a_session_is_closed_and_opened_again_and_again_on_one_connection(url: str, tmp_path: Path) -> None:
    async with reached(url) as agent:
        session = await agent.new_session(tmp_path)
        for number in range(10):
            await session.prompt(f"echo {number}")
            await session.aclose()
            loaded = await agent.load_session(session.id, tmp_path)
            assert [loaded.last_message_text(), len(loaded.transcript.messages)] == [str(number), 2 * (number + 1)]
            await loaded.aclose()
            session = await agent.resume_session(session.id, tmp_path)


async def test_settings_lists_and_custom_methods_work_both_ways(url: str, tmp_path: Path) -> None:
    handlers = Handlers()

    @handlers.on(Method("_interop/ping", Ping, Pong))
    async def ping(context: Context, params: Ping) -> Pong:
        return Pong(received=params.greeting)

    async with reached(url, handlers=handlers) as agent, agent.new_session(tmp_path) as session:
        await session.set_mode("code")
        assert session.id in [each.session_id for each in await agent.list_sessions()]
        assert await agent.call("_interop/echo", {"deep": [1, None]}) == {"deep": [1, None]}
        assert (await session.ask("ping")).replace(" ", "") == '{"received":"hello"}'


async def test_five_megabytes_go_both_ways_in_one_message(url: str, tmp_path: Path) -> None:
    async with session_with(url, tmp_path) as session:
        assert len(await session.ask(f"big {FIVE_MEGABYTES}")) == FIVE_MEGABYTES
        assert await session.ask("echo " + "y" * FIVE_MEGABYTES) == "y" * FIVE_MEGABYTES


async def test_an_error_arrives_whole_and_the_connection_lives_on(url: str, tmp_path: Path) -> None:
    async with session_with(url, tmp_path) as session:
        with pytest.raises(RequestError, match="as requested") as caught:
            await session.prompt("error")
        assert (caught.value.code, caught.value.data) == (-32050, {"asked": True})
        assert await session.ask("echo still here") == "still here"


async def test_many_sessions_at_once_do_not_mix(url: str, tmp_path: Path) -> None:
    async with reached(url) as agent:
        sessions = await asyncio.gather(*(agent.new_session(tmp_path) for _ in range(20)))
        answers = await asyncio.gather(*(session.ask(f"stream {50 + each}") for each, session in enumerate(sessions)))
    assert answers == ["".join(f"{number} " for number in range(50 + each)) for each in range(20)]


async def test_a_wrong_token_opens_nothing(url: str) -> None:
    with pytest.raises(ConnectError, match="401"):
        async with reached(url.replace(TOKEN, "wrong")):
            pass


async def test_the_gate_of_these_tests_rejects_requests_without_its_cookie(url: str) -> None:
    http = url.partition("#")[0].replace("ws:", "http:")
    headers = {"Authorization": f"Bearer {TOKEN}", "Acp-Connection-Id": "somebody's"}
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.delete(http, headers=headers)).status_code == 403
        assert (await client.delete(http, headers={**headers, "Cookie": "lane=7"})).status_code == 404
