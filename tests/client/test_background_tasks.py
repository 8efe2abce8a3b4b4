"""Background tasks and subagents from the client's side: their events, stopping a task, the sessions of subagents."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duologue import Permissions, connect, sync
from duologue.builtin.agent import builtin_agent
from duologue.client.recorded_sessions import recorded_sessions
from duologue.client.request_handler import MAX_CHILDREN
from duologue.client.session import ClientSession
from duologue.errors import MethodNotFound
from duologue.events import BackgroundTask, Event, Subagent, Text, UnknownUpdate
from duologue.types import MemoryStore, PermissionRequest
from tests.client.scripted_agent import Json, ScriptedAgent, result, text_chunk

pytestmark = pytest.mark.timeout(60)

VECTORS: list[Json] = json.loads(Path(__file__).with_name("background_task_vectors.json").read_text())
DECLARED: Json = {"jetbrains": {"air": {"version": 1, "capabilities": ["asyncTasks"]}}}
SPAWNED: Json = VECTORS[0]["updates"][0]
STOP = "_session/async_task/stop"


def scripted(version: int = 1) -> ScriptedAgent:
    agent = ScriptedAgent()
    if version == 2:
        agent.welcome = {"protocolVersion": 2, "info": {"name": "x", "version": "1"}, "capabilities": {"session": {}}}
    return agent


async def seen(session: ClientSession, is_last: Callable[[Event], bool], send: Callable[[], None]) -> list[Event]:
    """Return the events that arrive after `send` was called, up to the last one."""
    arrived: list[Event] = []
    done = asyncio.Event()

    def note(event: Event) -> None:
        arrived.append(event)
        if is_last(event):
            done.set()

    stop = session.watch(note)
    send()
    await done.wait()
    stop()
    return arrived


def announced(child: str, **fields: Any) -> Json:
    return {"sessionUpdate": "subagent_update", "sessionId": child, "state": {"state": "running"}, **fields}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
async def test_every_update_is_an_event_with_the_whole_task(tmp_path: Path, vector: Json) -> None:
    agent = scripted(vector["version"])
    options: Any = {"protocol_versions": (vector["version"],), "unstable": {"background_tasks"}}
    async with connect(agent, **options) as remote, remote.new_session(tmp_path) as session:
        last = vector["states"][-1]
        events = await seen(
            session, lambda event: getattr(event, "state", "") == last, lambda: agent.update(*vector["updates"])
        )

        assert [event.state for event in events if isinstance(event, BackgroundTask)] == vector["states"]
        [task] = session.background_tasks
        assert {name: getattr(task, name) for name in vector["task"]} == vector["task"]
        assert task.is_over == (last in ("completed", "failed"))


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_a_task_is_stopped_by_one_request_and_one_that_has_ended_by_none(
    tmp_path: Path, is_stopped: bool
) -> None:
    agent = scripted()

    async def stop(params: Json) -> Json:
        if is_stopped:
            agent.update({"sessionUpdate": "async_task_state_update", "asyncTaskId": "t1", "state": "stopped"})
        return result(stopped=is_stopped)

    agent.answers[STOP] = stop
    async with connect(agent, unstable={"background_tasks"}) as remote, remote.new_session(tmp_path) as session:
        await seen(session, lambda event: isinstance(event, BackgroundTask), lambda: agent.update(SPAWNED))
        assert await session.stop_task("t1") is is_stopped
        assert agent.calls(STOP) == [{"sessionId": "s1", "asyncTaskId": "t1"}]
        if is_stopped:
            assert not await session.stop_task("t1")
            assert len(agent.calls(STOP)) == 1


async def test_a_task_that_the_agent_does_not_offer_to_stop_is_not_stopped(tmp_path: Path) -> None:
    agent = scripted()
    async with connect(agent, unstable={"background_tasks"}) as remote, remote.new_session(tmp_path) as session:
        spawned = {**SPAWNED, "canStop": False}
        await seen(session, lambda event: isinstance(event, BackgroundTask), lambda: agent.update(spawned))
        for task_id in ("t1", "unknown"):
            with pytest.raises(MethodNotFound, match="does not offer to stop"):
                await session.stop_task(task_id)
    assert agent.calls(STOP) == []


@pytest.mark.parametrize("version", [1, 2])
async def test_a_client_asks_for_tasks_only_if_its_author_does(tmp_path: Path, version: int) -> None:
    field = "clientCapabilities" if version == 1 else "capabilities"
    for unstable, meta in (({"background_tasks"}, DECLARED), (True, DECLARED), (False, None), ({"subagents"}, None)):
        agent = scripted(version)
        async with connect(agent, protocol_versions=(version,), unstable=unstable) as remote:
            assert not remote.capabilities.background_tasks
        assert agent.calls("initialize")[0].get(field, {}).get("_meta") == meta


@pytest.mark.parametrize("version", [1, 2])
async def test_an_agent_that_advertises_tasks_is_known_to(version: int) -> None:
    agent = scripted(version)
    agent.welcome["_meta"] = DECLARED
    async with connect(agent, protocol_versions=(version,)) as remote:
        assert remote.capabilities.background_tasks


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "async_task_spawned"},
        {"sessionUpdate": "async_task_progress", "asyncTaskId": 5},
        {"sessionUpdate": "async_task_state_update", "asyncTaskId": "t", "state": {}},
        {"sessionUpdate": "subagent_spawned", "subagentSessionId": None},
    ],
    ids=str,
)
async def test_a_malformed_update_is_an_unknown_one_and_the_session_goes_on(tmp_path: Path, update: Json) -> None:
    agent = scripted()
    async with connect(agent, unstable=True) as remote, remote.new_session(tmp_path) as session:
        events = await seen(
            session, lambda event: isinstance(event, Text), lambda: agent.update(update, text_chunk("go on"))
        )
        assert [type(event) for event in events] == [UnknownUpdate, Text]
        assert (await session.prompt("hello")).stop_reason == "end_turn"


# --- subagents


async def test_the_updates_and_permission_requests_of_a_subagent_reach_its_own_session(tmp_path: Path) -> None:
    agent, asked = scripted(), list[str]()

    async def allow(request: PermissionRequest) -> None:
        asked.append(request.session_id)
        request.allow()

    async with connect(agent, permissions=Permissions(on_request=allow), unstable={"subagents"}) as remote:
        async with remote.new_session(tmp_path) as session:
            events = await seen(
                session, lambda event: isinstance(event, Subagent), lambda: agent.update(announced("c1", title="Scout"))
            )
            assert [event.title for event in events if isinstance(event, Subagent)] == ["Scout"]
            child = session.children["c1"]
            agent.update(text_chunk("look"), session_id="c1")
            tool = {"toolCallId": "t", "title": "Write", "kind": "edit"}
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            answer = await agent.ask(
                "session/request_permission", {"sessionId": "c1", "toolCall": tool, "options": options}
            )
            assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}
            assert asked == ["c1"]
            assert child.last_message_text() == "look"
            assert (child.cwd, session.transcript.messages, remote._request_handler.lost_updates) == (
                session.cwd,
                [],
                0,
            )
            await child.cancel()
            assert await agent.until("session/cancel") == {"sessionId": "c1"}
        assert (child.is_open, session.children) == (False, {})
        assert agent.calls("session/close") == []


async def test_a_permission_request_of_a_subagent_is_cancelled_with_the_turn(tmp_path: Path) -> None:
    agent, asked = scripted(), asyncio.Event()
    tool = {"toolCallId": "t", "title": "Write", "kind": "edit"}
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]

    async def ask(request: PermissionRequest) -> None:
        asked.set()
        await asyncio.Event().wait()

    async def work(params: Json) -> Json:
        agent.update(announced("c1"))
        answer = agent.ask("session/request_permission", {"sessionId": "c1", "toolCall": tool, "options": options})
        return result(stopReason="cancelled", _meta=(await answer)["result"])

    agent.answers["session/prompt"] = work
    async with connect(agent, permissions=Permissions(on_request=ask), unstable=True) as remote:
        session = await remote.new_session(tmp_path)
        async with session.prompt("go") as turn:
            await asked.wait()
            await turn.cancel()
            assert (turn.stop_reason, turn.meta) == ("cancelled", {"outcome": {"outcome": "cancelled"}})


async def test_the_earlier_spelling_of_subagents_is_read(tmp_path: Path) -> None:
    agent = scripted()
    spawned = {"sessionUpdate": "subagent_spawned", "subagentSessionId": "c1", "name": "Scout", "task": "Look"}
    ended = {"sessionUpdate": "subagent_state_update", "subagentSessionId": "c1", "state": "completed"}
    async with connect(agent, unstable=True) as remote, remote.new_session(tmp_path) as session:
        events = await seen(
            session, lambda event: isinstance(event, Subagent) and event.is_idle, lambda: agent.update(spawned, ended)
        )
        first, last = (event for event in events if isinstance(event, Subagent))
        assert (first.title, first.description, first.state, first.can_cancel) == (
            "Scout",
            "Look",
            {"state": "running"},
            False,
        )
        assert last.state == {"state": "idle", "stopReason": "end_turn"}
        assert list(session.children) == ["c1"]


async def test_an_idle_subagent_makes_room_for_a_new_one_and_a_running_one_does_not(tmp_path: Path) -> None:
    agent = scripted()
    async with connect(agent, unstable=True) as remote, remote.new_session(tmp_path) as session:
        ids = [f"c{number}" for number in range(MAX_CHILDREN + 1)]

        def flood() -> None:
            agent.update(*map(announced, ids), announced("c5", state={"state": "idle"}), announced("last"))

        await seen(session, lambda event: isinstance(event, Subagent) and event.session_id == "last", flood)
        assert set(session.children) == {*ids[:MAX_CHILDREN], "last"} - {"c5"}
        assert list(session.children["c0"].children) == []


async def test_a_subagent_cannot_take_the_id_of_another_session(tmp_path: Path) -> None:
    agent = scripted()
    async with connect(agent, unstable=True) as remote:
        async with remote.new_session(tmp_path) as first, remote.new_session(tmp_path) as second:
            await seen(first, lambda event: isinstance(event, Subagent), lambda: agent.update(announced("s2")))
            assert first.children == {}
            assert remote._request_handler.sessions["s2"] is second


# --- with other parts


async def test_an_agent_that_was_started_again_has_lost_its_tasks_and_subagents(tmp_path: Path) -> None:
    agent = builtin_agent(unstable=True)
    agent.persist_sessions(MemoryStore())
    async with connect(agent, unstable=True, restart=True) as remote, remote.new_session(tmp_path) as session:
        await session.prompt("/background 600")
        await session.prompt("/subagent")
        assert [task.state for task in session.background_tasks] == ["running"]
        assert len(session.children) == 1
        await remote._supervisor.reconnect()
        await session.prompt("hello")
        assert [task.state for task in session.background_tasks] == ["lost"]
        assert session.children == {}


async def test_a_recording_has_the_tasks(tmp_path: Path) -> None:
    path = tmp_path / "r.acp"
    async with connect(builtin_agent(unstable=True), unstable=True, record=path) as remote:
        async with remote.new_session(tmp_path) as session:
            await session.prompt("/background 600")
            [task] = session.background_tasks
            assert await session.stop_task(task.task_id)
    [recorded] = recorded_sessions(path)
    assert [each.state for each in recorded.transcript.background_tasks.values()] == ["stopped"]
    assert STOP.encode() in path.read_bytes()


def test_without_an_event_loop_tasks_are_stopped_too(tmp_path: Path) -> None:
    with sync.connect(builtin_agent(unstable=True), unstable=True) as remote, remote.new_session(tmp_path) as session:
        session.prompt("/background 600").wait()
        [task] = session.background_tasks
        assert (task.title, task.can_stop, task.is_over) == ("Say something after 600 s", True, False)
        assert session.stop_task(task.task_id) is True
        assert [each.state for each in session.background_tasks] == ["stopped"]
        session.prompt("/subagent").wait()
        [child] = session.children.values()
        assert child.last_message_text().startswith("I see ")


def test_the_examples_of_an_agent_and_a_client_work_together() -> None:
    program = Path(__file__).parents[2] / "examples" / "background_client.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=True)
    first, progress, *rest = done.stdout.splitlines()
    assert first == "The tests are running."
    assert progress.startswith("run pytest: running, ")
    assert rest == ["stopped: True", "run pytest: stopped"]
