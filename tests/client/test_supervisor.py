"""A lost agent is started again at the next request, and its sessions continue."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from duologue import sync
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.terminals import Terminals
from duologue.client.session import ClientSession
from duologue.client.supervisor import Restart
from duologue.client.turn import ClientTurn
from duologue.conversation.session_setup import StdioMcpServer
from duologue.errors import AgentExited, CommandNotFound, ConnectionLost, CrashLoop, SessionLost
from duologue.events import CommandsChanged, Event, Text
from duologue.transports.memory import memory_pair
from tests.client.processes import is_running
from tests.client.scripted_agent import Json, ScriptedAgent, error, result, text_chunk

pytestmark = pytest.mark.timeout(30)

EXITING_AGENT = Path(__file__).with_name("exiting_agent.py")
RESUMES: Json = {"sessionCapabilities": {"resume": {}}}
LOADS: Json = {"loadSession": True}
MODES: Json = {
    "currentModeId": "ask",
    "availableModes": [{"id": name, "name": name} for name in ("ask", "code", "plan")],
}
QUICK = Restart(pause=0.01)


def exiting_agent(directory: Path, *features: str) -> list[str]:
    return [sys.executable, str(EXITING_AGENT), str(directory), *features]


def pids(directory: Path) -> list[str]:
    return (directory / "pids").read_text().split()


def received(directory: Path, method: str) -> list[Json]:
    messages: list[Json] = [json.loads(line) for line in (directory / "received").read_text().splitlines()]
    return [message["params"] for message in messages if message["method"] == method]


async def leave(agent: ScriptedAgent) -> Json:
    await agent.transport.aclose()
    return result()


async def all_of(session: ClientSession) -> list[Event]:
    return [event async for event in session.events()]


# --- real processes


@pytest.mark.fault("LIF-12")
async def test_the_next_prompt_after_a_crash_starts_a_new_process_and_goes_on(tmp_path: Path) -> None:
    server = StdioMcpServer(name="tools", command=sys.executable, args=["-V"])
    async with (
        asyncio.timeout(60),
        connect(exiting_agent(tmp_path, "resume"), restart=True) as agent,
        agent.new_session(tmp_path, mcp_servers=[server]) as session,
    ):
        with pytest.raises(AgentExited, match="out of memory") as raised:
            await session.prompt("die")
        assert raised.value.exit_code == 3
        assert session.is_interrupted
        assert (await session.prompt("go on")).text == "go on;"
        assert not agent.is_closed
    first, second = pids(tmp_path)
    assert not is_running(first)
    assert not is_running(second)
    # What ran when it was lost is never sent again.
    assert [call["prompt"][0]["text"] for call in received(tmp_path, "session/prompt")] == ["die", "go on"]
    (opened,), (resumed,) = received(tmp_path, "session/new"), received(tmp_path, "session/resume")
    assert resumed == {**opened, "sessionId": session.id}


@pytest.mark.fault("LIF-12")
async def test_an_agent_killed_in_mid_turn_is_noticed_at_once_and_restarted(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(exiting_agent(tmp_path, "resume"), restart=QUICK) as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentExited) as raised:
            async with session.prompt("hang") as turn:
                async for event in turn:
                    assert isinstance(event, Text)
                    os.kill(int(pids(tmp_path)[0]), signal.SIGKILL)
        assert raised.value.signal == "SIGKILL"
        assert await session.ask("again") == "again;"


async def test_an_agent_that_dies_while_it_is_idle_is_restarted_at_the_next_request(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(exiting_agent(tmp_path, "list"), restart=True) as agent:
        os.kill(int(pids(tmp_path)[0]), signal.SIGKILL)
        await agent.connection.wait_closed()
        assert len(pids(tmp_path)) == 1
        assert await agent.list_sessions() == []
        assert len(pids(tmp_path)) == 2


async def test_the_replay_of_a_load_after_a_restart_is_not_applied_again(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(exiting_agent(tmp_path, "load"), restart=True) as agent:
        session = await agent.new_session(tmp_path)
        events: list[Event] = []
        session.watch(events.append)
        with pytest.raises(AgentExited):
            await session.prompt("die")
        await session.prompt("live")
        assert [event.text for event in events if isinstance(event, Text)] == ["die;", "live;"]
        assert len(events) == 2
        texts = [(message.role, str(message.content[0])) for message in session.transcript.messages]
        assert [role for role, _ in texts] == ["user", "agent", "user", "agent"]


async def test_a_crash_loop_has_a_name_and_quotes_the_agent(tmp_path: Path) -> None:
    policy = Restart(limit=2, within=60, pause=0.01)
    async with asyncio.timeout(60), connect(exiting_agent(tmp_path, "resume"), restart=policy) as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentExited, match="out of memory"):
            await session.prompt("die")
        (tmp_path / "fatal").write_text("the disk is full")
        for _ in range(2):  # and it stays so: a third start is not tried
            with pytest.raises(CrashLoop, match=r"2 times in 60 s[^\n]*\n.*the disk is full") as raised:
                await session.prompt("go on")
            assert raised.value.exit_code == 3
            assert raised.value.stderr == "the disk is full"
        assert len(pids(tmp_path)) == 3


async def test_a_command_that_is_gone_is_not_tried_again(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {EXITING_AGENT} {tmp_path}\n")
    program.chmod(0o755)
    async with asyncio.timeout(60), connect([str(program)], restart=True) as agent:
        program.unlink()
        os.kill(int(pids(tmp_path)[0]), signal.SIGKILL)
        await agent.connection.wait_closed()
        with pytest.raises(CommandNotFound, match="no such file"):
            await agent.new_session(tmp_path)


@pytest.mark.parametrize("version", [1, 2])
async def test_the_built_in_agent_goes_on_after_a_crash_in_either_version(tmp_path: Path, version: int) -> None:
    command = [sys.executable, "-m", "duologue.cli.main", "agent", "--sessions", str(tmp_path), "--v2"]
    versions = (1,) if version == 1 else (1, 2)
    async with asyncio.timeout(60), connect(command, restart=QUICK, protocol_versions=versions) as agent:
        session = await agent.new_session(tmp_path)
        await session.set_mode("code")
        with pytest.raises(AgentExited):
            await session.ask("/crash 3")
        before = len(session.transcript.messages)
        assert "You said: still here" in await session.ask("/echo still here")
        assert agent.version == version
        assert len(session.transcript.messages) == before + 2
        assert session.modes is not None
        assert session.modes.current == "code"


def test_a_lost_agent_is_restarted_by_the_blocking_client_too(tmp_path: Path) -> None:
    with sync.connect(exiting_agent(tmp_path, "resume"), restart=QUICK, stall_timeout=60) as agent:
        with agent.new_session(tmp_path) as session:
            with pytest.raises(AgentExited, match="out of memory"):
                session.prompt("die").wait()
            assert session.ask("go on") == "go on;"


def test_the_example_of_a_steady_client_runs() -> None:
    program = Path(__file__).parents[2] / "examples" / "steady_client.py"
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "lost: exit code 3\nlogging in: Log in\nYou said: and after" in ended.stdout


# --- in memory


async def test_a_replay_that_arrives_after_the_response_is_not_applied_either(tmp_path: Path) -> None:
    """Published agents replay after the response to `session/load`; updates that replace a value still apply."""

    async def load(params: Json) -> Json:
        agent.update(text_chunk("before the answer"))
        return result()

    async def prompt(params: Json) -> Json:
        if len(agent.calls("session/prompt")) == 1:
            agent.update(text_chunk("one"))
            return await leave(agent)
        agent.update(text_chunk("two"))
        return result(stopReason="end_turn")

    async def set_title(params: Json) -> Json:
        agent.update(
            text_chunk("after the answer"), {"sessionUpdate": "available_commands_update", "availableCommands": []}
        )
        return result(title=params["title"])

    agent = ScriptedAgent({**LOADS, "sessionCapabilities": {"title": {}}}, prompt=prompt)
    agent.answers |= {"session/load": load, "session/set_title": set_title}
    async with (
        asyncio.timeout(60),
        connect(agent, restart=QUICK, unstable={"title"}) as remote,
        remote.new_session(tmp_path) as session,
    ):
        events: list[Event] = []
        session.watch(events.append)
        with pytest.raises(ConnectionLost):
            await session.prompt("go")
        await session.set_title("t")
        await session.prompt("go")
        assert [event.text if isinstance(event, Text) else type(event) for event in events] == [
            "one",
            CommandsChanged,
            "two",
        ]


async def test_a_session_that_cannot_be_reopened_is_lost_by_name_and_a_new_one_works(tmp_path: Path) -> None:
    async def prompt(params: Json) -> Json:
        return await leave(agent) if params["sessionId"] == "s1" else result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=prompt)
    async with asyncio.timeout(60), connect(agent, restart=QUICK) as remote:
        session = await remote.new_session(tmp_path)
        listening = asyncio.ensure_future(all_of(session))
        with pytest.raises(ConnectionLost):
            await session.prompt("go")
        with pytest.raises(SessionLost, match="neither resume nor load"):
            await session.prompt("again")
        assert await listening == []
        assert not session.is_open
        with pytest.raises(SessionLost):
            session.prompt("and again")
        with pytest.raises(SessionLost):
            await session.set_mode("code")
        other = await remote.new_session(tmp_path)
        assert (await other.prompt("go")).stop_reason == "end_turn"


async def test_a_session_the_agent_has_forgotten_is_lost_with_its_reason(tmp_path: Path) -> None:
    async def forgotten(params: Json) -> Json:
        return error(-32002, "unknown session")

    agent = ScriptedAgent(RESUMES)
    agent.answers["session/resume"] = forgotten
    async with asyncio.timeout(60), connect(agent, restart=QUICK) as remote:
        session = await remote.new_session(tmp_path)
        await agent.transport.aclose()
        await remote.connection.wait_closed()
        with pytest.raises(SessionLost, match="unknown session"):
            await session.prompt("go")


async def test_an_agent_that_offers_to_resume_and_cannot_is_asked_to_load(tmp_path: Path) -> None:
    async def resume(params: Json) -> Json:
        return error(-32601)

    agent = ScriptedAgent({**RESUMES, **LOADS})
    agent.answers["session/resume"] = resume
    async with asyncio.timeout(60), connect(agent, restart=QUICK) as remote:
        session = await remote.new_session(tmp_path)
        await agent.transport.aclose()
        await remote.connection.wait_closed()
        assert (await session.prompt("go")).stop_reason == "end_turn"
    assert len(agent.calls("session/load")) == 1


def option(value: str) -> Json:
    choices = [{"value": each, "name": each} for each in ("low", "high", "highest")]
    return {"id": "effort", "name": "Effort", "type": "select", "currentValue": value, "options": choices}


async def test_settings_of_the_user_are_set_again_after_a_restart_and_no_others(tmp_path: Path) -> None:
    async def open_session(params: Json) -> Json:
        return result(sessionId="s1", modes=MODES, configOptions=[option("low")])

    async def set_option(params: Json) -> Json:
        return result(configOptions=[option(params["value"])])

    agent = ScriptedAgent(RESUMES)
    agent.answers |= {"session/new": open_session, "session/resume": open_session}
    agent.answers["session/set_config_option"] = set_option
    async with asyncio.timeout(60), connect(agent, restart=QUICK) as remote, remote.new_session(tmp_path) as session:
        await session.set_mode("code")
        await session.set_option("effort", "high")
        # The agent itself went on from there: that is what holds now.
        agent.update({"sessionUpdate": "current_mode_update", "currentModeId": "plan"})
        await session.prompt("go")
        await agent.transport.aclose()
        await remote.connection.wait_closed()
        await session.prompt("go")
        assert session.modes is not None
        assert session.modes.current == "plan"
        assert [setting.value for setting in session.settings] == ["high"]
    assert [call["modeId"] for call in agent.calls("session/set_mode")] == ["code", "plan"]
    assert [call["value"] for call in agent.calls("session/set_config_option")] == ["high", "high"]


async def test_a_session_that_cannot_be_as_its_user_wanted_it_is_lost(tmp_path: Path) -> None:
    """Going on in the agent's own mode may be going on with more than was permitted."""

    async def open_session(params: Json) -> Json:
        return result(sessionId="s1", modes=MODES)

    async def set_mode(params: Json) -> Json:
        return result() if len(agent.calls("session/set_mode")) == 1 else error(-32602, "mode was removed")

    agent = ScriptedAgent(RESUMES)
    agent.answers |= {"session/new": open_session, "session/resume": open_session, "session/set_mode": set_mode}
    async with asyncio.timeout(60), connect(agent, restart=QUICK) as remote:
        session = await remote.new_session(tmp_path)
        await session.set_mode("plan")
        await agent.transport.aclose()
        await remote.connection.wait_closed()
        with pytest.raises(SessionLost, match="mode was removed"):
            await session.prompt("go")
    assert agent.calls("session/prompt") == []


async def test_several_sessions_are_reopened_each_at_its_next_request(tmp_path: Path) -> None:
    agent = ScriptedAgent({"sessionCapabilities": {"resume": {}, "close": {}}})
    async with asyncio.timeout(60), connect(agent, restart=QUICK) as remote:
        one, two, unused = [await remote.new_session(tmp_path) for _ in range(3)]
        await agent.transport.aclose()
        await remote.connection.wait_closed()
        turns = await asyncio.gather(one.prompt("a"), two.prompt("b"), one.prompt("c"))
        assert [turn.stop_reason for turn in turns] == ["end_turn"] * 3
        await unused.aclose()  # the agent that runs now knows nothing of it
    assert len(agent.calls("initialize")) == 2
    assert sorted(call["sessionId"] for call in agent.calls("session/resume")) == [one.id, two.id]
    assert agent.calls("session/close") == []


async def test_event_streams_continue_after_a_restart(tmp_path: Path) -> None:
    async def prompt(params: Json) -> Json:
        agent.update(text_chunk(params["prompt"][0]["text"]))
        return result(stopReason="end_turn")

    agent = ScriptedAgent(RESUMES, prompt=prompt)
    async with asyncio.timeout(60), connect(agent, restart=QUICK) as remote:
        session = await remote.new_session(tmp_path)
        listening = asyncio.ensure_future(all_of(session))
        await session.prompt("one")
        await agent.transport.aclose()
        await remote.connection.wait_closed()
        await session.prompt("two")
        await session.aclose()
        assert [event.text for event in await listening if isinstance(event, Text)] == ["one", "two"]


async def test_commands_of_an_agent_end_with_it_and_not_with_the_next_agent(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def prompt(params: Json) -> Json:
        if len(agent.calls("session/prompt")) > 1:
            return result(stopReason="end_turn")
        made = await agent.ask("terminal/create", {"sessionId": "s1", "command": f"echo $$ > {pid}; exec sleep 60"})
        while not (pid.exists() and pid.read_text()):
            await agent.ask("terminal/output", {"sessionId": "s1", "terminalId": made["result"]["terminalId"]})
        return await leave(agent)

    async def allow(question: PermissionRequest) -> bool:
        return True

    agent = ScriptedAgent(RESUMES, prompt=prompt)
    rules, terminals = Permissions(on_request=allow), Terminals(grace=0.5)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, terminals=terminals, restart=QUICK) as remote,
        remote.new_session(tmp_path) as session,
    ):
        with pytest.raises(ConnectionLost):
            await session.prompt("go")
        assert (await session.prompt("go")).stop_reason == "end_turn"
        assert not is_running(pid.read_text().strip())


async def test_leaving_while_an_agent_is_being_started_again_leaves_nothing(tmp_path: Path) -> None:
    died = asyncio.Event()
    policy = Restart(pause=60)
    async with asyncio.timeout(60):
        async with connect(
            exiting_agent(tmp_path), restart=policy, on_stderr=lambda data: died.set() if data else None
        ) as agent:
            os.kill(int(pids(tmp_path)[0]), signal.SIGKILL)
            await agent.connection.wait_closed()
            (tmp_path / "fatal").write_text("no")
            waiting = asyncio.ensure_future(agent.new_session(tmp_path))
            await died.wait()
        with pytest.raises(ConnectionLost):
            await waiting
    assert [pid for pid in pids(tmp_path) if is_running(pid)] == []


async def test_an_agent_that_answers_after_we_have_left_is_left_too(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        async with connect(exiting_agent(tmp_path), restart=QUICK) as agent:
            os.kill(int(pids(tmp_path)[0]), signal.SIGKILL)
            await agent.connection.wait_closed()
            (tmp_path / "slow").write_text("")
            waiting = asyncio.ensure_future(agent.new_session(tmp_path))
            await asyncio.sleep(0)
        (tmp_path / "slow").unlink()
        with pytest.raises(ConnectionLost):
            await waiting
    assert [pid for pid in pids(tmp_path) if is_running(pid)] == []


async def test_a_turn_that_waits_for_a_restart_can_be_cancelled(tmp_path: Path) -> None:
    died = asyncio.Event()
    policy = Restart(pause=60)
    async with (
        asyncio.timeout(60),
        connect(
            exiting_agent(tmp_path, "resume"), restart=policy, on_stderr=lambda data: died.set() if data else None
        ) as agent,
    ):
        session = await agent.new_session(tmp_path)
        os.kill(int(pids(tmp_path)[0]), signal.SIGKILL)
        await agent.connection.wait_closed()
        (tmp_path / "fatal").write_text("no")
        turn = session.prompt("go")
        running = asyncio.ensure_future(finished(turn))
        await died.wait()
        await session.cancel()
        await running
        assert turn.stop_reason == "cancelled"


async def finished(turn: ClientTurn) -> None:
    await turn


async def test_a_session_whose_reopening_is_cancelled_is_reopened_once(tmp_path: Path) -> None:
    async def resume(params: Json) -> Json:
        asked.set()
        await go_on.wait()
        return result()

    asked, go_on = asyncio.Event(), asyncio.Event()
    agent = ScriptedAgent(RESUMES)
    agent.answers["session/resume"] = resume
    async with asyncio.timeout(60), connect(agent, restart=QUICK) as remote:
        session = await remote.new_session(tmp_path)
        await agent.transport.aclose()
        await remote.connection.wait_closed()
        first = session.prompt("one")
        running = asyncio.ensure_future(finished(first))
        await asked.wait()
        await first.cancel()
        await running
        assert first.stop_reason == "cancelled"
        second = asyncio.ensure_future(finished(session.prompt("two")))
        go_on.set()
        await second
    assert len(agent.calls("session/resume")) == 1
    assert [call["prompt"][0]["text"] for call in agent.calls("session/prompt")] == ["two"]


async def test_only_what_can_be_reached_again_can_be_restarted() -> None:
    near, _ = memory_pair()
    with pytest.raises(ValueError, match="cannot be opened again"):
        connect(near, restart=True)
