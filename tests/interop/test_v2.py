"""Version 2 with the other implementations of it, both ways, as real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duologue import Permissions, connect
from duologue.client.agent import RemoteAgent
from duologue.client.session import ClientSession
from duologue.conversation.updates import FileChange, TerminalPart
from duologue.errors import DowngradeRequired, RequestError, ResourceNotFound
from duologue.events import StateChanged, Terminal, Text
from tests.interop.peers import OFFICIAL_NEXT, RUST, TYPESCRIPT, Absent, release, rust_examples
from tests.interop.sdks import Json, Sdk, install

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

SECONDS = 50.0


@pytest.fixture(scope="module", params=[TYPESCRIPT, RUST])
def theirs(request: pytest.FixtureRequest) -> Sdk:
    return install(request.param)


# --- our client, their agent


@asynccontextmanager
async def their_session(sdk: Sdk, cwd: Path, **services: Any) -> AsyncGenerator[tuple[RemoteAgent, ClientSession]]:
    command = sdk.program("agent_v2")
    async with (
        asyncio.timeout(SECONDS),
        connect(command, env=sdk.variables, protocol_versions=(1, 2), **services) as agent,
        agent.new_session(cwd) as session,
    ):
        assert agent.version == 2
        yield agent, session


async def test_our_client_follows_a_turn_of_their_agent(theirs: Sdk, tmp_path: Path) -> None:
    async with their_session(theirs, tmp_path) as (agent, session):
        assert agent.info is not None
        assert (agent.info.name, agent.info.version) == ("interop", "2")
        assert [command.name for command in session.commands] == ["init"]
        for prompt, text in (("echo hello", "hello"), ("whole story", "story"), ("echo ünï", "ünï")):
            turn = await session.prompt(prompt)
            assert (turn.text, turn.stop_reason) == (text, "end_turn")


async def test_our_client_understands_their_tools_terminals_and_diffs(theirs: Sdk, tmp_path: Path) -> None:
    async with their_session(theirs, tmp_path) as (_, session):
        async with session.prompt("tools") as turn:
            events = [event async for event in turn]
        (call,) = turn.tool_calls
        change, terminal = call.content

        assert (call.title, call.kind, call.status, call.locations) == ("Edit", "edit", "completed", [])
        assert isinstance(change, FileChange)
        assert (change.path, change.kind) == (str(tmp_path / "a.txt"), "modify")
        assert change.patch is not None
        assert "+new" in change.patch
        assert terminal == TerminalPart("term")
        ended = [event for event in events if isinstance(event, Terminal)][-1]
        assert (ended.command, ended.output, ended.exit is not None) == ("make", b"out\n", True)
        assert session.usage is not None
        assert (session.title, session.usage.used) == ("Interop", 10)


async def test_our_client_answers_their_questions(theirs: Sdk, tmp_path: Path) -> None:
    async with their_session(theirs, tmp_path, permissions=Permissions(other="allow")) as (_, session):
        async with session.prompt("permission") as turn:
            states = [event.state async for event in turn if isinstance(event, StateChanged)]
        assert turn.text == "id-allow_once"
        assert states == ["running", "requires_action", "running", "idle"]


async def test_our_client_cancels_and_receives_failures(theirs: Sdk, tmp_path: Path) -> None:
    async with their_session(theirs, tmp_path) as (_, session):
        async with session.prompt("wait") as turn:
            async for event in turn:
                if isinstance(event, StateChanged) and event.state == "running":
                    await session.cancel()
        assert turn.stop_reason == "cancelled"
        with pytest.raises(ResourceNotFound, match="gone"):
            await session.prompt("fail")


async def test_our_client_lists_loads_and_sets_at_their_agent(theirs: Sdk, tmp_path: Path) -> None:
    async with their_session(theirs, tmp_path) as (agent, session):
        await session.prompt("echo hello")
        await session.set_mode("code")
        assert session.modes is not None
        assert session.modes.current == "code"
        assert [info.session_id for info in await agent.list_sessions()] == [session.id]
        await session.aclose()
        again = await agent.load_session(session.id, tmp_path)
        assert [message.text for message in again.transcript.messages] == ["echo hello", "hello"]
        await agent.delete_session(session.id)
        assert await agent.list_sessions() == []


async def test_our_client_finds_their_agent_of_version_1(theirs: Sdk, tmp_path: Path) -> None:
    command = theirs.program("agent")
    async with (
        asyncio.timeout(SECONDS),
        connect(command, env=theirs.variables, protocol_versions=(1, 2)) as agent,
        agent.new_session(tmp_path) as session,
    ):
        assert agent.version == 1
        assert (await session.prompt("echo hello")).text == "hello"
    with pytest.raises(DowngradeRequired):
        async with asyncio.timeout(SECONDS), connect(command, env=theirs.variables, protocol_versions=(2,)):
            pass


# --- their client, our agent


def our_command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "duologue.cli.main", "agent", "--v2", "--sessions", str(folder / ".kept")]


def their_view(sdk: Sdk, cwd: Path, *steps: Any) -> Json:
    """Return what their client received in these turns with our built-in agent."""
    play = json.dumps({"command": our_command(cwd), "cwd": str(cwd), "steps": steps})
    ended = subprocess.run(
        [*sdk.program("client_v2"), play],
        capture_output=True,
        timeout=SECONDS,
        check=False,
        env={**os.environ, **sdk.variables},
    )
    assert ended.returncode == 0, ended.stderr.decode()
    seen: Json = json.loads(ended.stdout)
    return seen


def of(turn: Json, kind: str) -> list[Json]:
    return [update for update in turn["updates"] if update["sessionUpdate"] == kind]


def test_their_client_takes_the_tour_with_our_agent(theirs: Sdk, tmp_path: Path) -> None:
    seen = their_view(theirs, tmp_path, ["/tour"])
    (turn,) = seen["turns"]

    assert seen["hello"]["protocolVersion"] == 2
    assert seen["opened"]["configOptions"]
    assert seen["opened"]["availableCommands"]
    assert turn["stopReason"] == "end_turn"
    (echo,) = of(turn, "user_message")
    assert echo["messageId"] == turn["result"]["messageId"]
    assert of(turn, "terminal_output_chunk")
    assert len(seen["asked"]) >= 1
    assert [each["sessionId"] for each in seen["sessions"]] == [seen["opened"]["sessionId"]]
    assert any(option["currentValue"] == "code" for option in seen["changed"]["configOptions"])


def test_their_client_cancels_our_turn_and_our_command(theirs: Sdk, tmp_path: Path) -> None:
    seen = their_view(
        theirs,
        tmp_path,
        ["/run sh -c 'echo begun; sleep 60'", "terminal/cancel"],
        ["/run sh -c 'echo begun; sleep 60'", "terminal_output_chunk"],
    )
    one, two = seen["turns"]

    assert one["wasCancellable"] is True
    assert one["stopReason"] == "end_turn"
    assert two["stopReason"] == "cancelled"


# --- the example programs that the Rust SDK publishes, as they are


@pytest.fixture(scope="module")
def examples() -> Path:
    try:
        return rust_examples()
    except Absent as reason:
        pytest.skip(f"{RUST}: {reason}")


def example_client(program: Path, cwd: Path, *arguments: str) -> list[str]:
    """Run a client of theirs with our built-in agent; return the lines it prints."""
    command = [str(program), "--command", shlex.join(our_command(cwd)), *arguments]
    ended = subprocess.run(command, cwd=cwd, capture_output=True, timeout=SECONDS, check=False, text=True)
    assert ended.returncode == 0, ended.stderr
    return [*ended.stdout.splitlines(), *ended.stderr.splitlines()]


async def test_our_client_goes_through_the_life_of_a_session_with_their_example_agent(
    examples: Path, tmp_path: Path
) -> None:
    command = [str(examples / "simple_agent_v2")]
    async with asyncio.timeout(SECONDS), connect(command, protocol_versions=(1, 2)) as agent:
        assert agent.version == 2
        assert agent.info is not None
        assert (agent.info.name, agent.info.version) == ("simple-agent-v2", release(RUST))
        session = await agent.new_session(tmp_path)
        for prompt in ("hello", "ünï"):
            turn = await session.prompt(prompt)
            assert (turn.text, turn.stop_reason) == (f"Echo: {prompt}", "end_turn")
        assert [info.session_id for info in await agent.list_sessions()] == [session.id]
        await session.aclose()
        with pytest.raises(RequestError):
            await agent.resume_session(session.id, tmp_path / "elsewhere")

        resumed = await agent.resume_session(session.id, tmp_path)
        assert resumed.transcript.messages == []
        await resumed.aclose()
        loaded = await agent.load_session(session.id, tmp_path)
        texts = [message.text for message in loaded.transcript.messages]
        assert texts == ["hello", "Echo: hello", "ünï", "Echo: ünï"]
        assert loaded.title == "Echo agent session"
        assert (await loaded.prompt("again")).text == "Echo: again"


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ("/plan", ["The plan is done, all three steps of it.", "Session is idle: Some(EndTurn)"]),
        ("/tour", ["I ran nothing.", "Agent requested permission; rejecting it once in this non-interactive example"]),
        ("/run rm x", ["I ran nothing.", "Session is idle: Some(EndTurn)"]),
        ("/no-such-command", ["Prompt accepted; waiting for session output and completion..."]),
    ],
)
def test_their_example_client_waits_for_the_end_of_our_agents_turn(
    examples: Path, tmp_path: Path, prompt: str, shown: list[str]
) -> None:
    lines = example_client(examples / "v2_one_shot_client", tmp_path, prompt)
    assert set(shown) <= set(lines)
    assert any(line.startswith("Session is idle: Some(") for line in lines)


async def test_their_example_client_shares_closes_and_reopens_a_session_of_our_agent(
    examples: Path, tmp_path: Path
) -> None:
    async with (
        asyncio.timeout(SECONDS),
        connect(our_command(tmp_path), protocol_versions=(2,)) as agent,
        agent.new_session(tmp_path) as session,
    ):
        await session.prompt("/plan")
    program = examples / "v2_session_coordination"
    lines = await asyncio.to_thread(example_client, program, tmp_path, "--session-id", session.id)
    shared, fresh = (
        next(line for line in lines if line.startswith(name)) for name in ("Shared replay", "Fresh replay after close")
    )
    assert shared.rpartition(": ")[2] == fresh.rpartition(": ")[2] != "0 updates"


# --- the preview in the official Python SDK: an earlier draft of version 2


@pytest.fixture(scope="module")
def preview() -> Sdk:
    return install(OFFICIAL_NEXT)


async def test_our_client_talks_to_an_agent_of_the_preview(preview: Sdk, tmp_path: Path) -> None:
    async with their_session(preview, tmp_path) as (_, session):
        turn = await session.prompt("hello")
        assert (turn.text, turn.stop_reason) == ("hello", "end_turn")
        async with session.prompt("wait") as waiting:
            async for event in waiting:
                if isinstance(event, Text):
                    await session.cancel()
        assert waiting.stop_reason == "cancelled"


def test_a_client_of_the_preview_takes_the_tour_with_our_agent(preview: Sdk, tmp_path: Path) -> None:
    seen = their_view(preview, tmp_path, ["/tour"], ["/plan"])
    tour, plan = seen["turns"]

    assert seen["hello"]["protocolVersion"] == 2
    assert of(tour, "user_message")[0]["messageId"] == tour["result"]["messageId"]
    assert tour["updates"][-1]["stopReason"] == "end_turn"
    assert of(tour, "terminal_output_chunk")
    assert of(plan, "plan_update")
    assert seen["asked"]
