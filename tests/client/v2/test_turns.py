"""A client's turns against agents of version 2, the sloppy ones among them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.session import ClientSession
from duologue.conversation.session_setup import StdioMcpServer
from duologue.conversation.work_state import TerminalExit
from duologue.errors import (
    ConnectionLost,
    InternalError,
    InvalidParams,
    MethodNotFound,
    RequestCancelled,
    ResourceNotFound,
    StartError,
    TurnTimeout,
)
from duologue.events import ModeChanged, StateChanged, Terminal, TerminalOutput, Text, UnknownUpdate
from tests.client.v2.scripted_agent import (
    IDLE,
    OPTIONS,
    RUNNING,
    Prompted,
    Script,
    WireAgent,
    chunk,
    idle,
    message,
    state,
)
from tests.fuzz.conversations import FuzzSettings

pytestmark = pytest.mark.timeout(30)


@asynccontextmanager
async def session_with(script: Script, **options: Any) -> AsyncGenerator[tuple[ClientSession, WireAgent]]:
    agent = WireAgent(script)
    async with asyncio.timeout(60), connect(agent, protocol_versions=(1, 2), **options) as remote:
        assert remote.version == 2
        async with remote.new_session("/tmp") as session:
            yield session, agent


async def test_a_turn_is_over_when_the_session_is_idle_again() -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        agent.update(message("hi", "u1", "user_message"), RUNNING, chunk("hel"), chunk("lo"))
        agent.update(idle("max_tokens", usage={"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}))

    async with session_with(script) as (session, agent):
        async with session.prompt("hi") as turn:
            kinds = [type(event).__name__ async for event in turn]

        assert kinds == ["Message", "StateChanged", "Text", "Text", "StateChanged", "UsageChanged"]
        assert (turn.text, turn.stop_reason) == ("hello", "max_tokens")
        assert turn.usage is not None
        assert turn.usage.total == 3
        assert [item.role for item in session.transcript.messages] == ["user", "agent"]
        assert agent.calls("session/prompt")[0]["prompt"] == [{"type": "text", "text": "hi"}]


# --- agents that are not as they should be


async def _running_first(agent: WireAgent, prompted: Prompted) -> None:
    agent.update(RUNNING)
    prompted.accept()
    agent.update(chunk("x"), IDLE)


async def _all_before_the_answer(agent: WireAgent, prompted: Prompted) -> None:
    agent.update(RUNNING, chunk("x"), IDLE)
    prompted.accept()


async def _idle_before_the_answer_and_never_running(agent: WireAgent, prompted: Prompted) -> None:
    agent.update(message("hi", "u1", "user_message"), chunk("x"), IDLE)
    prompted.accept("u1")


async def _never_running(agent: WireAgent, prompted: Prompted) -> None:
    prompted.accept()
    agent.update(chunk("x"), IDLE)


async def _idle_of_something_else_first(agent: WireAgent, prompted: Prompted) -> None:
    agent.update(IDLE)
    prompted.accept()
    agent.update(RUNNING, chunk("x"), IDLE)


async def _many_snapshots(agent: WireAgent, prompted: Prompted) -> None:
    prompted.accept()
    agent.update(RUNNING, RUNNING, chunk("x"), RUNNING, IDLE, IDLE, state("idle"))


async def _idle_without_a_reason(agent: WireAgent, prompted: Prompted) -> None:
    prompted.accept()
    agent.update(RUNNING, chunk("x"), state("idle"))


async def _states_of_another_time(agent: WireAgent, prompted: Prompted) -> None:
    prompted.accept()
    agent.update(RUNNING, state("_dreaming", of="sheep"), chunk("x"), state("pondering"), IDLE)


async def _a_whole_message(agent: WireAgent, prompted: Prompted) -> None:
    prompted.accept()
    agent.update(RUNNING, message("nothing", "a1"), message("x", "a1"), IDLE)


async def _a_message_begun_twice(agent: WireAgent, prompted: Prompted) -> None:
    prompted.accept()
    agent.update(RUNNING, chunk("no", "a1"), message("", "a1"), chunk("x", "a1"), IDLE)


@pytest.mark.rule(147)
@pytest.mark.parametrize(
    "script",
    [
        _running_first,
        _all_before_the_answer,
        _idle_before_the_answer_and_never_running,
        _never_running,
        _idle_of_something_else_first,
        _many_snapshots,
        _idle_without_a_reason,
        _states_of_another_time,
        _a_whole_message,
        _a_message_begun_twice,
    ],
)
async def test_a_sloppy_agent_is_understood(script: Script) -> None:
    async with session_with(script) as (session, _):
        for _ in range(2):
            turn = await session.prompt("hi")
            assert (turn.text, turn.stop_reason) == ("x", "end_turn")


async def test_an_idle_state_before_the_answer_ends_nothing_however_far_the_reader_is_behind() -> None:
    """The answer is read long before the state in front of it is handled."""
    seen = asyncio.Event()

    async def script(agent: WireAgent, prompted: Prompted) -> None:
        agent.update(*[chunk(".")] * 1000, RUNNING, IDLE)
        prompted.accept()
        await seen.wait()
        agent.update(RUNNING, chunk("x", "a2"), IDLE)

    async with session_with(script) as (session, _), session.prompt("hi") as turn:
        async for event in turn:
            if isinstance(event, StateChanged) and event.state == "idle":
                for _ in range(20):
                    await asyncio.sleep(0)
                assert turn.is_over == seen.is_set()
                seen.set()
        assert turn.text == "." * 1000 + "x"


@pytest.mark.rule(147)
async def test_an_unknown_state_is_not_idle_and_reaches_the_user() -> None:
    received = asyncio.Event()

    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        agent.update(RUNNING, state("_dreaming", of="sheep"))
        await received.wait()
        agent.update(IDLE)

    async with session_with(script) as (session, _), session.prompt("hi") as turn:
        async for event in turn:
            if isinstance(event, StateChanged) and event.state == "_dreaming":
                assert session.state == "_dreaming"
                assert not turn.is_over
                assert b"sheep" in event.raw
                received.set()


@pytest.mark.rule(148)
async def test_a_known_update_that_is_broken_is_dropped_and_an_unknown_one_is_kept() -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        agent.update(
            RUNNING,
            {"sessionUpdate": "agent_message_chunk", "messageId": 7, "content": "no"},
            {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "not base64!"},
            {"sessionUpdate": "_weather", "sky": "blue", "n": 12345678901234567890},
            {"sessionUpdate": "later", "deep": {"er": [1]}},
            chunk("x"),
            IDLE,
        )

    async with session_with(script) as (session, _):
        async with session.prompt("hi") as turn:
            events = [event async for event in turn]
        unknown = [event for event in events if isinstance(event, UnknownUpdate)]

        assert turn.text == "x"
        assert [(event.tag, event.fields.get("sky")) for event in unknown] == [("_weather", "blue"), ("later", None)]
        assert b"12345678901234567890" in unknown[0].raw
        assert unknown[1].fields["deep"] == {"er": [1]}


# --- what fails


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (idle("error", error={"code": -32002, "message": "gone"}), ResourceNotFound),
        (idle("error"), InternalError),
        (idle("error", error={"code": "bad"}), InternalError),
    ],
)
async def test_work_that_failed_is_an_error_of_its_prompt(end: Any, expected: type[Exception]) -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        agent.update(RUNNING, chunk("x"), end)

    async with session_with(script) as (session, _):
        turn = session.prompt("hi")
        with pytest.raises(expected):
            await turn
        assert turn.text == "x"


async def test_a_prompt_that_was_not_inserted_is_an_error() -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.refuse(-32800 if len(agent.calls("session/prompt")) == 1 else -32602)

    async with session_with(script) as (session, _):
        with pytest.raises(RequestCancelled):
            await session.prompt("hi")
        with pytest.raises(InvalidParams):
            await session.prompt("hi")


@pytest.mark.parametrize("when", ["before the answer", "after the answer", "while running"])
async def test_an_agent_that_is_lost_ends_the_turn(when: str) -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        if when != "before the answer":
            prompted.accept()
        if when == "while running":
            agent.update(RUNNING, chunk("x"))
        await agent.transport.aclose()

    agent = WireAgent(script)
    async with asyncio.timeout(60), connect(agent, protocol_versions=(2,)) as remote:
        session = await remote.new_session("/tmp")
        turn = session.prompt("hi")
        with pytest.raises(ConnectionLost):
            await turn
        assert turn.text == ("x" if when == "while running" else "")
        assert session.is_interrupted


# --- cancelling


async def test_a_cancelled_turn_ends_with_the_idle_state() -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        agent.update(RUNNING, chunk("x"))
        await agent.until("session/cancel")
        agent.update(chunk("y"), idle("cancelled"))

    async with session_with(script) as (session, agent):
        async with session.prompt("hi") as turn:
            async for event in turn:
                if isinstance(event, Text):
                    await turn.cancel()
                    break
        assert (turn.stop_reason, turn.text) == ("cancelled", "xy")
        assert len(agent.calls("session/cancel")) == 1


@pytest.mark.parametrize("answers", [True, False])
async def test_a_turn_whose_end_never_arrives_is_abandoned(answers: bool) -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        if len(agent.calls("session/prompt")) > 1:
            prompted.accept()
            agent.update(RUNNING, chunk("z"), IDLE)
        elif answers:
            prompted.accept()
            agent.update(RUNNING)

    async with session_with(script) as (session, agent):
        session.agent._cancel_timeout = 0.05
        turn = session.prompt("hi")
        waiting = asyncio.ensure_future(turn._complete())
        await agent.until("session/prompt")
        await turn.cancel()
        await waiting

        assert turn.stop_reason == "cancelled"
        assert (await session.prompt("again")).text == "z"


@pytest.mark.parametrize("begins_again", [True, False])
async def test_a_late_idle_of_an_abandoned_turn_ends_the_next_one_only_if_no_work_begins(begins_again: bool) -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        if len(agent.calls("session/prompt")) == 1:
            agent.update(RUNNING, chunk("x"))
        elif begins_again:
            agent.update(idle("cancelled"), RUNNING, chunk("z"), IDLE)
        else:
            agent.update(chunk("z"), idle("cancelled"))

    async with session_with(script) as (session, _):
        session.agent._cancel_timeout = 0.05
        async with session.prompt("hi") as abandoned:
            async for event in abandoned:
                if isinstance(event, Text):
                    break
        assert abandoned.stop_reason == "cancelled"
        turn = await session.prompt("again")
        assert (turn.text, turn.stop_reason) == ("z", "end_turn" if begins_again else "cancelled")


async def test_a_session_of_an_agent_that_hangs_is_left_in_time() -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        agent.update(RUNNING)
        await left.wait()

    async def never(params: Any) -> Any:
        await left.wait()
        return {"result": {}}

    left = asyncio.Event()
    async with session_with(script) as (session, agent):
        session.agent._cancel_timeout = 0.05
        agent.answers["session/close"] = never
        with pytest.raises(TurnTimeout):
            await session.ask("hi", timeout=0.05)
        await session.aclose()
        assert agent.calls("session/close")
        left.set()


async def test_a_question_is_asked_and_cancelled_with_its_turn() -> None:
    asked = asyncio.Event()

    async def ask(question: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        agent.update(RUNNING, state("requires_action"))
        tool = {"toolCallId": "t", "title": "Delete", "kind": "delete"}
        params = {"sessionId": "s1", "title": "May I?", "options": OPTIONS}
        subject = {"type": "tool_call", "toolCall": tool}
        answer = await agent.ask("session/request_permission", {**params, "subject": subject})
        assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
        agent.update(RUNNING, idle("cancelled"))

    async with session_with(script, permissions=Permissions(on_request=ask)) as (session, _):
        turn = session.prompt("hi")
        waiting = asyncio.ensure_future(turn._complete())
        await asked.wait()
        assert session.state == "requires_action"
        await turn.cancel()
        await waiting
        assert turn.stop_reason == "cancelled"


@pytest.mark.rule(98)
@pytest.mark.parametrize(
    "subject", [None, {"type": "command", "command": "ls", "cwd": "/tmp"}, {"type": "_wish", "w": 1}]
)
async def test_an_answer_names_an_option_that_was_offered(subject: Any) -> None:
    """A request about an unknown subject is asked like any other."""
    chosen: list[Any] = []

    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        about = {} if subject is None else {"subject": subject}
        params = {"sessionId": "s1", "title": "May I?", "options": OPTIONS, **about}
        chosen.append((await agent.ask("session/request_permission", params))["result"]["outcome"])
        agent.update(RUNNING, IDLE)

    async def ask(question: PermissionRequest) -> None:
        assert question.tool.title == "May I?"
        question.allow()

    async with session_with(script, permissions=Permissions(on_request=ask)) as (session, _):
        await session.prompt("hi")
    assert chosen == [{"outcome": "selected", "optionId": "allow_once"}]


# --- during and between turns


async def test_updates_between_turns_are_not_late_and_change_the_transcript() -> None:
    async with session_with(_never_running) as (session, agent):
        await session.prompt("hi")
        received: list[str] = []
        done = asyncio.Event()

        def watch(event: Any) -> None:
            received.append(type(event).__name__)
            assert not event.is_late
            if isinstance(event, StateChanged) and event.state == "idle":
                done.set()

        session.watch(watch)
        work = [{"type": "tool_call", "toolCallId": "t"}]
        agent.update(state("running", background=work), chunk("more", "a2"), state("idle", background=work))
        await done.wait()

        assert received == ["StateChanged", "Text", "StateChanged"]
        assert session.last_message_text() == "more"
        assert [work.work_id for work in session.background] == ["t"]
        assert session.late_updates == 0


async def test_commands_of_the_agent_are_shown_and_can_be_ended() -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        terminal = {"sessionUpdate": "terminal_update", "terminalId": "t"}
        tool = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Make"}
        agent.update(RUNNING, {**tool, "capabilities": {"cancel": {}}})
        agent.update({**terminal, "command": "make", "cwd": "/tmp", "capabilities": {"cancel": {}}})
        agent.update({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "b3V0Cg=="})
        assert await agent.until("terminal/cancel") == {"sessionId": "s1", "terminalId": "t"}
        assert await agent.until("tool_call/cancel") == {"sessionId": "s1", "toolCallId": "c"}
        agent.update({**terminal, "output": {"data": "YWxsCg=="}, "exitStatus": {"signal": "SIGTERM"}}, IDLE)

    async with session_with(script) as (session, _):
        async with session.prompt("hi") as turn:
            events: list[Any] = []
            async for event in turn:
                events.append(event)
                if isinstance(event, TerminalOutput):
                    assert event.data == b"out\n"
                    await session.cancel_terminal("t")
                    await session.cancel_tool_call("c")
        (_, last) = [event for event in events if isinstance(event, Terminal)]

        assert (last.command, last.output, last.exit) == ("make", b"all\n", TerminalExit(signal="SIGTERM"))


async def test_only_what_the_agent_says_can_be_cancelled_alone_is_cancelled_alone() -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        agent.update(RUNNING)
        for name, tag, key in (("c", "tool_call_update", "toolCallId"), ("t", "terminal_update", "terminalId")):
            agent.update({"sessionUpdate": tag, key: f"{name}-silent"})
            agent.update({"sessionUpdate": tag, key: f"{name}-without", "capabilities": {}})
            agent.update({"sessionUpdate": tag, key: f"{name}-before", "capabilities": {"cancel": {}}})
            agent.update({"sessionUpdate": tag, key: f"{name}-before", "capabilities": None})
        agent.update(chunk("look"))
        await agent.until("session/cancel")
        agent.update(idle("cancelled"))

    async with session_with(script) as (session, agent):
        async with session.prompt("hi") as turn:
            async for event in turn:
                if isinstance(event, Text):
                    for state in ("silent", "without", "before", "unheard"):
                        with pytest.raises(MethodNotFound, match=f"'c-{state}' alone; cancel the turn"):
                            await session.cancel_tool_call(f"c-{state}")
                        with pytest.raises(MethodNotFound, match=f"'t-{state}' alone; cancel the turn"):
                            await session.cancel_terminal(f"t-{state}")
                    await session.cancel()

        assert turn.stop_reason == "cancelled"
        assert agent.calls("tool_call/cancel") == agent.calls("terminal/cancel") == []


async def test_the_mode_is_switched_by_its_setting(tmp_path: Path) -> None:
    def options(value: str) -> list[Any]:
        choices = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]
        mode = {"configId": "m", "name": "Mode", "type": "select", "category": "mode", "currentValue": value}
        return [{**mode, "options": choices}]

    async def opened(params: Any) -> Any:
        command = {"type": "command", "name": "clear", "description": "Forget"}
        return {"result": {"sessionId": "s1", "configOptions": options("ask"), "availableCommands": [command]}}

    async def changed(params: Any) -> Any:
        return {"result": {"configOptions": options(params["value"])}}

    agent = WireAgent()
    agent.answers |= {"session/new": opened, "session/set_config_option": changed}
    async with (
        asyncio.timeout(60),
        connect(agent, protocol_versions=(2,)) as remote,
        remote.new_session(tmp_path) as session,
    ):
        assert session.modes is not None
        assert session.modes.current == "ask"
        assert [command.name for command in session.commands] == ["clear"]
        await session.set_mode("code")
        assert session.modes.current == "code"
        (sent,) = agent.calls("session/set_config_option")
        assert sent == {"sessionId": "s1", "configId": "m", "type": "id", "value": "code"}


async def test_a_mode_that_the_agent_switched_is_reported_as_in_version_1(tmp_path: Path) -> None:
    agent: Agent[Any] = Agent("switching", settings=FuzzSettings, protocol_versions=(1, 2))

    @agent.on_prompt
    async def switch(turn: Turn[Any]) -> None:
        await turn.set_option(**{turn.text: "code" if turn.text == "mode" else True})

    for version in (1, 2):
        async with asyncio.timeout(60), connect(agent, protocol_versions=(version,)) as remote:
            async with remote.new_session(tmp_path) as session:
                mode_ids: list[Any] = []
                for text in ("fast", "mode"):
                    async with session.prompt(text) as turn:
                        mode_ids += [event.mode_id async for event in turn if isinstance(event, ModeChanged)]
                assert mode_ids == ["code"], version


async def test_an_agent_without_settings_has_no_modes() -> None:
    async with session_with(_never_running) as (session, agent):
        with pytest.raises(MethodNotFound):
            await session.set_mode("code")
        assert agent.calls("session/set_mode") == []


async def test_a_session_is_loaded_by_resuming_it_from_its_start(tmp_path: Path) -> None:
    agent = WireAgent()

    async def resume(params: Any) -> Any:
        agent.update(message("hi", "u1", "user_message"), message("hello", "a1"), state("idle"), session_id="old")
        return {"result": {}}

    agent.answers["session/resume"] = resume
    async with asyncio.timeout(60), connect(agent, protocol_versions=(2,)) as remote:
        loaded = await remote.load_session("old", tmp_path)
        assert [(item.role, item.text) for item in loaded.transcript.messages] == [
            ("user", "hi"),
            ("agent", "hello"),
        ]
        await remote.resume_session("old2", tmp_path)
        replay_starts = [call.get("replayFrom") for call in agent.calls("session/resume")]
        assert replay_starts == [{"type": "start"}, None]


async def test_an_agent_that_takes_no_mcp_servers_is_sent_none(tmp_path: Path) -> None:
    def current_time() -> str:
        """Return the time."""
        return "now"

    server = StdioMcpServer(name="files", command=sys.executable)
    agent: Agent[Any] = Agent("without", protocol_versions=(2,))
    async with asyncio.timeout(60), connect(agent, protocol_versions=(2,)) as remote:
        assert not remote.capabilities.mcp_stdio
        with pytest.raises(MethodNotFound, match="without cannot start the MCP server 'files'"):
            await remote.new_session(tmp_path, mcp_servers=[server])
    with pytest.raises(StartError, match="supports no MCP servers"):
        async with asyncio.timeout(60), connect(agent, protocol_versions=(2,), tools=[current_time]):
            pass
