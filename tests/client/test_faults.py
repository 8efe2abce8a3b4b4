"""Faults between a client and its agent, by the ids of the fault catalogue."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.errors import (
    AgentExited,
    ConnectionLost,
    InitializeTimeout,
    InvalidParams,
    ProtocolViolation,
    RequestError,
    TurnTimeout,
)
from duologue.events import Event, Plan, Text, ToolCall, Usage
from tests.client.processes import is_running
from tests.client.scripted_agent import ALL_OPTIONS, Json, ScriptedAgent, error, result, text_chunk

pytestmark = pytest.mark.timeout(30)

TOOL = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look", "status": "in_progress"}


def files_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


# --- initialize


@pytest.mark.fault("SCH-09")
@pytest.mark.rule(28)
@pytest.mark.parametrize("version", [0, 2, 99, 65535])
async def test_an_agent_of_an_unsupported_version_is_disconnected_with_an_error(version: int) -> None:
    agent = ScriptedAgent(protocolVersion=version)
    async with asyncio.timeout(60):
        with pytest.raises(ProtocolViolation, match=f"protocol version {version} "):
            async with connect(agent):
                pytest.fail("it was welcomed")
    assert [message["method"] for message in agent.received] == ["initialize"]
    with pytest.raises(ConnectionLost):
        agent.transport.send(b"{}")


@pytest.mark.fault("SCH-10")
@pytest.mark.rule(30)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fs/read_text_file", {"path": "{place}/README.md"}),
        ("fs/write_text_file", {"path": "{place}/new", "content": "x"}),
        ("terminal/create", {"command": "touch", "args": ["{place}/new"]}),
        ("terminal/output", {"terminalId": "t"}),
        ("terminal/wait_for_exit", {"terminalId": "t"}),
        ("terminal/kill", {"terminalId": "t"}),
        ("terminal/release", {"terminalId": "t"}),
        ("elicitation/create", {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}}),
    ],
)
async def test_a_capability_that_was_not_advertised_is_not_served(tmp_path: Path, method: str, params: Json) -> None:
    filled = {name: _filled(value, tmp_path) for name, value in params.items()}
    agent = ScriptedAgent()
    allowed = Permissions(read="allow", edit="allow", execute={"*": "allow"})
    async with asyncio.timeout(60), connect(agent, permissions=allowed) as remote, remote.new_session(tmp_path):
        answer = await agent.ask(method, {"sessionId": "s1", **filled})
    assert answer["error"]["code"] == -32601
    assert files_in(tmp_path) == []
    capabilities = agent.calls("initialize")[0]["clientCapabilities"]
    assert not capabilities.get("terminal")
    assert not any(capabilities.get("fs", {}).values())


@pytest.mark.fault("SCH-10")
async def test_a_workspace_that_is_only_read_announces_no_writing_and_does_none(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    workspace = Workspace(tmp_path, read_only=True)
    async with (
        asyncio.timeout(60),
        connect(agent, workspace=workspace, permissions=Permissions(edit="allow")) as remote,
        remote.new_session(tmp_path),
    ):
        write = {"sessionId": "s1", "path": str(tmp_path / "new"), "content": "x"}
        answer = await agent.ask("fs/write_text_file", write)
    assert answer["error"]["code"] == -32601
    assert files_in(tmp_path) == []


def _filled(value: Any, directory: Path) -> Any:
    if isinstance(value, list):
        return [_filled(each, directory) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value.format(place=directory) if isinstance(value, str) else value


@pytest.mark.fault("LIF-09")
@pytest.mark.parametrize(
    ("end", "status"),
    [("sys.exit(0)", "0"), ("sys.exit(1)", "1"), ("sys.exit(127)", "127"), ("os.kill(os.getpid(), 9)", "SIGKILL")],
)
async def test_an_agent_that_ends_before_it_answers_is_noticed_at_once(end: str, status: str) -> None:
    command = python(f"import os, sys; sys.stderr.write('no key was given'); sys.stderr.flush(); {end}")
    async with asyncio.timeout(60):
        with pytest.raises(AgentExited, match="no key was given") as raised:
            async with connect(command, startup_timeout=50):
                pytest.fail("it was welcomed")
    assert status in str(raised.value)


@pytest.mark.fault("LIF-11")
async def test_an_agent_that_never_answers_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = python(
        "import os, subprocess, sys, time; child = subprocess.Popen(['sleep', '60']);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}');"
        "print('Welcome to the tool!', flush=True); print('thinking', file=sys.stderr, flush=True); time.sleep(60)"
    )
    async with asyncio.timeout(60):
        with pytest.raises(InitializeTimeout) as raised:
            async with connect(command, startup_timeout=5):
                pytest.fail("it was welcomed")
    message = str(raised.value)
    assert "5 s" in message
    assert "beginning with" in message
    assert "Welcome to the tool!" in message
    assert "thinking" in message
    assert [pid for pid in pids.read_text().split() if is_running(pid)] == []


# --- the agent is lost


@pytest.mark.fault("LIF-12")
async def test_an_agent_lost_in_a_turn_fails_it_and_takes_its_terminals_along(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def leave(params: Json) -> Json:
        agent.update(text_chunk("half of"), TOOL)
        made = await agent.ask("terminal/create", {"sessionId": "s1", "command": f"echo $$ > {pid}; exec sleep 60"})
        terminal = made["result"]["terminalId"]
        while not (pid.exists() and pid.read_text()):
            await agent.ask("terminal/output", {"sessionId": "s1", "terminalId": terminal})
        await agent.transport.aclose()
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=leave)
    rules = Permissions(on_request=allow)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, terminals=Terminals(grace=0.5)) as remote,
        remote.new_session(tmp_path) as session,
    ):
        listening = asyncio.ensure_future(all_of(session))
        with pytest.raises(ConnectionLost):
            await session.prompt("go")
        assert session.is_interrupted
        assert session.last_message_text() == "half of"
        assert [call.status for call in session.transcript.tool_calls] == ["failed"]
        # The block is not left, and yet the agent's terminals end, and so do the event streams.
        assert [type(event) for event in await listening] == [Text, ToolCall, ToolCall]
        assert not is_running(pid.read_text().strip())
        with pytest.raises(ConnectionLost):
            await session.prompt("again")


async def all_of(session: ClientSession) -> list[Event]:
    return [event async for event in session.events()]


async def allow(question: PermissionRequest) -> bool:
    return True


# --- order


@pytest.mark.fault("ORD-03")
async def test_updates_after_the_response_are_delivered_and_flagged_as_late(tmp_path: Path) -> None:
    async def answer_first(params: Json) -> Json:
        agent.update(text_chunk("in time"))
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=answer_first)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        events: list[Event] = []
        everything = asyncio.Event()

        def seen(event: Event) -> None:
            events.append(event)
            if isinstance(event, Usage):
                everything.set()

        session.watch(seen)
        turn = await session.prompt("go")
        plan = {"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "low", "status": "pending"}]}
        usage = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
        agent.update(text_chunk(", and late"), TOOL, plan, usage)
        await everything.wait()
        assert [(type(event), event.is_late) for event in events] == [
            (Text, False),
            (Text, True),
            (ToolCall, True),
            (Plan, True),
            (Usage, False),  # usage may be reported at any time
        ]
        assert turn.text == "in time"
        assert session.last_message_text() == "in time, and late"
        assert session.late_updates == 3


@pytest.mark.fault("ORD-06")
async def test_updates_for_unknown_sessions_are_counted_and_change_nothing(tmp_path: Path) -> None:
    agent = ScriptedAgent({"sessionCapabilities": {"close": {}}})
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        closed = await remote.new_session(tmp_path)
        await closed.aclose()
        for session_id in ("never", closed.id, ""):
            agent.update(text_chunk("hello?"), session_id=session_id)
        assert "error" in await agent.ask("session/request_permission", _question("never"))
        assert (await session.prompt("go")).text == ""
        assert remote._request_handler.lost_updates == 3
        assert len(closed.transcript) == 0


def _question(session_id: str) -> Json:
    return {"sessionId": session_id, "toolCall": {"toolCallId": "t"}, "options": ALL_OPTIONS}


@pytest.mark.fault("ORD-14")
async def test_a_load_that_fails_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    attempts: list[Json] = []

    async def load(params: Json) -> Json:
        attempts.append(params)
        agent.update(text_chunk("first", messageId="m1"), session_id="old")
        if len(attempts) == 1:
            return error(-32603, "the disk is full")
        agent.update(text_chunk("second", messageId="m2"), session_id="old")
        return result()

    agent = ScriptedAgent({"loadSession": True})
    agent.answers["session/load"] = load
    async with asyncio.timeout(60), connect(agent) as remote:
        shown: list[ClientSession] = []
        remote.on_session = shown.append
        with pytest.raises(RequestError, match="the disk is full"):
            await remote.load_session("old", tmp_path)
        assert remote._request_handler.sessions == {}
        # The session that received the beginning is closed.
        assert not shown[0].is_open
        assert await all_of(shown[0]) == []
        session = await remote.load_session("old", tmp_path)
        assert [message.text for message in session.transcript.messages] == ["first", "second"]
        # An open session is not put at risk by loading it once more.
        with pytest.raises(InvalidParams, match="open already"):
            await remote.load_session("old", tmp_path)
        assert remote._request_handler.sessions == {"old": session}
        assert len(attempts) == 2


# --- cancelling


@pytest.mark.fault("CAN-06")
@pytest.mark.rule(79)
async def test_cancelling_answers_every_open_question_and_those_still_on_their_way(tmp_path: Path) -> None:
    asked: list[PermissionRequest] = []
    both = asyncio.Event()

    async def think_about_it(question: PermissionRequest) -> None:
        asked.append(question)
        if len(asked) == 2:
            both.set()
        await asyncio.Event().wait()

    async def ask_thrice(params: Json) -> Json:
        first = [agent.ask_permission({"toolCallId": name, "kind": "edit"}) for name in "ab"]
        await agent.until("session/cancel")
        answers = await asyncio.gather(*first, agent.ask_permission({"toolCallId": "c", "kind": "edit"}))
        outcomes.extend(answer["result"]["outcome"] for answer in answers)
        return result(stopReason="cancelled")

    outcomes: list[Json] = []
    agent = ScriptedAgent(prompt=ask_thrice)
    rules = Permissions(on_request=think_about_it, max_concurrent=2)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules) as remote,
        remote.new_session(tmp_path) as session,
    ):
        running = asyncio.ensure_future(_finished(session.prompt("go")))
        await both.wait()
        await session.cancel()
        assert (await running).stop_reason == "cancelled"
        assert outcomes == [{"outcome": "cancelled"}] * 3
        assert len(asked) == 2
        assert {call.status for call in session.transcript.tool_calls} == {"cancelled"}


async def _finished(turn: ClientTurn) -> ClientTurn:
    return await turn


@pytest.mark.fault("CAN-07")
@pytest.mark.parametrize("end", ["cancelled", "completed", "closed"])
async def test_an_answer_that_comes_too_late_has_no_effect(tmp_path: Path, end: str) -> None:
    asked: asyncio.Queue[PermissionRequest] = asyncio.Queue()

    async def think_about_it(question: PermissionRequest) -> None:
        asked.put_nowait(question)
        await asyncio.Event().wait()

    async def write(params: Json) -> Json:
        content = {"sessionId": "s1", "path": str(tmp_path / "new"), "content": "x"}
        answers.append(agent.ask("fs/write_text_file", content))
        await (agent.until("session/cancel") if end != "completed" else shown.wait())
        return result(stopReason="end_turn")

    answers: list[asyncio.Future[Json]] = []
    shown = asyncio.Event()
    agent = ScriptedAgent(prompt=write)
    rules = Permissions(on_request=think_about_it)
    async with asyncio.timeout(60), connect(agent, permissions=rules, workspace=Workspace()) as remote:
        session = await remote.new_session(tmp_path)
        running = asyncio.ensure_future(_finished(session.prompt("go")))
        question = await asked.get()
        if end == "cancelled":
            await session.cancel()
        elif end == "closed":
            await session.aclose()
        shown.set()
        await running
        assert question.allow(always=True) is False
        assert "error" in await answers[0]
    assert files_in(tmp_path) == []


@pytest.mark.fault("CAN-10")
async def test_a_withdrawn_wait_ends_and_the_command_goes_on(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    rules = Permissions(execute={"sleep 60": "allow"})
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, terminals=Terminals(grace=0.5)) as remote,
        remote.new_session(tmp_path),
    ):
        made = await agent.ask("terminal/create", {"sessionId": "s1", "command": "sleep", "args": ["60"]})
        terminal = {"sessionId": "s1", "terminalId": made["result"]["terminalId"]}
        waiting = agent.ask("terminal/wait_for_exit", terminal, "w")
        agent.send({"method": "$/cancel_request", "params": {"requestId": "w"}})
        assert (await waiting)["error"]["code"] == -32800
        assert (await agent.ask("terminal/output", terminal))["result"].get("exitStatus") is None
        assert "result" in await agent.ask("terminal/kill", terminal)
        assert (await agent.ask("terminal/wait_for_exit", terminal))["result"]["signal"]


async def test_a_cancelled_turn_that_the_agent_does_not_end_is_abandoned_and_later_updates_are_late(
    tmp_path: Path,
) -> None:
    """An agent that ignores `session/cancel` costs some seconds, not the program."""

    async def go_on(params: Json) -> Json:
        agent.update(text_chunk("and"), TOOL)
        await ended.wait()
        return result(stopReason="end_turn")

    ended = asyncio.Event()
    agent = ScriptedAgent(prompt=go_on)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        assert remote._cancel_timeout == 10
        remote._cancel_timeout = 0.05
        async with session.prompt("go") as turn:
            async for _ in turn:
                break
        assert turn.stop_reason == "cancelled"
        assert [call.status for call in session.transcript.tool_calls] == ["cancelled"]
        late: asyncio.Queue[Event] = asyncio.Queue()
        session.watch(late.put_nowait)
        agent.update(text_chunk(" on"))
        ended.set()
        assert (await late.get()).is_late
        assert session.last_message_text() == " on"


async def test_a_turn_of_a_cancelled_session_ends_although_the_agent_ignores_it(tmp_path: Path) -> None:
    async def never(params: Json) -> Json:
        agent.update(text_chunk("and"))
        await left.wait()
        return result(stopReason="end_turn")

    left = asyncio.Event()
    agent = ScriptedAgent(prompt=never)
    async with (
        asyncio.timeout(60),
        connect(agent, cancel_timeout=0.05) as remote,
        remote.new_session(tmp_path) as session,
    ):
        async with session.prompt("go") as turn:
            async for _ in turn:
                await session.cancel()
                assert turn.is_cancelling
        assert turn.stop_reason == "cancelled"
        left.set()


async def test_a_late_answer_to_an_abandoned_prompt_does_not_end_the_next_one(tmp_path: Path) -> None:
    async def answer(params: Json) -> Json:
        if len(agent.calls("session/prompt")) == 1:
            await first.wait()
            return result(stopReason="refusal")
        first.set()
        await agent.until("$/cancel_request")
        agent.update(text_chunk("second"))
        await second.wait()
        return result(stopReason="end_turn")

    first, second = asyncio.Event(), asyncio.Event()
    agent = ScriptedAgent(prompt=answer)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        remote._cancel_timeout = 0.05
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await session.prompt("one")
        assert not session.is_busy
        async with session.prompt("two") as turn:
            async for event in turn:
                assert isinstance(event, Text)
                second.set()
        assert (turn.stop_reason, turn.text) == ("end_turn", "second")


@pytest.mark.parametrize("is_busy", [True, False])
async def test_an_agent_that_never_closes_a_session_does_not_block_the_client(tmp_path: Path, is_busy: bool) -> None:
    async def never(params: Json) -> Json:
        await left.wait()
        return result()

    left = asyncio.Event()
    agent = ScriptedAgent({"sessionCapabilities": {"close": {}}}, prompt=never)
    agent.answers["session/close"] = never
    async with asyncio.timeout(60), connect(agent) as remote:
        remote._cancel_timeout = 0.05
        async with remote.new_session(tmp_path) as session:
            if is_busy:
                with pytest.raises(TurnTimeout):
                    await session.ask("go", timeout=0.05)
        assert len(agent.calls("session/close")) == 1
        assert not session.is_open
        left.set()
        assert (await remote.new_session(tmp_path)).is_open


async def test_cancelling_a_session_withdraws_the_prompts_that_wait(tmp_path: Path) -> None:
    """One `session/cancel` ends the running prompt and all queued ones."""

    async def work(params: Json) -> Json:
        await agent.until("session/cancel")
        return result(stopReason="cancelled")

    agent = ScriptedAgent(prompt=work)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        turns = [asyncio.ensure_future(_finished(session.prompt(f"number {number}"))) for number in range(4)]
        await agent.until("session/prompt")
        # Leaving one that waits says nothing to the agent.
        turns[3].cancel()
        with pytest.raises(asyncio.CancelledError):
            await turns[3]
        assert agent.calls("session/cancel") == []
        await session.cancel()
        assert [turn.stop_reason for turn in await asyncio.gather(*turns[:3])] == ["cancelled"] * 3
        assert len(agent.calls("session/prompt")) == 1
        assert [message.text for message in session.transcript.messages] == ["number 0"]
        # The session is as good as before.
        assert (await session.prompt("next")).stop_reason == "cancelled"


async def test_a_closed_session_takes_no_prompt_and_its_events_end(tmp_path: Path) -> None:
    agent = ScriptedAgent({"sessionCapabilities": {"close": {}}})
    async with asyncio.timeout(60), connect(agent) as remote:
        session = await remote.new_session(tmp_path)
        listening = asyncio.ensure_future(all_of(session))
        await session.prompt("go")
        await session.aclose()
        assert await listening == []
        with pytest.raises(InvalidParams, match="closed"):
            session.prompt("again")
    assert len(agent.calls("session/prompt")) == 1


async def test_a_task_that_still_waits_for_a_turn_at_disconnect_gets_an_error(tmp_path: Path) -> None:
    async def never(params: Json) -> Json:
        await asyncio.Event().wait()
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=never)
    async with asyncio.timeout(60):
        async with connect(agent) as remote:
            session = await remote.new_session(tmp_path)
            waiting = asyncio.ensure_future(_finished(session.prompt("go")))
            await agent.until("session/prompt")
        with pytest.raises(ConnectionLost, match="while the turn ran"):
            await waiting
