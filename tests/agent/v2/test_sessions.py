"""Sessions of version 2: resumed with and without their past, settings instead of modes, commands in the answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.agent import Agent
from duologue.agent.session import Session
from duologue.agent.settings import Settings, choice, toggle
from duologue.agent.turn import Turn
from duologue.conversation.updates import NoticeUpdate
from tests.agent.v2.wire_client import both, wire_client

START = {"type": "start"}


async def send_updates(turn: Turn[Any]) -> None:
    """Send a bit of everything."""
    await turn.think("hm")
    await turn.say("You said ")
    await turn.say(turn.text)
    await turn.notify("Only now")
    await turn.run("sh", "-c", "echo out; exit 3")
    async with turn.tool("Edit", kind="edit") as edit:
        await edit.diff("a.txt", "old\n", "new\n")
    await turn.plan("one", "two")


@pytest.mark.rule(145, 146)
async def test_a_resumed_session_tells_its_past_if_asked_then_its_state_then_answers(tmp_path: Path) -> None:
    async with wire_client(both(send_updates)) as client:
        session = await client.new(tmp_path)
        await client.turn(session, "hi")
        lived = client.updates
        await client.ask("session/close", sessionId=session)
        before = len(client.validator.order())
        await client.ask("session/resume", sessionId=session, cwd=str(tmp_path), replayFrom=START)

        replayed = client.updates[len(lived) :]
        assert client.validator.order()[before:][-2:] == ["state_update", "answer to session/resume"]
        assert replayed[-1] == {"sessionUpdate": "state_update", "state": "idle"}
        assert [update["sessionUpdate"] for update in replayed] == [
            "user_message",
            "agent_thought",
            "agent_message",
            "tool_call_update",
            "terminal_update",
            "tool_call_update",
            "plan_update",
            "state_update",
        ]
        assert replayed[0] == next(update for update in lived if update["sessionUpdate"] == "user_message")
        assert replayed[2]["content"] == [{"type": "text", "text": "You said hi"}]


@pytest.mark.rule(145, 146)
async def test_without_a_request_nothing_is_replayed(tmp_path: Path) -> None:
    async with wire_client(both(send_updates)) as client:
        session = await client.new(tmp_path)
        await client.turn(session, "hi")
        await client.ask("session/close", sessionId=session)
        before = len(client.validator.order())
        for replay in ({}, {"replayFrom": None}):
            await client.ask("session/resume", sessionId=session, cwd=str(tmp_path), **replay)

        assert client.validator.order()[before:] == ["state_update", "answer to session/resume"] * 2


@pytest.mark.rule(146)
async def test_an_unknown_position_to_replay_from_is_rejected(tmp_path: Path) -> None:
    async with wire_client(both()) as client:
        session = await client.new(tmp_path)
        await client.ask("session/close", sessionId=session)
        for position in ({"type": "cursor", "cursor": "x"}, {"type": "_mine"}):
            error = await client.refused("session/resume", sessionId=session, cwd=str(tmp_path), replayFrom=position)
            assert error["code"] == -32602
        unknown = await client.refused("session/resume", sessionId="none", cwd=str(tmp_path))
        assert unknown["code"] == -32002
        assert client.updates == []


async def test_a_command_that_was_shown_is_shown_again_with_its_output(tmp_path: Path) -> None:
    async with wire_client(both(send_updates)) as client:
        session = await client.new(tmp_path)
        await client.turn(session, "hi")
        await client.ask("session/close", sessionId=session)
        seen = len(client.of("terminal_update"))
        await client.ask("session/resume", sessionId=session, cwd=str(tmp_path), replayFrom=START)

        (shown,) = client.of("terminal_update")[seen:]
        assert shown["command"] == "sh -c 'echo out; exit 3'"
        assert shown["output"] == {"data": "b3V0Cg=="}
        assert shown["exitStatus"] == {"exitCode": 3}
        tool = next(update for update in client.of("tool_call_update")[::-1] if update["kind"] == "execute")
        assert tool["content"] == [{"type": "terminal", "terminalId": shown["terminalId"]}]


async def test_resuming_a_session_that_works_ends_its_work_first(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def wait(turn: Turn[Any]) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with wire_client(both(wait)) as client:
        session = await client.new(tmp_path)
        await client.prompt(session, "hi")
        await begun.wait()
        await client.ask("session/resume", sessionId=session, cwd=str(tmp_path), replayFrom=START)

        assert client.states == ["running", "idle cancelled", "idle"]
        assert client.validator.order()[-4:] == [
            "state_update",
            "user_message",
            "state_update",
            "answer to session/resume",
        ]


# --- settings and commands


class Choices(Settings):
    mode = choice("ask", "code", category="mode")
    fast = toggle(False)


def choosing() -> Agent[Any]:
    async def handle(turn: Turn[Any]) -> None:
        if turn.text == "switch":
            await turn.set_option(mode="code")
        await turn.say(f"{turn.settings.mode} {turn.settings.fast}")

    agent = both(handle, settings=Choices)

    @agent.command("clear", "Forget all", hint="what")
    async def clear(turn: Turn[Any], rest: str) -> None:
        await turn.say(f"cleared {rest}")

    return agent


async def test_modes_are_settings_and_commands_come_with_the_session(tmp_path: Path) -> None:
    async with wire_client(choosing()) as client:
        opened = await client.ask("session/new", cwd=str(tmp_path))

        assert opened["availableCommands"] == [
            {
                "type": "command",
                "name": "clear",
                "description": "Forget all",
                "input": {"type": "text", "hint": "what"},
            }
        ]
        mode, fast = opened["configOptions"]
        assert (mode["configId"], mode["type"], mode["category"], mode["currentValue"]) == (
            "mode",
            "select",
            "mode",
            "ask",
        )
        assert (fast["configId"], fast["type"], fast["currentValue"]) == ("fast", "boolean", False)
        assert "modes" not in opened
        await client.turn(opened["sessionId"], "/clear all")
        assert client.text == "cleared all"
        assert client.of("available_commands_update") == []


async def test_a_setting_is_changed_by_its_type_and_all_of_them_are_answered(tmp_path: Path) -> None:
    async with wire_client(choosing()) as client:
        session = await client.new(tmp_path)
        set_option = {"sessionId": session, "configId": "mode"}
        answer = await client.ask("session/set_config_option", **set_option, type="id", value="code")
        await client.ask("session/set_config_option", sessionId=session, configId="fast", type="boolean", value=True)
        await client.turn(session, "which?")

        assert [option["currentValue"] for option in answer["configOptions"]] == ["code", False]
        assert client.text == "code True"
        for bad in (
            {"configId": "mode", "type": "id", "value": "none"},
            {"configId": "none", "type": "id", "value": "code"},
            {"configId": "mode", "type": "boolean", "value": True},
            {"configId": "mode", "type": "number", "value": 3},
        ):
            error = await client.refused("session/set_config_option", sessionId=session, **bad)
            assert error["code"] == -32602, bad


async def test_a_mode_that_the_agent_changes_is_sent_as_settings(tmp_path: Path) -> None:
    async with wire_client(choosing()) as client:
        session = await client.new(tmp_path)
        await client.turn(session, "switch")

        (update,) = client.of("config_option_update")
        assert [option["currentValue"] for option in update["configOptions"]] == ["code", False]
        assert client.of("current_mode_update") == []


# --- between turns


@pytest.mark.rule(150)
async def test_work_in_the_background_is_named_in_every_state_once_there_was_some(tmp_path: Path) -> None:
    stop = asyncio.Event()
    agent = both()

    @agent.on_prompt
    async def handle(turn: Turn[Any]) -> None:
        if turn.text == "start":
            turn.session.tasks.start(work(turn.session))

    async def work(session: Session[Any]) -> None:
        async with session.background("tool_call", "call-1"):
            await stop.wait()

    async with wire_client(agent) as client:
        session = await client.new(tmp_path)
        await client.turn(session, "start")
        await client.until(lambda: any(state.get("background") for state in client.of("state_update")))
        await client.turn(session, "go on")
        stop.set()
        await client.until(lambda: client.of("state_update")[-1].get("background") == [])
        await client.turn(session, "and now")

        states = [(state["state"], state.get("background")) for state in client.of("state_update")]
        busy = [{"type": "tool_call", "toolCallId": "call-1"}]
        first = next(number for number, (_, background) in enumerate(states) if background is not None)
        assert all(background is not None for _, background in states[first:])
        assert states[-6:-3] == [("idle", busy), ("running", busy), ("idle", busy)]
        assert states[-3:] == [("idle", []), ("running", []), ("idle", [])]


async def test_updates_between_turns_are_sent_and_change_no_state(tmp_path: Path) -> None:
    sessions: list[Session[Any]] = []
    agent = both()

    @agent.on_open
    async def keep(session: Session[Any]) -> None:
        sessions.append(session)

    async with wire_client(agent) as client:
        session = await client.new(tmp_path)
        await client.turn(session, "hi")
        await sessions[0].update(NoticeUpdate(severity="info", title="News"))
        await client.until(lambda: client.of("notice"))

        assert client.validator.order()[-1] == "notice"
        assert client.states == ["running", "idle end_turn"]


async def test_no_update_of_a_new_session_is_sent_before_its_response(tmp_path: Path) -> None:
    stop = asyncio.Event()
    agent = both()

    @agent.on_open
    async def begin(session: Session[Any]) -> None:
        await session.update(NoticeUpdate(severity="info", title="Welcome"))

        async def work() -> None:
            async with session.background("terminal", "t1"):
                await stop.wait()

        session.tasks.start(work())
        await asyncio.sleep(0)

    async with wire_client(agent) as client:
        await client.new(tmp_path)
        await client.until(lambda: len(client.updates) >= 2)

        assert client.validator.order()[1] == "answer to session/new"
        assert len(client.of("notice")) == 1
        assert client.of("state_update")[0]["background"] == [{"type": "terminal", "terminalId": "t1"}]
        stop.set()
        await client.until(lambda: len(client.updates) >= 3)


# --- unstable


async def test_a_session_says_whether_it_is_open_and_what_it_does(tmp_path: Path) -> None:
    begun, stop = asyncio.Event(), asyncio.Event()

    async def wait(turn: Turn[Any]) -> None:
        begun.set()
        await stop.wait()

    async with wire_client(both(wait, unstable=True)) as client:
        session = await client.new(tmp_path)
        assert await client.ask("session/status", sessionId=session) == {"status": "open", "state": {"state": "idle"}}
        await client.prompt(session, "hi")
        await begun.wait()
        assert (await client.ask("session/status", sessionId=session))["state"] == {"state": "running"}
        stop.set()
        await client.until(client.ends)
        await client.ask("session/close", sessionId=session)
        assert await client.ask("session/status", sessionId=session) == {"status": "saved"}


async def test_forks_titles_and_archives_work_as_in_version_1(tmp_path: Path) -> None:
    async with wire_client(both(unstable=True)) as client:
        session = await client.new(tmp_path)
        await client.turn(session, "hi")
        copy = (await client.ask("session/fork", sessionId=session, cwd=str(tmp_path)))["sessionId"]
        assert await client.ask("session/set_title", sessionId=copy, title=" A  copy ") == {"title": "A copy"}
        await client.ask("session/archive", sessionId=session)
        listed = (await client.ask("session/list"))["sessions"]

        assert [(each["sessionId"], each["title"]) for each in listed] == [(copy, "A copy")]
        assert [each["title"] for each in client.of("session_info_update")] == ["A copy"]
