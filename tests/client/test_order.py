"""Order: requests of an agent are decided after its earlier updates, without waiting for readers or handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.errors import ConnectionLost, InputLimitExceeded
from duologue.events import Event, Text, ToolCall
from duologue.protocol.values import Elicitation, ElicitationAnswer
from duologue.runtime.connection import MAX_INCOMING_BYTES
from tests.client.scripted_agent import ALL_OPTIONS, Json, ScriptedAgent, result
from tests.client.v2.scripted_agent import IDLE, RUNNING, Prompted, WireAgent, chunk

pytestmark = pytest.mark.timeout(60)

Script = Callable[[ScriptedAgent], Awaitable[None]]
VERSIONS = [1, 2]
MANY = 6_000
"""Updates whose folding takes more turns of the event loop than anything that is to happen meanwhile."""


@asynccontextmanager
async def session_with(
    version: int, script: Script, tmp_path: Path, **options: Any
) -> AsyncGenerator[tuple[ClientSession, ScriptedAgent]]:
    """Open a session with an agent of either version whose turns run the script."""
    agent: ScriptedAgent

    async def prompt(params: Json) -> Json:
        await script(agent)
        return result(stopReason="end_turn")

    async def prompted(wire: WireAgent, prompt: Prompted) -> None:
        prompt.accept()
        wire.update(RUNNING)
        await script(wire)
        wire.update(IDLE)

    agent = ScriptedAgent(prompt=prompt) if version == 1 else WireAgent(prompted)
    async with asyncio.timeout(60), connect(agent, protocol_versions=(1, 2), **options) as remote:
        assert remote.version == version
        async with remote.new_session(tmp_path) as session:
            yield session, agent


def send_chunks(agent: ScriptedAgent, count: int, text: str = "x") -> None:
    agent.update(*[chunk(text)] * count)


def ask(agent: ScriptedAgent, tool: str = "t", **fields: Any) -> asyncio.Future[Json]:
    """Ask for a permission, in the words of the agent's version."""
    call = {"toolCallId": tool, "title": "Run it", **fields}
    params: Json = {"sessionId": "s1", "options": ALL_OPTIONS}
    if isinstance(agent, WireAgent):
        params |= {"title": "May I?", "subject": {"type": "tool_call", "toolCall": call}}
    else:
        params |= {"toolCall": call}
    return agent.ask("session/request_permission", params)


def outcome(answer: Json) -> Json:
    found: Json = answer["result"]["outcome"]
    return found


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.text if isinstance(event, Text) else type(event).__name__ for event in events]


async def allow(question: PermissionRequest) -> bool:
    return True


# --- the place of a question


@pytest.mark.fault("ORD-15")
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_tool_call_of_a_question_is_shown_in_its_place_among_the_updates(
    version: int, tmp_path: Path
) -> None:
    async def script(agent: ScriptedAgent) -> None:
        send_chunks(agent, 300, "before")
        answer = ask(agent)
        send_chunks(agent, 300, "behind")
        await answer
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"})

    async with session_with(version, script, tmp_path, permissions=Permissions(on_request=allow)) as (session, _):
        async with session.prompt("go") as turn:
            seen = [event async for event in turn if isinstance(event, Text | ToolCall)]

    assert kinds(seen) == ["before"] * 300 + ["ToolCall"] + ["behind"] * 300 + ["ToolCall"]


@pytest.mark.fault("ORD-15")
@pytest.mark.parametrize("version", VERSIONS)
async def test_updates_after_a_permission_request_do_not_change_the_request(version: int, tmp_path: Path) -> None:
    async def script(agent: ScriptedAgent) -> None:
        answer = ask(agent, title="rm -rf build", kind="delete")
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "ls", "kind": "read"})
        await answer

    asked: list[tuple[str | None, str | None]] = []

    async def see(question: PermissionRequest) -> bool:
        asked.append((question.tool.title, question.tool.kind))
        return False

    async with session_with(version, script, tmp_path, permissions=Permissions(on_request=see)) as (session, _):
        await session.prompt("go")
        call = session.transcript.tool_call("t")

    assert asked == [("rm -rf build", "delete")]
    assert call is not None
    assert call.title == "ls"


@pytest.mark.fault("ORD-15")
async def test_files_commands_and_questions_are_judged_after_the_updates_before_them(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("inside")
    requests: list[tuple[str, Json]] = [
        ("fs/read_text_file", {"path": str(tmp_path / "file.txt")}),
        ("fs/write_text_file", {"path": str(tmp_path / "new.txt"), "content": "x"}),
        ("terminal/create", {"command": "true"}),
        ("elicitation/create", {"message": "?", "mode": "form", "requestedSchema": {"type": "object"}}),
    ]
    answers: list[Json] = []
    seen_when_asked: list[int] = []

    async def script(agent: ScriptedAgent) -> None:
        for method, params in requests:
            send_chunks(agent, 600)
            answer = agent.ask(method, {"sessionId": "s1", **params})
            send_chunks(agent, 600)
            answers.append(await answer)

    async def permit(question: PermissionRequest) -> bool:
        seen_when_asked.append(len(session.last_message_text()))
        return True

    async def fill_in(question: Elicitation) -> ElicitationAnswer:
        seen_when_asked.append(len(session.last_message_text()))
        return ElicitationAnswer(action="accept", content={})

    options: dict[str, Any] = {
        "permissions": Permissions(read="ask", on_request=permit),
        "workspace": Workspace(),
        "terminals": Terminals(),
        "on_elicit": fill_in,
    }
    async with session_with(1, script, tmp_path, **options) as (session, _):
        await session.prompt("go")

    assert all("result" in answer for answer in answers)
    assert len(seen_when_asked) == 4
    assert all(seen >= 600 * (2 * number + 1) for number, seen in enumerate(seen_when_asked))


async def test_requests_about_a_terminal_that_runs_start_at_once(tmp_path: Path) -> None:
    seen = 0
    seen_at_answer: list[int] = []

    def count(event: Event) -> None:
        nonlocal seen
        seen += isinstance(event, Text)

    async def script(agent: ScriptedAgent) -> None:
        made = await agent.ask("terminal/create", {"sessionId": "s1", "command": "cat", "args": ["/dev/zero"]})
        terminal = {"sessionId": "s1", "terminalId": made["result"]["terminalId"]}
        for method in ("output", "kill", "wait_for_exit", "release"):
            before = seen
            send_chunks(agent, MANY)
            assert "result" in await agent.ask(f"terminal/{method}", terminal)
            seen_at_answer.append(seen - before)

    options: dict[str, Any] = {"permissions": Permissions(execute="allow"), "terminals": Terminals(grace=0.2)}
    async with session_with(1, script, tmp_path, **options) as (session, _):
        session.watch(count)
        await session.prompt("go")

    assert seen == 4 * MANY
    assert seen_at_answer[0] < MANY
    assert seen_at_answer[3] < MANY


# --- readers


@pytest.mark.fault("ORD-16")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_reader_that_is_paused_for_good_holds_no_question_up(version: int, tmp_path: Path) -> None:
    answered = asyncio.Event()

    async def script(agent: ScriptedAgent) -> None:
        send_chunks(agent, 600)
        assert outcome(await ask(agent))["outcome"] == "selected"
        answered.set()

    async with session_with(version, script, tmp_path, permissions=Permissions(on_request=allow)) as (session, _):
        async with session.prompt("go") as turn:
            async for _event in turn:
                await answered.wait()  # with all the rest unread
                break


@pytest.mark.fault("ORD-16")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_reader_may_wait_for_the_question_itself(version: int, tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def script(agent: ScriptedAgent) -> None:
        send_chunks(agent, 600)
        assert outcome(await ask(agent))["outcome"] == "selected"

    async def see(question: PermissionRequest) -> bool:
        asked.set()
        return True

    async with session_with(version, script, tmp_path, permissions=Permissions(on_request=see)) as (session, _):
        async with session.prompt("go") as turn:
            texts = 0
            async for event in turn:
                await asked.wait()
                texts += isinstance(event, Text)
    assert texts == 600


@pytest.mark.fault("ORD-16")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_reader_may_wait_for_what_the_agent_answers_after_its_question(version: int, tmp_path: Path) -> None:
    is_answered = asyncio.Event()

    async def script(agent: ScriptedAgent) -> None:
        send_chunks(agent, 600)
        assert outcome(await ask(agent))["outcome"] == "selected"
        is_answered.set()

    async def later(params: Json) -> Json:
        await is_answered.wait()
        return result()

    async with session_with(version, script, tmp_path, permissions=Permissions(on_request=allow)) as (session, agent):
        agent.answers |= {"session/set_mode": later, "_later": later}
        async with session.prompt("go") as turn:
            texts = 0
            async for event in turn:
                if not texts and version == 1:
                    await session.set_mode("careful")
                if not texts:
                    await session.agent.call("_later", {})
                texts += isinstance(event, Text)
    assert texts == 600


# --- what is not read counts


async def flood(agent: ScriptedAgent, megabytes: int) -> None:
    for _ in range(16 * megabytes):
        send_chunks(agent, 1, "x" * 65536)
        if agent.transport.is_congested:
            await agent.transport.drain()


@pytest.mark.fault("ORD-17")
@pytest.mark.parametrize("version", VERSIONS)
async def test_unread_events_pause_reading_and_end_nothing(version: int, tmp_path: Path) -> None:
    is_behind = asyncio.Event()

    async def script(agent: ScriptedAgent) -> None:
        await flood(agent, 40)

    def note(event: Event) -> None:
        if session.agent.connection.is_paused:
            is_behind.set()

    async with session_with(version, script, tmp_path) as (session, _):
        session.watch(note)
        async with session.prompt("go") as turn:
            size = most = 0
            async for event in turn:
                await is_behind.wait()
                most = max(most, session.agent.connection.internals.unread.bytes)
                size += len(event.text) if isinstance(event, Text) else 0
        assert session.agent.connection.internals.unread.bytes == 0
    assert size == 40 * 16 * 65536
    assert most < 2.1 * MAX_INCOMING_BYTES  # the bound, and what one read of this transport may bring


@pytest.mark.fault("ORD-17")
async def test_reading_goes_on_up_to_a_limit_while_a_reader_waits_for_the_agent(tmp_path: Path) -> None:
    async def script(agent: ScriptedAgent) -> None:
        with suppress(ConnectionLost):
            await flood(agent, 120)

    async def never(params: Json) -> Json:
        return await asyncio.Event().wait()  # type: ignore[return-value] # never returns

    async with session_with(1, script, tmp_path) as (session, agent):
        agent.answers["_never"] = never
        with pytest.raises(InputLimitExceeded, match="wait to be handled or read"):
            async with session.prompt("go") as turn:
                async for _event in turn:
                    await session.agent.call("_never", {})


async def test_unread_events_of_an_ended_turn_count_no_longer(tmp_path: Path) -> None:
    async def script(agent: ScriptedAgent) -> None:
        await flood(agent, 8)

    async with session_with(1, script, tmp_path) as (session, _):
        turns = [session.prompt("go") for _ in range(4)]
        for turn in turns:
            async with turn:
                assert turn._task is not None
                await asyncio.wait({turn._task})
                assert turn._events
                assert session.agent.connection.internals.unread.bytes == 0


# --- a question that waits for its place


class Watching:
    """Counts what was folded, and tells when it is some of it and not all."""

    def __init__(self) -> None:
        self.seen = 0
        self.is_underway = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.seen += isinstance(event, Text)
        if self.seen == 300:
            self.is_underway.set()


@pytest.mark.fault("ORD-18")
@pytest.mark.parametrize("version", VERSIONS)
async def test_session_cancel_answers_a_question_that_waits_for_its_place(version: int, tmp_path: Path) -> None:
    watching, seen_at_answer = Watching(), MANY
    asked: list[PermissionRequest] = []

    async def script(agent: ScriptedAgent) -> None:
        nonlocal seen_at_answer
        send_chunks(agent, MANY)
        assert outcome(await ask(agent)) == {"outcome": "cancelled"}
        seen_at_answer = watching.seen

    async def see(question: PermissionRequest) -> bool:
        asked.append(question)
        return True

    async with session_with(version, script, tmp_path, permissions=Permissions(on_request=see)) as (session, _):
        session.watch(watching)
        turn = asyncio.ensure_future(session.ask("go"))
        await watching.is_underway.wait()
        await session.cancel()
        await turn

    assert asked == []
    assert 300 <= seen_at_answer < MANY


@pytest.mark.fault("ORD-18")
async def test_session_cancel_refuses_a_command_that_waits_for_its_place(tmp_path: Path) -> None:
    watching, answers = Watching(), list[Json]()

    async def script(agent: ScriptedAgent) -> None:
        send_chunks(agent, MANY)
        answers.append(await agent.ask("terminal/create", {"sessionId": "s1", "command": "touch", "args": ["made"]}))

    options: dict[str, Any] = {"permissions": Permissions(execute="allow"), "terminals": Terminals()}
    async with session_with(1, script, tmp_path, **options) as (session, _):
        session.watch(watching)
        turn = asyncio.ensure_future(session.ask("go"))
        await watching.is_underway.wait()
        await session.cancel()
        await turn

    assert answers[0]["error"]["code"] == -32800
    assert not (tmp_path / "made").exists()


@pytest.mark.fault("ORD-18")
@pytest.mark.parametrize("version", VERSIONS)
async def test_cancel_request_answers_a_question_that_waits_for_its_place(version: int, tmp_path: Path) -> None:
    watching, seen_at_answer = Watching(), MANY

    async def script(agent: ScriptedAgent) -> None:
        nonlocal seen_at_answer
        send_chunks(agent, MANY)
        answer = ask(agent)
        await watching.is_underway.wait()
        agent.send({"method": "$/cancel_request", "params": {"requestId": "a1"}})
        assert (await answer)["error"]["code"] == -32800
        seen_at_answer = watching.seen

    async with session_with(version, script, tmp_path, permissions=Permissions(on_request=allow)) as (session, _):
        session.watch(watching)
        await session.prompt("go")

    assert 300 <= seen_at_answer < MANY
    assert watching.seen == MANY


@pytest.mark.fault("ORD-18")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_question_that_waits_for_its_place_ends_with_the_connection(version: int, tmp_path: Path) -> None:
    watching, asked = Watching(), list[PermissionRequest]()

    async def script(agent: ScriptedAgent) -> None:
        send_chunks(agent, MANY)
        ask(agent).cancel()
        await watching.is_underway.wait()
        await agent.transport.__aexit__(None, None, None)
        await asyncio.Event().wait()

    async def see(question: PermissionRequest) -> bool:
        asked.append(question)
        return True

    async with session_with(version, script, tmp_path, permissions=Permissions(on_request=see)) as (session, _):
        session.watch(watching)
        with pytest.raises(ConnectionLost):
            await session.prompt("go")
        await session.agent.connection.wait_closed()

    assert asked == []


# --- a session that is being opened


@pytest.mark.fault("ORD-19")
async def test_a_request_before_its_session_is_open_is_answered_at_once(tmp_path: Path) -> None:
    answers: list[Json] = []

    async def new(params: Json) -> Json:
        agent.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run it", "kind": "execute"})
        answers.append(await ask(agent))  # the opening depends on the answer
        answers.append(await agent.ask("fs/read_text_file", {"sessionId": "s1", "path": str(tmp_path / "x")}))
        return result(sessionId="s1")

    agent = ScriptedAgent()
    agent.answers["session/new"] = new
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=Permissions(on_request=allow), workspace=Workspace()) as r,
    ):
        async with r.new_session(tmp_path) as session:
            await session.prompt("go")
            assert [call.tool_call_id for call in session.transcript.tool_calls] == ["t"]

    assert [answer["error"]["code"] for answer in answers] == [-32002, -32002]


@pytest.mark.fault("ORD-19")
async def test_a_question_during_a_load_is_judged_after_the_replay_before_it(tmp_path: Path) -> None:
    seen: list[str | None] = []

    async def load(params: Json) -> Json:
        agent.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run it", "kind": "execute"})
        send_chunks(agent, 600)
        assert outcome(await ask(agent))["outcome"] == "selected"  # the opening depends on the answer
        return result()

    async def see(question: PermissionRequest) -> bool:
        seen.append(question.tool.kind)
        return True

    agent = ScriptedAgent({"loadSession": True})
    agent.answers["session/load"] = load
    async with asyncio.timeout(60), connect(agent, permissions=Permissions(on_request=see)) as remote:
        async with remote.load_session("s1", tmp_path):
            assert seen == ["execute"]
