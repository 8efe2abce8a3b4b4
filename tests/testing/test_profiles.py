"""Habits of published clients and agents: our agent and our client pass each of them."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from duologue import Agent, Permissions, Terminals, Turn, Workspace, connect
from duologue.conversation.items import Message
from duologue.errors import DuologueError
from duologue.testing import (
    AgentAct,
    AgentProfile,
    AgentTester,
    ClientProfile,
    QuirkyAgent,
    QuirkyClient,
    ScenarioFailed,
    Script,
    Step,
    VirtualClock,
    drive,
    play,
)
from duologue.testing.profiles.profile import names_of, read_profile
from tests.builtin.harness import PROGRAM

AGENTS, CLIENTS = names_of("agents"), names_of("clients")


def busy_agent() -> Agent[Any]:
    """Return an agent that uses what a client may offer."""
    agent = Agent("busy")

    @agent.command("go", "Go on")
    async def go(turn: Turn, argument: str) -> None: ...

    @agent.on_prompt
    async def answer(turn: Turn) -> None:
        async with turn.tool("Delete notes.md", kind="delete") as tool:
            if await tool.request_permission():
                await tool.show("deleted")
        await turn.say(f"You wrote: {turn.text}")

    return agent


@pytest.mark.parametrize("name", CLIENTS)
async def test_our_agent_passes_each_client(name: str, tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        run = await QuirkyClient(name).run(busy_agent(), cwd=tmp_path)

    assert any("result" in message for message in run.received)


@pytest.mark.parametrize("name", CLIENTS)
async def test_the_built_in_agent_passes_each_client_as_a_program(name: str, tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        await QuirkyClient(name, prompt="/say hello").run([*PROGRAM], cwd=tmp_path)


@pytest.mark.parametrize("name", AGENTS)
async def test_our_client_passes_each_agent(name: str, tmp_path: Path) -> None:
    rules = Permissions(read="allow")
    async with (
        asyncio.timeout(60),
        connect(QuirkyAgent(name), permissions=rules, workspace=Workspace(tmp_path), terminals=Terminals()) as agent,
        agent.new_session(tmp_path) as session,
    ):
        for number in range(2):
            turn = await session.prompt(f"hello {number}")
            assert (turn.stop_reason, turn.text) == ("end_turn", f"You wrote: hello {number}")
            assert all(call.is_over or call.is_unsettled for call in turn.tool_calls)


@pytest.mark.parametrize("name", AGENTS)
async def test_a_cancelled_turn_of_each_agent_ends(name: str, tmp_path: Path, virtual_time: VirtualClock) -> None:
    slow = read_profile(name, AgentProfile)
    slow = structs.replace(slow, turn=[*slow.turn, AgentAct(delay=300)])
    async with connect(QuirkyAgent(slow), permissions=Permissions(read="allow")) as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("hello") as turn:
            await turn.cancel()
        assert turn.stop_reason == "cancelled" or turn.error is not None


async def test_a_loaded_session_is_replayed_before_or_after_the_response(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(QuirkyAgent("gemini")) as agent:
        session = await agent.load_session("earlier", tmp_path)
        texts = [item.text for item in session.transcript.items if isinstance(item, Message)]
        assert texts == ["earlier", "Earlier answer."]


async def test_an_error_that_a_profile_sends_is_an_error(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(QuirkyAgent("eager")) as agent:
        with pytest.raises(DuologueError):
            await agent.load_session("any", tmp_path)


@pytest.mark.parametrize(("habit", "error"), [("error", True), ("cancel", False), ("queue", False)])
async def test_a_second_prompt_is_treated_as_the_profile_says(
    habit: Any, error: bool, virtual_time: VirtualClock
) -> None:
    profile = AgentProfile(
        about="", source=[], initialize={"protocolVersion": 1}, turn=[AgentAct(delay=10)], second_prompt=habit
    )

    def prompt(number: int) -> Step:
        return Step(send={"id": number, "method": "session/prompt", "params": {"sessionId": "$session", "prompt": []}})

    part = {"error": "*"} if error else {"result": {"stopReason": "end_turn"}}
    first = {"result": {"stopReason": "cancelled" if habit == "cancel" else "end_turn"}}
    ends = Step(expect_all=[{"id": 1, **first}, {"id": 2, **part}])
    await drive(QuirkyAgent(profile), Script(step=[prompt(1), Step(delay=1), prompt(2), ends]))


async def test_a_client_of_jetbrains_fails_an_agent_that_sends_updates_too_early() -> None:
    with pytest.raises(ScenarioFailed, match="the step is `without` this message before a response to 2"):
        async with asyncio.timeout(60):
            await QuirkyClient("jetbrains").run(QuirkyAgent("eager"))
    async with asyncio.timeout(60):
        await QuirkyClient("jetbrains").run(QuirkyAgent("claude"))


async def test_the_fixture_reaches_a_profile_like_every_agent(acp: AgentTester) -> None:
    session = await acp.new_session(QuirkyAgent("codex"))

    assert await session.ask("hello") == "You wrote: hello"


async def test_a_profile_is_a_command_for_clients_in_any_language(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect([*PROGRAM, "--profile", "opencode"]) as agent:
        session = await agent.new_session(tmp_path)
        assert await session.ask("hello") == "You wrote: hello"


def test_an_unknown_profile_is_answered_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert play(profile="gemni") == 2
    assert (
        "profile gemni: no profile 'gemni' of agents; did you mean 'gemini'?; there are: claude"
        in capsys.readouterr().err
    )
    with pytest.raises(ValueError, match="no profile 'zet' of clients"):
        QuirkyClient("zet")
    both = [*PROGRAM, "--profile", "gemini", "--scenario", "x.toml"]
    assert subprocess.run(both, capture_output=True, timeout=60, check=False).returncode == 2


def test_a_profile_of_ones_own_is_read_from_a_file(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('about = "x"\nsource = []\ninitialize = { protocolVersion = 1 }\n')

    assert QuirkyAgent(own).profile.about == "x"
    own.write_text('about = "x"\nsource = []\nscript = { stepp = [] }\n')
    with pytest.raises(ValueError, match=r"own\.toml: .*stepp"):
        QuirkyClient(str(own))


@pytest.mark.parametrize("name", AGENTS)
def test_each_profile_says_where_it_was_seen(name: str) -> None:
    profile = read_profile(name, AgentProfile)

    assert profile.about.endswith(".")
    assert profile.source


@pytest.mark.parametrize("name", CLIENTS)
def test_each_profile_of_a_client_says_where_it_was_seen(name: str) -> None:
    profile = read_profile(name, ClientProfile)

    assert profile.about.endswith(".")
    assert profile.source
