"""How sessions of version 2 end: closed, deleted, or left by a client that is gone, in every phase of a turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from tests.agent.v2.test_prompts import Gate
from tests.agent.v2.wire_client import both, wire_client


@pytest.mark.rule(144)
@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_work_of_a_session_that_is_closed_ends_before_the_answer(method: str) -> None:
    gate = Gate()
    async with wire_client(both(gate)) as client:
        session = await client.new()
        running, *waiting = [client.prompt(session, text) for text in ("one", "two", "three")]
        await running
        await gate.begun.get()
        assert await client.ask(method, sessionId=session) == {}

        assert client.states == ["running", "idle cancelled"]
        assert client.validator.order()[-1] == f"answer to {method}"
        assert [(await each)["error"]["code"] for each in waiting] == [-32800, -32800]
        refused = await client.refused("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}])
        assert refused["code"] == -32002


@pytest.mark.rule(152)
async def test_closing_and_deleting_what_is_not_there_succeeds() -> None:
    async with wire_client(both()) as client:
        session = await client.new()
        for _ in range(2):
            assert await client.ask("session/close", sessionId=session) == {}
        for _ in range(2):
            assert await client.ask("session/delete", sessionId=session) == {}
        assert await client.ask("session/close", sessionId="never was") == {}
        assert await client.ask("session/list") == {"sessions": []}


async def test_a_handler_that_ignores_cancellation_does_not_delay_the_response() -> None:
    never = asyncio.Event()
    begun = asyncio.Event()

    async def stubborn(turn: Turn[Any]) -> None:
        begun.set()
        while not never.is_set():
            try:
                await never.wait()
            except asyncio.CancelledError:
                continue

    async with wire_client(both(stubborn, cancel_timeout=0.05)) as client:
        session = await client.new()
        await client.prompt(session, "go")
        await begun.wait()
        client.notify("session/cancel", sessionId=session)
        await client.until(client.ends)
        assert client.states == ["running", "idle cancelled"]
        never.set()


def asking_agent(seen: asyncio.Event) -> Agent[Any]:
    """Run one phase for each word of the prompt."""

    async def handle(turn: Turn[Any]) -> None:
        match turn.text:
            case "question":
                async with turn.tool("Ask") as tool:
                    seen.set()
                    await tool.request_permission()
            case "command":
                seen.set()
                await turn.run("sleep", "60")
            case "tool":
                async with turn.tool("Wait", cancellable=True):
                    seen.set()
                    await asyncio.Event().wait()
            case "background":
                async with turn.session.background("tool_call", "t"):
                    seen.set()
                    await asyncio.Event().wait()
            case "flood":
                seen.set()
                while True:
                    await turn.say("x" * 1000)
            case _:
                seen.set()

    return both(handle)


@pytest.mark.parametrize("phase", ["question", "command", "tool", "background", "flood", "nothing"])
async def test_a_client_that_vanishes_leaves_nothing_behind(phase: str, tmp_path: Path) -> None:
    """The fixture of these tests looks for tasks and descriptors that are left."""
    seen = asyncio.Event()
    agent = asking_agent(seen)
    async with wire_client(agent, bound=10_000) as client:
        session = await client.new(tmp_path)
        client.prompt(session, phase)
        client.prompt(session, phase)
        await seen.wait()
        await client.hang_up()
    assert agent._open_sessions == {}


async def test_a_client_that_vanishes_right_after_its_prompt_leaves_nothing_behind(tmp_path: Path) -> None:
    agent = asking_agent(asyncio.Event())
    for steps in range(12):
        async with wire_client(agent) as client:
            session = await client.new(tmp_path)
            client.prompt(session, "tool")
            for _ in range(steps):
                await asyncio.sleep(0)
            await client.hang_up()
    assert agent._open_sessions == {}


async def test_a_session_that_was_left_can_be_resumed_by_another_client(tmp_path: Path) -> None:
    seen = asyncio.Event()
    agent = asking_agent(seen)
    async with wire_client(agent) as client:
        session = await client.new(tmp_path)
        await client.prompt(session, "tool")
        await seen.wait()
        await client.hang_up()
    async with wire_client(agent) as client:
        await client.ask("session/resume", sessionId=session, cwd=str(tmp_path), replayFrom={"type": "start"})

        assert [echo["content"][0]["text"] for echo in client.of("user_message")] == ["tool"]
        assert client.states == ["idle"]
