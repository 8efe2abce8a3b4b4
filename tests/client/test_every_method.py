"""Every message of the protocol that a client sends, takes or shows, by name: the rows of its tables, one test each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from duologue import events
from duologue.client.agent import RemoteAgent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.protocol.values import AuthStatus, Elicitation, ElicitationAnswer
from duologue.schema import v1
from tests.agent.wire_validator import V1, definitions, methods_of
from tests.client.scripted_agent import ALL_OPTIONS, Json, ScriptedAgent, result
from tests.wire.vectors import vectors

pytestmark = pytest.mark.timeout(30)

ABLE: Json = {
    "loadSession": True,
    "auth": {"logout": {}, "status": {}},
    "providers": {},
    "mcpCapabilities": {"acp": True},
    "sessionCapabilities": {
        name: {} for name in ("archive", "close", "delete", "fork", "list", "resume", "status", "title")
    },
}
SETTINGS = [
    {"id": "m", "name": "M", "type": "select", "currentValue": "a", "options": [{"value": "a", "name": "A"}]},
    {"id": "b", "name": "B", "type": "boolean", "currentValue": False},
]
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}

Call = Callable[[RemoteAgent, ClientSession], Awaitable[Any]]

CALLS: dict[str, tuple[Call, Json, Json]] = {
    "authenticate": (lambda agent, session: agent.login("key"), {"methodId": "key"}, {}),
    "logout": (lambda agent, session: agent.logout(), {}, {}),
    "auth/status": (lambda agent, session: agent.login_status(), {}, {"state": "authenticated"}),
    "session/new": (
        *(lambda agent, session: agent.new_session("/"), {"cwd": "/", "mcpServers": []}),
        {"sessionId": "other"},
    ),
    "session/load": (
        *(lambda agent, session: agent.load_session("x", "/"), {"sessionId": "x", "cwd": "/", "mcpServers": []}),
        {},
    ),
    "session/resume": (lambda agent, session: agent.resume_session("x", "/"), {"sessionId": "x", "cwd": "/"}, {}),
    "session/fork": (
        *(lambda agent, session: session.fork(), {"sessionId": "s1"}),
        {"sessionId": "forked"},
    ),
    "session/list": (
        lambda agent, session: agent.list_sessions(archived="only"),
        {"archived": "only"},
        {"sessions": []},
    ),
    "session/close": (lambda agent, session: session.aclose(), {"sessionId": "s1"}, {}),
    "session/delete": (lambda agent, session: agent.delete_session("x"), {"sessionId": "x"}, {}),
    "session/archive": (lambda agent, session: agent.archive_session("x"), {"sessionId": "x"}, {}),
    "session/unarchive": (lambda agent, session: agent.unarchive_session("x"), {"sessionId": "x"}, {}),
    "session/status": (lambda agent, session: session.status(), {"sessionId": "s1"}, {"status": "open"}),
    "session/set_title": (
        *(lambda agent, session: session.set_title("T"), {"sessionId": "s1", "title": "T"}),
        {"title": "T"},
    ),
    "session/set_mode": (
        *(lambda agent, session: session.set_mode("code"), {"sessionId": "s1", "modeId": "code"}),
        {},
    ),
    "session/set_config_option": (
        *(lambda agent, session: session.set_option("m", "a"), {"sessionId": "s1", "configId": "m", "value": "a"}),
        {"configOptions": SETTINGS},
    ),
    "session/prompt": (
        lambda agent, session: session.ask("hi"),
        {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]},
        {"stopReason": "end_turn"},
    ),
    "providers/list": (lambda agent, session: agent.providers(), {}, {"providers": []}),
    "providers/set": (
        lambda agent, session: agent.set_provider("p", api_type="openai", base_url="https://h"),
        {"providerId": "p", "apiType": "openai", "baseUrl": "https://h"},
        {},
    ),
    "providers/disable": (lambda agent, session: agent.disable_provider("p"), {"providerId": "p"}, {}),
}


def check_official(method: str, kind: str, value: Json) -> None:
    """Hold what our client wrote against the official schema, which allows fields that it does not name: we do not."""
    name = definitions()[method, kind]
    assert (V1.validation_error(name, value), V1.unknown_fields(name, value)) == (None, [])


def test_every_request_to_an_agent_is_in_the_table_above() -> None:
    assert set(CALLS) | {"initialize"} == methods_of("agent", "request")


@pytest.mark.parametrize("method", CALLS)
async def test_a_client_can_ask_for_everything_an_agent_offers(tmp_path: Path, method: str) -> None:
    call, params, answer = CALLS[method]

    async def answered(params: Json) -> Json:
        return {"result": answer}

    async def new(params: Json) -> Json:
        settings = {"configOptions": SETTINGS} if method == "session/set_config_option" else {"modes": MODES}
        return result(sessionId="s1", **settings)

    agent = ScriptedAgent(ABLE, authMethods=[{"id": "key", "name": "Key"}])
    agent.answers["session/new"] = new
    async with asyncio.timeout(60), connect(agent, unstable=True) as remote:
        session = await remote.new_session(tmp_path)
        before = len(agent.calls(method))
        agent.answers[method] = answered
        await call(remote, session)
        sent = agent.calls(method)[before]
    assert sent.items() >= params.items()
    for message in agent.received:
        kind = "request" if "id" in message else "notification"
        check_official(message["method"], kind, message["params"])


async def test_a_client_tells_an_agent_to_stop(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent, unstable=True) as remote, remote.new_session(tmp_path) as session:
        await session.cancel()
        assert await agent.until("session/cancel") == {"sessionId": "s1"}


# --- what an agent asks and tells

ASKED: dict[str, tuple[Json, Json]] = {
    "session/request_permission": (
        {"toolCall": {"toolCallId": "t", "kind": "think"}, "options": ALL_OPTIONS},
        {"outcome": {"outcome": "selected", "optionId": "o3"}},
    ),
    "fs/read_text_file": ({"path": "{place}/a.txt"}, {"content": "text"}),
    "fs/write_text_file": ({"path": "{place}/b.txt", "content": "x"}, {}),
    "terminal/create": ({"command": "true"}, {}),
    "terminal/output": ({"terminalId": "{terminal}"}, {"output": "", "truncated": False}),
    "terminal/wait_for_exit": ({"terminalId": "{terminal}"}, {"signal": "SIGTERM"}),
    "terminal/kill": ({"terminalId": "{terminal}"}, {}),
    "terminal/release": ({"terminalId": "{terminal}"}, {}),
    "elicitation/create": (
        {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}},
        {"action": "accept", "content": {}},
    ),
}


def test_every_request_of_an_agent_is_in_the_table_above_or_has_its_own_tests() -> None:
    assert set(ASKED) | {"mcp/message"} == methods_of("client", "request")  # tests/client/test_tool_server.py


@pytest.mark.parametrize("method", ASKED)
async def test_a_client_answers_everything_an_agent_may_ask(tmp_path: Path, method: str) -> None:
    async def agree(question: Elicitation) -> ElicitationAnswer:
        return ElicitationAnswer(action="accept", content={})

    params, expected = ASKED[method]
    (tmp_path / "a.txt").write_text("text")
    agent = ScriptedAgent()
    allowed = Permissions(edit="allow", execute={"*": "allow"}, think="allow")
    async with (
        asyncio.timeout(60),
        connect(
            agent, permissions=allowed, workspace=Workspace(), terminals=Terminals(grace=0.5), on_elicit=agree
        ) as remote,
        remote.new_session(tmp_path),
    ):
        made = await agent.ask("terminal/create", {"sessionId": "s1", "command": "sleep", "args": ["1000"]})
        names = {"{place}": str(tmp_path), "{terminal}": made["result"]["terminalId"]}
        text = json.dumps({"sessionId": "s1", **params})
        for name, value in names.items():
            text = text.replace(name, value)
        asked = agent.ask(method, json.loads(text))
        if method == "terminal/wait_for_exit":
            await agent.ask("terminal/kill", {"sessionId": "s1", "terminalId": names["{terminal}"]})
        answer = (await asked)["result"]
    assert answer.items() >= expected.items()
    check_official(method, "response", answer)


async def test_a_client_is_notified_of_logins_and_of_completed_elicitations(tmp_path: Path) -> None:
    received: list[Any] = []
    notified = asyncio.Event()

    def login(status: AuthStatus) -> None:
        received.append(status.state)
        notified.set()

    agent = ScriptedAgent(ABLE)
    async with (
        asyncio.timeout(60),
        connect(agent, unstable=True, on_elicitation_complete=received.append, on_login_status=login),
    ):
        agent.send({"method": "elicitation/complete", "params": {"elicitationId": "e"}})
        agent.send({"method": "auth/status_update", "params": {"state": "unauthenticated"}})
        await notified.wait()
    assert received == ["e", "unauthenticated"]


# --- every update is an event

UPDATES: dict[str, type[Any]] = {
    "user_message_chunk": events.UserText,
    "agent_message_chunk": events.Text,
    "agent_thought_chunk": events.Thought,
    "tool_call": events.ToolCall,
    "tool_call_update": events.ToolCall,
    "plan": events.Plan,
    "plan_update": events.Plan,
    "plan_removed": events.PlanRemoved,
    "available_commands_update": events.CommandsChanged,
    "current_mode_update": events.ModeChanged,
    "config_option_update": events.SettingsChanged,
    "session_info_update": events.TitleChanged,
    "usage_update": events.Usage,
    "notice": events.Notice,
    "compaction_update": events.Compaction,
    "compaction_summary_chunk": events.Compaction,
    "subagent_update": events.Subagent,
    "session_message": events.SessionMessage,
    "session_message_chunk": events.SessionMessage,
}


def wires() -> dict[str, Json]:
    """Return one golden example of each update."""
    found: dict[str, Json] = {}
    for _, vector in vectors("v1"):
        if vector.definition == "SessionNotification":
            update = json.loads(bytes(vector.wire))["update"]
            if not _is_media(update.get("content")):
                found.setdefault(update["sessionUpdate"], update)
    return found


def _is_media(content: Any) -> bool:
    return "type" in (content or ()) and content["type"] != "text"


def test_every_update_of_the_schema_is_in_the_table_above() -> None:
    tags = {member.__struct_config__.tag for member in v1.SessionUpdate.__args__ if member.__struct_config__.tag}

    assert set(UPDATES) == tags
    assert set(UPDATES) <= set(wires())


@pytest.mark.parametrize("tag", UPDATES)
async def test_every_update_is_an_event_with_its_frame(tmp_path: Path, tag: str) -> None:
    update = wires()[tag]

    async def send_updates(params: Json) -> Json:
        agent.update(update)
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=send_updates)
    async with asyncio.timeout(60), connect(agent, unstable=True) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            seen = [event async for event in turn]
    assert type(seen[0]) is UPDATES[tag]
    assert json.loads(seen[0].raw)["params"]["update"] == update
