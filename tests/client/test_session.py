"""A client and the built-in agent in one process: sessions, turns, events, settings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue import Agent, Turn
from duologue.builtin.agent import builtin_agent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.conversation.updates import PlanEntry
from duologue.errors import CommandNotFound, InvalidParams, MethodNotFound, RequestError, StartError
from duologue.events import LocationChanged, MediaContent, Plan, Text, Thought, ToolCall, UnknownUpdate, Usage


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("hello\nworld\n")
    return tmp_path


def current_mode(session: ClientSession) -> str | None:
    return None if session.modes is None else session.modes.current


async def test_a_turn_is_a_stream_of_events_and_then_an_object(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent()) as agent, agent.new_session(project) as session:
        assert agent.info is not None
        assert agent.info.name == "duologue"
        seen: list[str] = []
        async with session.prompt("hello") as turn:
            async for event in turn:
                match event:
                    case Text(text=text):
                        seen.append(text)
                        assert b"agent_message_chunk" in event.raw
                    case _:
                        pass
        assert "".join(seen) == turn.text
        assert turn.text.startswith("Hello!")
        assert turn.stop_reason == "end_turn"


async def test_an_awaited_turn_is_the_finished_turn(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent()) as agent, agent.new_session(project) as session:
        turn = await session.prompt("/plan")
        assert turn.stop_reason == "end_turn"
        assert turn.plan is not None
        assert {entry.status for entry in turn.plan.entries} == {"completed"}
        assert isinstance(turn.plan.entries[0], PlanEntry)
        assert "three steps" in await session.ask("/plan")
        assert session.transcript.messages[0].role == "user"


@pytest.mark.rule(22, 80, 81)
async def test_leaving_a_turn_early_cancels_it_and_waits_for_its_end(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent()) as agent, agent.new_session(project) as session:
        async with session.prompt("/slow") as turn:
            async for event in turn:
                if isinstance(event, Text):
                    break
        assert turn.stop_reason == "cancelled"
        assert (await session.prompt("hello")).stop_reason == "end_turn"


async def test_cancelling_the_task_that_awaits_a_prompt_ends_the_turn_at_the_agent(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent()) as agent, agent.new_session(project) as session:
        began = asyncio.Event()
        session.watch(lambda event: began.set())
        waiting = asyncio.ensure_future(session.ask("/slow"))
        await began.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await session.prompt("hello")).stop_reason == "end_turn"


async def test_prompts_sent_together_are_answered_in_order(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent()) as agent, agent.new_session(project) as session:
        turns = await asyncio.gather(*(session.prompt(f"/echo {n}") for n in range(5)))
        assert [f"You said: {n}" in turn.text for n, turn in enumerate(turns)] == [True] * 5


async def test_tool_calls_are_shown_whole_and_their_places_can_be_followed(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent()) as agent, agent.new_session(project) as session:
        calls: list[ToolCall] = []
        locations: list[LocationChanged] = []
        async with session.prompt("/read README.md") as turn:
            async for event in turn:
                match event:
                    case ToolCall():
                        calls.append(event)
                    case LocationChanged():
                        locations.append(event)
                    case _:
                        pass
        assert [call.status for call in calls] == ["pending", "in_progress", "completed"]
        assert {call.title for call in calls} == {"Read README.md"}
        assert locations[0].path == str(project / "README.md")
        assert session.location is not None
        assert session.transcript.tool_calls[0].kind == "read"


async def test_every_kind_of_event_reaches_the_caller_unknown_ones_included(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent()) as agent, agent.new_session(project) as session:
        kinds: list[type] = []
        session.watch(lambda event: kinds.append(type(event)))
        for prompt in ("/think", "/image", "/plan", "/usage", "/unknown-update", "/title Hi", "/notice", "/compact"):
            await session.prompt(prompt)
        assert {Text, Thought, MediaContent, Plan, Usage, UnknownUpdate, ToolCall} <= set(kinds)
        assert session.title == "Hi"
        assert session.usage is not None
        assert session.usage.size == 200_000
        assert [command.name for command in session.commands][:1]


@pytest.mark.rule(118)
async def test_modes_models_and_settings_are_read_and_changed(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent()) as agent, agent.new_session(project) as session:
        assert current_mode(session) == "ask"
        assert session.models is not None
        assert [option.value for option in session.models.choices] == ["echo-1", "echo-2"]
        await session.set_mode("code")
        assert current_mode(session) == "code"
        await session.set_model("echo-2")
        assert session.models.value == "echo-2"
        await session.set_option("numbers", False)
        assert next(s for s in session.settings if s.setting_id == "numbers").value is False
        with pytest.raises(InvalidParams):
            await session.set_option("numbers", "perhaps")


@pytest.mark.rule(65, 68, 71)
async def test_sessions_are_listed_loaded_resumed_forked_archived_and_deleted(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent(unstable=True), unstable=True) as agent:
        session = await agent.new_session(project)
        await session.prompt("/echo remember me")
        await session.set_title("Kept")
        assert await session.status() == "open"
        fork = await session.fork()
        await session.aclose()

        listed = await agent.list_sessions(cwd=project)
        assert {info.session_id for info in listed} == {session.id, fork.id}
        loaded = await agent.load_session(session.id, project)
        assert "remember me" in loaded.last_message_text()
        assert loaded.transcript.messages[0].text == "/echo remember me"
        await loaded.aclose()
        resumed = await agent.resume_session(session.id, project)
        assert len(resumed.transcript) == 0
        await resumed.aclose()
        await fork.aclose()

        await agent.archive_session(session.id)
        assert session.id not in {info.session_id for info in await agent.list_sessions()}
        await agent.unarchive_session(session.id)
        await agent.delete_session(session.id)
        await agent.delete_session(session.id)
        assert {info.session_id for info in await agent.list_sessions()} == {fork.id}
        with pytest.raises(RequestError):
            await agent.load_session(session.id, project)


async def test_files_go_through_the_workspace_and_the_permissions(project: Path) -> None:
    rules = Permissions(read="allow", edit="allow")
    async with (
        asyncio.timeout(60),
        connect(builtin_agent(), permissions=rules, workspace=Workspace(project)) as agent,
        agent.new_session(project) as session,
    ):
        await session.prompt("/write new.txt from the agent")
        assert (project / "new.txt").read_text() == "from the agent\n"
    async with asyncio.timeout(60), connect(builtin_agent(), workspace=Workspace(project)) as agent:
        async with agent.new_session(project) as session:
            turn = await session.prompt("/write other.txt nothing")
        assert "left" in turn.text
        assert not (project / "other.txt").exists()


async def test_an_error_of_the_agent_is_raised_and_the_session_goes_on(project: Path) -> None:
    async with asyncio.timeout(60), connect(builtin_agent()) as agent, agent.new_session(project) as session:
        with pytest.raises(RequestError, match="asked for"):
            await session.prompt("/error 1234")
        assert (await session.prompt("/refuse")).stop_reason == "refusal"
        assert [message.is_refused for message in session.transcript.messages][-2:] == [True, True]
        assert (await session.prompt("hello")).stop_reason == "end_turn"


async def test_a_target_that_is_not_an_agent_is_rejected_at_once() -> None:
    with pytest.raises(TypeError, match="expected a command, URL, configuration, agent object or transport, not 42"):
        connect(42)  # type: ignore[arg-type]
    with pytest.raises(CommandNotFound, match=r"pass its arguments as `args`, or in a list: \['my-agent', '--acp'\]"):
        async with connect({"command": "my-agent --acp"}):
            pass
    with pytest.raises(StartError, match=r"needs a list of `args`.*Expected `array`, got `str`"):
        async with connect({"command": "my-agent", "args": "--acp"}):
            pass
    with pytest.raises(StartError, match="a table `env`: Expected `object`, got `array`"):
        async with connect({"command": "my-agent", "env": ["A=1"]}):
            pass


async def test_content_that_the_agent_does_not_support_is_rejected_by_the_client(project: Path) -> None:
    from duologue.agent.hosting.function_agent import as_agent

    async def answer(prompt: str) -> str:
        return prompt

    (project / "dot.png").write_bytes(b"dot")
    async with asyncio.timeout(60), connect(as_agent(answer)) as agent, agent.new_session(project) as session:
        with pytest.raises(InvalidParams, match="does not support images"):
            session.prompt("look", images=["dot.png"])
        with pytest.raises(InvalidParams, match="text/markdown, not image"):
            session.prompt("look", images=["README.md"])
        with pytest.raises(InvalidParams, match="text/markdown, not audio"):
            session.prompt("listen", audio=["README.md"])
        with pytest.raises(MethodNotFound, match="cannot log out"):
            await agent.logout()
        assert await session.ask("hi", files=["README.md"]) == "hi"


async def test_a_turn_in_each_of_1200_sessions_runs_at_the_same_time(tmp_path: Path) -> None:
    agent, begun, may_end = Agent("many"), 0, asyncio.Event()

    @agent.on_prompt
    async def answer(turn: Turn) -> None:
        nonlocal begun
        begun += 1
        if begun == 1200:
            may_end.set()
        await may_end.wait()

    async with asyncio.timeout(60), connect(agent) as remote:
        sessions = [await remote.new_session(tmp_path) for _ in range(1200)]
        turns = await asyncio.gather(*(session.prompt("go") for session in sessions))

    assert {turn.stop_reason for turn in turns} == {"end_turn"}
