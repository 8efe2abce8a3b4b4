"""Our client drives agents made with the official SDKs, real processes on real pipes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duologue import Permissions, Terminals, Workspace, connect
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.request import PermissionRequest
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.conversation.updates import FileChange, TerminalPart
from duologue.errors import AuthenticationRequired, MethodNotFound, RequestError, ResourceNotFound
from duologue.events import (
    LocationChanged,
    MediaContent,
    ModeChanged,
    Plan,
    SettingsChanged,
    Text,
    Thought,
    TitleChanged,
    ToolCall,
    Usage,
)
from duologue.protocol.values import Elicitation, ElicitationAnswer
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method, Model
from tests.interop.peers import GO, JAVA, KOTLIN, OFFICIAL
from tests.interop.sdks import Sdk

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

FIVE_MEGABYTES = 5_000_000
LONGEST_SECONDS = 50.0
"""A busy machine may take its time to start the agent; what hangs must end all the same."""


class Ping(Model, frozen=True, kw_only=True):
    greeting: str


class Pong(Model, frozen=True, kw_only=True):
    received: str


@asynccontextmanager
async def reached(sdk: Sdk, *options: str, **services: Any) -> AsyncGenerator[RemoteAgent]:
    """Connect to an agent made with this SDK."""
    command = [*sdk.program("agent"), *options]
    async with asyncio.timeout(LONGEST_SECONDS), connect(command, env=sdk.variables, **services) as agent:
        yield agent


@asynccontextmanager
async def session_with(sdk: Sdk, cwd: Path, **services: Any) -> AsyncGenerator[ClientSession]:
    """Open a session with an agent made with this SDK."""
    async with reached(sdk, **services) as agent, agent.new_session(cwd) as session:
        yield session


async def finished(turn: ClientTurn) -> None:
    await turn


def values(session: ClientSession) -> dict[str, Any]:
    return {each.setting_id: each.value for each in session.settings}


async def test_the_agent_introduces_itself_and_its_session(sdk: Sdk, tmp_path: Path) -> None:
    async with reached(sdk) as agent, agent.new_session(tmp_path) as session:
        assert agent.info is not None
        assert (agent.info.name, agent.info.version) == ("interop", "1")
        assert agent.capabilities.load
        if sdk.name != KOTLIN:  # it has no place for them
            assert all([agent.capabilities.list, agent.capabilities.resume, agent.capabilities.close])
        assert session.modes is not None
        assert [mode.mode_id for mode in session.modes.available] == ["ask", "code"]
        if sdk.name not in (JAVA, KOTLIN):  # their answers to session/new have no place for them
            assert values(session) == {"depth": "brief", "loud": False}


async def test_updates_before_the_response_of_session_new_are_not_lost(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path) as session:
        await session.prompt("stream 1")
        assert [command.name for command in session.commands] == ["init"]


async def test_a_stream_of_chunks_arrives_whole_and_in_order(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path) as session:
        async with session.prompt("stream 200") as turn:
            pieces = [event.text async for event in turn if isinstance(event, Text)]
        assert pieces == [f"{number} " for number in range(200)]
        assert turn.stop_reason == "end_turn"
        assert (await session.prompt("refuse")).stop_reason == "refusal"


async def test_every_kind_of_update_is_an_event(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path) as session:
        async with session.prompt("updates") as turn:
            seen = [type(event) async for event in turn]
        gaps: dict[str, set[type]] = {JAVA: {TitleChanged}, KOTLIN: {TitleChanged, Usage, SettingsChanged}}
        unknown = gaps.get(sdk.name, set())
        kinds = [Thought, Plan, Usage, TitleChanged, ModeChanged, SettingsChanged, MediaContent]
        assert seen == [kind for kind in kinds if kind not in unknown]
        assert session.title == (None if TitleChanged in unknown else "Interop")
        assert session.modes is not None
        assert session.modes.current == "code"
        if SettingsChanged not in unknown:
            assert values(session)["depth"] == "long"
        if Usage not in unknown:
            assert session.usage is not None
            assert session.usage.used == 10


async def test_a_tool_call_is_followed_from_its_beginning_to_its_diff(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path) as session:
        async with session.prompt("tools") as turn:
            events = [event async for event in turn]
        assert [e.status for e in events if isinstance(e, ToolCall)] == ["pending", "in_progress", "completed"]
        assert [(e.path, e.line) for e in events if isinstance(e, LocationChanged)] == [(f"{tmp_path}/a.txt", 3)]
        [tool] = turn.tool_calls
        assert (tool.title, tool.kind, tool.raw_output) == ("Edit", "edit", {"ok": True})
        [change] = tool.content
        assert isinstance(change, FileChange)
        assert (change.old_text, change.new_text) == ("old\n", "new\n")


async def test_a_permission_question_is_answered_with_each_option(sdk: Sdk, tmp_path: Path) -> None:
    wanted = ["id-allow_once", "id-reject_once", "id-reject_always", "id-allow_always"]
    left = iter(wanted)

    async def choose(question: PermissionRequest) -> None:
        question.choose(next(left))

    permissions = Permissions(on_request=choose)
    async with reached(sdk, permissions=permissions) as agent:
        answers: list[str] = []
        for _ in wanted:  # endless output counts in its own session
            async with agent.new_session(tmp_path) as session:
                answers.append(await session.ask("permission", check=False))
        assert answers == wanted


async def test_a_permission_request_without_an_answer_is_rejected(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path) as session:
        assert await session.ask("permission", check=False) == "id-reject_once"


async def test_files_are_read_and_written_inside_the_session_only(sdk: Sdk, tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.txt"
    project.mkdir()
    (project / "notes.txt").write_text("one\ntwo\nthree\n")
    outside.write_text("one\nsecret\n")
    async with session_with(sdk, project, workspace=Workspace(), permissions=Permissions(edit="allow")) as session:
        assert (await session.ask(f"read {project}/notes.txt")).rstrip("\n") == "two"
        assert await session.ask(f"write {project}/new.txt hello") == "written"
        with pytest.raises(RequestError):
            await session.prompt(f"read {outside}")
        with pytest.raises(RequestError):
            await session.prompt(f"write {outside} gone")
    assert (project / "new.txt").read_text() == "hello"
    assert outside.read_text() == "one\nsecret\n"


async def test_a_command_runs_in_our_terminal_and_is_shown_in_its_tool_call(sdk: Sdk, tmp_path: Path) -> None:
    services = {"terminals": Terminals(), "permissions": Permissions(execute="allow")}
    async with session_with(sdk, tmp_path, **services) as session:
        turn = await session.prompt("run echo hello")
        assert turn.text == "0: hello\n"
        [tool] = turn.tool_calls
        assert isinstance(tool.content[0], TerminalPart)
        assert await session.ask("kill") in ("SIGTERM", "SIGKILL")


async def test_a_command_that_was_not_allowed_does_not_run(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path, terminals=Terminals()) as session:
        with pytest.raises(RequestError):
            await session.prompt(f"run touch {tmp_path}/made")
    assert not (tmp_path / "made").exists()


async def test_modes_and_options_are_set_and_still_are_when_the_session_is_loaded(sdk: Sdk, tmp_path: Path) -> None:
    sdk.lacks(KOTLIN, what="has no options")
    async with reached(sdk) as agent:
        async with agent.new_session(tmp_path) as session:
            await session.set_mode("code")
            await session.set_option("depth", "long")
            await session.set_option("loud", True)
            assert values(session) == {"depth": "long", "loud": True}
        again = await agent.load_session(session.id, tmp_path)
        assert again.modes is not None
        assert again.modes.current == "code"
        if sdk.name != JAVA:  # its answer to session/load has no place for them
            assert values(again) == {"depth": "long", "loud": True}


async def test_a_turn_is_cancelled_and_its_final_updates_are_received(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path) as session:
        began = asyncio.Event()
        session.watch(lambda event: began.set())
        turn = session.prompt("wait")
        async with asyncio.TaskGroup() as group:
            group.create_task(finished(turn))
            await began.wait()
            await session.cancel()
        # A turn of the Kotlin SDK is ended where it waits, and cannot say more.
        assert (turn.stop_reason, turn.text) == ("cancelled", "waiting" if sdk.name == KOTLIN else "waiting stopped")
        assert await session.ask("echo and on") == "and on"


async def test_a_turn_that_is_left_early_is_cancelled(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path) as session:
        async with session.prompt("wait") as turn:
            async for event in turn:
                assert isinstance(event, Text)
                break
        assert turn.stop_reason == "cancelled"


async def test_a_session_is_loaded_with_all_that_was_said_or_resumed_without(sdk: Sdk, tmp_path: Path) -> None:
    async with reached(sdk) as agent:
        async with agent.new_session(tmp_path) as session:
            await session.prompt("stream 3")
        loaded = await agent.load_session(session.id, tmp_path)
        assert [message.role for message in loaded.transcript.messages] == ["user", "agent"]
        assert loaded.last_message_text() == "0 1 2 "
        await loaded.aclose()
        sdk.lacks(KOTLIN, what="has no session/resume")
        resumed = await agent.resume_session(session.id, tmp_path)
        assert resumed.transcript.messages == []
        assert await resumed.ask("echo here again") == "here again"
        with pytest.raises(ResourceNotFound):
            await agent.load_session("missing", tmp_path)


async def test_all_pages_of_the_list_are_read(sdk: Sdk, tmp_path: Path) -> None:
    sdk.lacks(KOTLIN, what="has no session/list")
    async with reached(sdk) as agent:
        made = [(await agent.new_session(tmp_path)).id for _ in range(3)]
        found = await agent.list_sessions()
        assert [each.session_id for each in found] == made
        assert [each.title for each in found] == [f"Title of {session_id}" for session_id in made]


async def test_a_session_is_deleted(sdk: Sdk, tmp_path: Path) -> None:
    sdk.lacks(OFFICIAL, GO, KOTLIN, what="has no session/delete")
    async with reached(sdk) as agent:
        session = await agent.new_session(tmp_path)
        await agent.delete_session(session.id)
        assert await agent.list_sessions() == []
        await agent.delete_session(session.id)


async def test_questions_to_the_user_are_answered(sdk: Sdk, tmp_path: Path) -> None:
    sdk.lacks(KOTLIN, what="has no elicitation")
    sdk.lacks(GO, what="has no place for the session of a question: what it sends belongs to none")
    asked: list[Elicitation] = []
    answers = iter(
        [
            ElicitationAnswer(action="accept", content={"name": "Ada", "count": 2}),
            ElicitationAnswer(action="decline"),
            ElicitationAnswer(action="accept"),
        ]
    )

    async def answer(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        return next(answers)

    async with session_with(sdk, tmp_path, on_elicit=answer) as session:
        assert json.loads(await session.ask("form")) == ["accept", {"name": "Ada", "count": 2}]
        assert json.loads(await session.ask("form")) == ["decline", None]
        assert await session.ask("url") == "accept"
    assert [question.message for question in asked] == ["Which one?", "Which one?", "Go there"]
    assert asked[0].schema is not None
    assert asked[0].schema["required"] == ["name"]
    assert (asked[2].url, asked[2].elicitation_id) == ("https://example.com/login", "visit-1")


async def test_custom_methods_work_both_ways(sdk: Sdk, tmp_path: Path) -> None:
    sdk.lacks(JAVA, KOTLIN, what="has no place for a method of another name")
    handlers = Handlers()

    @handlers.on(Method("_interop/ping", Ping, Pong))
    async def ping(context: Context, params: Ping) -> Pong:
        return Pong(received=params.greeting)

    async with reached(sdk, handlers=handlers) as agent, agent.new_session(tmp_path) as session:
        assert await agent.call("_interop/echo", {"deep": [1, None]}) == {"deep": [1, None]}
        assert (await session.ask("ping")).replace(" ", "") == '{"received":"hello"}'
        with pytest.raises(MethodNotFound):
            await agent.call("_nobody/knows", {})


async def test_five_megabytes_go_both_ways_in_one_message(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path) as session:
        assert len(await session.ask(f"big {FIVE_MEGABYTES}")) == FIVE_MEGABYTES
        assert await session.ask("echo " + "y" * FIVE_MEGABYTES) == "y" * FIVE_MEGABYTES


async def test_an_error_arrives_whole_and_the_connection_lives_on(sdk: Sdk, tmp_path: Path) -> None:
    async with session_with(sdk, tmp_path) as session:
        with pytest.raises(RequestError, match="as requested") as caught:
            await session.prompt("error")
        assert (caught.value.code, caught.value.data) == (-32050, {"asked": True})
        assert await session.ask("echo still here") == "still here"


async def test_login_comes_before_the_first_session(sdk: Sdk, tmp_path: Path) -> None:
    async with reached(sdk, "--login") as agent:
        assert [method.method_id for method in agent.login_methods] == ["token"]
        with pytest.raises(AuthenticationRequired):
            await agent.new_session(tmp_path)
        await agent.login("token")
        async with agent.new_session(tmp_path) as session:
            assert await session.ask("echo hello") == "hello"
