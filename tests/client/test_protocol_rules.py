"""The numbered rules of the protocol that a client decides."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from duologue.client.agent import RemoteAgent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.conversation.content import ResourceLink
from duologue.conversation.session_setup import HttpMcpServer, McpServer, SseMcpServer, StdioMcpServer
from duologue.errors import AuthenticationRequired, InvalidParams, MethodNotFound, ProtocolViolation, ResourceNotFound
from duologue.events import Event, ToolCall
from tests.client.scripted_agent import ALL_OPTIONS, Json, ScriptedAgent, error, result, text_chunk

pytestmark = pytest.mark.timeout(30)

EVERYTHING: Json = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "auth": {"logout": {}},
    "sessionCapabilities": {
        name: {} for name in ("additionalDirectories", "close", "delete", "fork", "list", "resume")
    },
}


async def refused() -> Json:
    return error(-32002, "no such session")


@pytest.mark.rule(23, 24, 25)
async def test_the_first_request_is_initialize_with_a_version_and_a_name() -> None:
    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent):
        pass
    (first,) = agent.received
    assert first["method"] == "initialize"
    assert first["params"]["protocolVersion"] == 1
    assert first["params"]["protocolVersion"] is not True
    assert first["params"]["clientInfo"]["name"] == "duologue"
    assert first["params"]["clientInfo"]["version"]


@pytest.mark.rule(1, 2, 3, 5)
async def test_an_agent_reads_nothing_but_the_protocol(tmp_path: Path) -> None:
    received = tmp_path / "received"
    builtin = shlex.join([sys.executable, "-m", "duologue.cli.main", "agent", "--sessions", str(tmp_path / "kept")])
    async with (
        asyncio.timeout(60),
        connect(["sh", "-c", f"tee {shlex.quote(str(received))} | {builtin}"]) as remote,
        remote.new_session(tmp_path) as session,
    ):
        print("what our own program prints")
        await session.prompt("/echo two\nlines, \u2028 and \U0001f9e8")
        async with session.prompt("/slow") as turn:
            await anext(aiter(turn))
    *lines, rest = received.read_bytes().split(b"\n")
    assert rest == b""
    assert {json.loads(line.decode())["jsonrpc"] for line in lines} == {"2.0"}
    assert [json.loads(line).get("method") for line in lines][:3] == ["initialize", "session/new", "session/prompt"]
    assert "session/cancel" in [json.loads(line).get("method") for line in lines]


UNOFFERED: list[tuple[Callable[[RemoteAgent], Awaitable[Any]], str]] = [
    (lambda agent: agent.logout(), "log out"),
    (lambda agent: agent.new_session("/", additional_directories=["/tmp"]), "more than one directory"),
    (lambda agent: agent.load_session("s"), "load"),
    (lambda agent: agent.resume_session("s"), "resume"),
    (lambda agent: agent.list_sessions(), "list"),
    (lambda agent: agent.delete_session("s"), "delete"),
    (lambda agent: agent.new_session("/", mcp_servers=[HttpMcpServer(name="h", url="http://h")]), "over HTTP"),
    (lambda agent: agent.new_session("/", mcp_servers=[SseMcpServer(name="h", url="http://h")]), "over SSE"),
]


@pytest.mark.rule(30, 39, 52, 53, 55, 59, 65, 71)
@pytest.mark.parametrize(("call", "what"), UNOFFERED)
async def test_nothing_is_asked_of_an_agent_that_it_never_offered(
    call: Callable[[RemoteAgent], Awaitable[Any]], what: str
) -> None:
    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent) as remote:
        with pytest.raises(MethodNotFound, match=what):
            await call(remote)
    assert [message["method"] for message in agent.received] == ["initialize"]


@pytest.mark.rule(61)
async def test_a_session_is_closed_at_the_agent_only_where_that_is_offered(tmp_path: Path) -> None:
    for capabilities, closed in (({}, []), (EVERYTHING, [{"sessionId": "s1"}])):
        agent = ScriptedAgent(capabilities)
        async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path):
            pass
        assert agent.calls("session/close") == closed


@pytest.mark.rule(35)
async def test_images_audio_and_files_are_sent_only_to_agents_that_support_them(tmp_path: Path) -> None:
    for name in ("picture.png", "sound.wav", "text.txt"):
        (tmp_path / name).write_bytes(b"some text")
    plain, able = ScriptedAgent(), ScriptedAgent(EVERYTHING)
    async with asyncio.timeout(60), connect(plain) as remote, remote.new_session(tmp_path) as session:
        with pytest.raises(InvalidParams, match="images"):
            session.prompt("x", images=["picture.png"])
        with pytest.raises(InvalidParams, match="audio"):
            session.prompt("x", audio=["sound.wav"])
        await session.prompt("x", files=["text.txt"])
    async with asyncio.timeout(60), connect(able) as remote, remote.new_session(tmp_path) as session:
        await session.prompt("x", images=["picture.png"], audio=["sound.wav"], files=["text.txt"])
    (linked,), (sent,) = plain.calls("session/prompt"), able.calls("session/prompt")
    assert [block["type"] for block in linked["prompt"]] == ["text", "resource_link"]
    assert {block["type"] for block in sent["prompt"]} == {"text", "image", "audio", "resource"}


@pytest.mark.rule(37)
async def test_a_login_that_needs_a_terminal_is_never_asked_of_the_agent() -> None:
    methods = [
        {"id": "shell", "name": "Shell", "type": "terminal", "args": ["login"]},
        {"id": "browser", "name": "Browser"},
    ]
    agent = ScriptedAgent(authMethods=methods)
    async with asyncio.timeout(60), connect(agent) as remote:
        with pytest.raises(InvalidParams, match="in a terminal"):
            await remote.login("shell")
        with pytest.raises(InvalidParams, match="no such login method"):
            await remote.login("other")
        await remote.login("browser")
    assert agent.calls("authenticate") == [{"methodId": "browser"}]


@pytest.mark.rule(42)
async def test_a_session_survives_being_logged_out(tmp_path: Path) -> None:
    async def prompt(params: Json) -> Json:
        is_logged_in = len(agent.calls("logout")) == len(agent.calls("authenticate"))
        return result(stopReason="end_turn") if is_logged_in else error(-32000, "log in first")

    agent = ScriptedAgent(EVERYTHING, prompt=prompt, authMethods=[{"id": "m", "name": "M"}])
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        await remote.logout()
        with pytest.raises(AuthenticationRequired):
            await session.prompt("go")
        assert session.is_open
        await remote.login("m")
        assert (await session.prompt("go")).stop_reason == "end_turn"


@pytest.mark.rule(44, 45, 49, 53)
async def test_every_path_is_absolute_and_the_servers_are_always_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_sessions(params: Json) -> Json:
        return result(sessions=[])

    monkeypatch.chdir(tmp_path)
    agent = ScriptedAgent(EVERYTHING)
    agent.answers |= {"session/list": no_sessions, "session/fork": agent.answers["session/new"]}
    async with asyncio.timeout(60), connect(agent, unstable={"fork"}) as remote:
        session = await remote.new_session("work", additional_directories=["more"])
        await remote.load_session("a", "work")
        await remote.resume_session("b", Path("work"), additional_directories=["more"])
        await session.fork()
        await remote.list_sessions(cwd="work")
        await session.prompt(ResourceLink(uri=(tmp_path / "x").as_uri(), name="x"))
    for method in ("session/new", "session/load", "session/resume", "session/fork", "session/list"):
        (params,) = agent.calls(method)
        assert params["cwd"] == str(tmp_path / "work")
        assert params.get("additionalDirectories") in (None, [], [str(tmp_path / "more")])
    assert agent.calls("session/new")[0]["additionalDirectories"] == [str(tmp_path / "more")]
    assert [agent.calls(method)[0]["mcpServers"] for method in ("session/new", "session/load")] == [[], []]


@pytest.mark.rule(52)
async def test_servers_behind_a_url_go_to_agents_that_reach_them_and_commands_to_all(tmp_path: Path) -> None:
    command = StdioMcpServer(name="c", command="/bin/server")
    web: list[McpServer] = [HttpMcpServer(name="h", url="http://h"), SseMcpServer(name="s", url="http://s")]
    plain, able = ScriptedAgent(), ScriptedAgent(EVERYTHING)
    async with asyncio.timeout(60), connect(plain) as remote:
        await remote.new_session(tmp_path, mcp_servers=[command])
        with pytest.raises(MethodNotFound):
            await remote.new_session(tmp_path, mcp_servers=[command, *web])
    async with asyncio.timeout(60), connect(able) as remote:
        await remote.new_session(tmp_path, mcp_servers=[command, *web])
    assert [server["name"] for server in able.calls("session/new")[0]["mcpServers"]] == ["c", "h", "s"]
    assert len(plain.calls("session/new")) == 1


@pytest.mark.rule(64)
async def test_closing_or_deleting_what_is_gone_already_succeeds(tmp_path: Path) -> None:
    agent = ScriptedAgent(EVERYTHING)
    agent.answers |= {method: lambda _: refused() for method in ("session/close", "session/delete", "session/load")}
    async with asyncio.timeout(60), connect(agent) as remote:
        async with remote.new_session(tmp_path) as session:
            pass
        await remote.delete_session(session.id)
        with pytest.raises(ResourceNotFound):
            await remote.load_session(session.id, tmp_path)
    assert len(agent.calls("session/close")) == len(agent.calls("session/delete")) == 1


@pytest.mark.rule(71)
async def test_a_session_that_is_deleted_while_open_is_closed_first(tmp_path: Path) -> None:
    agent = ScriptedAgent(EVERYTHING)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        await remote.delete_session(session.id)
        assert not session.is_open
        assert remote._request_handler.sessions == {}
    assert [message["method"] for message in agent.received[2:]] == ["session/close", "session/delete"]


@pytest.mark.rule(68, 70)
@pytest.mark.parametrize("last", [{}, {"nextCursor": None}])
async def test_all_pages_are_read_and_each_list_stands_for_itself(tmp_path: Path, last: Json) -> None:
    pages: dict[str | None, Json] = {
        None: {"sessions": [_listed("a", ["/more"])], "nextCursor": "?=&\u00e9 opaque"},
        "?=&\u00e9 opaque": {"sessions": [], "nextCursor": "3"},
        "3": {"sessions": [_listed("b", None)], **last},
    }

    async def page(params: Json) -> Json:
        return {"result": pages[params.get("cursor")]}

    agent = ScriptedAgent(EVERYTHING)
    agent.answers["session/list"] = page
    async with asyncio.timeout(60), connect(agent) as remote:
        assert [(info.session_id, info.additional_directories) for info in await remote.list_sessions()] == [
            ("a", ["/more"]),
            ("b", []),
        ]
        pages[None] = {"sessions": [_listed("a", None)]}
        assert [info.additional_directories for info in await remote.list_sessions()] == [[]]


@pytest.mark.rule(68)
async def test_an_endless_list_of_sessions_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def page(params: Json) -> Json:
        return {"result": {"sessions": [], "nextCursor": f"{params.get('cursor', '')}x"}}

    monkeypatch.setattr("duologue.client.agent_sessions.MAX_PAGES", 50)
    agent = ScriptedAgent(EVERYTHING)
    agent.answers["session/list"] = page
    async with asyncio.timeout(60), connect(agent) as remote:
        with pytest.raises(ProtocolViolation, match="has no end"):
            await remote.list_sessions()
    assert len(agent.calls("session/list")) == 50


def _listed(session_id: str, more: list[str] | None) -> Json:
    return {"sessionId": session_id, "cwd": "/work", **({} if more is None else {"additionalDirectories": more})}


@pytest.mark.rule(74)
async def test_a_prompt_follows_the_answer_that_opened_its_session(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        await session.prompt("go")
    assert [message["method"] for message in agent.received] == ["initialize", "session/new", "session/prompt"]
    assert agent.calls("session/prompt")[0]["sessionId"] == "s1"


@pytest.mark.parametrize(
    ("given", "flaw"), [({}, "no id"), ({"sessionId": ""}, "no id"), ({"sessionId": "s1"}, "twice")]
)
async def test_a_session_that_could_be_mistaken_for_another_is_refused(tmp_path: Path, given: Json, flaw: str) -> None:
    async def again(params: Json) -> Json:
        return {"result": given}

    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        agent.answers["session/new"] = again
        with pytest.raises(ProtocolViolation, match=flaw):
            await remote.new_session(tmp_path)
        assert remote._request_handler.sessions == {"s1": session}
        assert (await session.prompt("go")).stop_reason == "end_turn"


@pytest.mark.rule(80, 81)
async def test_after_a_cancellation_updates_are_taken_and_open_tools_are_shown_cancelled(tmp_path: Path) -> None:
    async def work(params: Json) -> Json:
        begun = {"sessionUpdate": "tool_call", "title": "Look", "status": "in_progress"}
        agent.update(*({**begun, "toolCallId": name} for name in "abc"))
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})
        await agent.until("session/cancel")
        at_once.extend(call.status for call in session.transcript.tool_calls)
        agent.update(
            {"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed"}, text_chunk("stopped")
        )
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "b", "title": "Looked"})
        return result(stopReason="cancelled")

    at_once: list[str] = []
    agent = ScriptedAgent(prompt=work)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        shown: list[tuple[str, str]] = []
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, ToolCall):
                    shown.append((event.tool_call_id, event.status))
                if shown[-1] == ("c", "completed"):
                    await session.cancel()
        assert at_once == ["cancelled", "cancelled", "completed"]
        assert shown[4:] == [("a", "cancelled"), ("b", "cancelled"), ("a", "completed"), ("b", "cancelled")]
        assert turn.text == "stopped"
        assert [call.status for call in session.transcript.tool_calls] == ["completed", "cancelled", "completed"]
        assert [call.status for call in turn.tool_calls] == ["completed", "cancelled", "completed"]


@pytest.mark.rule(81)
async def test_event_subscribers_see_the_end_of_tool_calls_that_the_agent_left_open(tmp_path: Path) -> None:
    async def work(params: Json) -> Json:
        agent.update({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "Look", "status": "in_progress"})
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=work)
    watched: list[Event] = []
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        session.watch(watched.append)
        async with session.prompt("go") as turn:
            read = [event async for event in turn]
    for calls in (watched, read, turn.tool_calls):
        last = calls[-1]
        assert isinstance(last, ToolCall)
        assert (last.status, last.is_unsettled) == ("in_progress", True)
    assert [len(watched), len(read)] == [2, 2]


@pytest.mark.rule(91, 92, 96)
async def test_updates_leave_what_they_omit_and_replace_the_rest(tmp_path: Path) -> None:
    async def work(params: Json) -> Json:
        entry = {"priority": "low", "status": "pending"}
        texts = [{"type": "content", "content": {"type": "text", "text": text}} for text in "xyz"]
        agent.update(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "t",
                "title": "Look",
                "kind": "read",
                "content": texts[:2],
                "locations": [{"path": "/a"}, {"path": "/b"}],
            },
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": None, "content": texts[2:]},
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", "locations": [{"path": "/c"}]},
            {"sessionUpdate": "plan", "entries": [{"content": name, **entry} for name in "abc"]},
            {"sessionUpdate": "plan", "entries": [{"content": "d", **entry}]},
        )
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=work)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        turn = await session.prompt("go")
    (call,) = turn.tool_calls
    assert (call.title, call.kind) == ("Look", "read")
    assert len(call.content) == 1
    assert [location.path for location in call.locations] == ["/c"]
    assert turn.plan is not None
    assert [entry.content for entry in turn.plan.entries] == ["d"]


@pytest.mark.rule(98)
@pytest.mark.parametrize("answer", [True, False])
async def test_the_answer_to_a_question_names_an_option_that_was_offered(tmp_path: Path, answer: bool) -> None:
    async def decide(question: PermissionRequest) -> bool:
        return answer

    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent, permissions=Permissions(on_request=decide)) as remote:
        async with remote.new_session(tmp_path):
            received = await agent.ask_permission({"toolCallId": "t", "kind": "execute", "rawInput": {"command": "ls"}})
    option = next(each for each in ALL_OPTIONS if each["optionId"] == received["result"]["outcome"]["optionId"])
    assert option["kind"] == ("allow_once" if answer else "reject_once")


@pytest.mark.rule(118, 123)
async def test_settings_win_over_modes_and_unknown_ones_are_no_trouble(tmp_path: Path) -> None:
    choices = [{"value": "code", "name": "Code"}, {"value": "plan", "name": "Plan"}]
    options: list[Json] = [
        {"id": "m", "name": "M", "type": "select", "category": "mode", "currentValue": "plan", "options": choices},
        {"id": "d", "name": "D", "type": "dial", "currentValue": 0.5, "from": 0, "to": 1},
        {"id": "c", "name": "C", "type": "select", "category": "_v", "currentValue": "code", "options": choices},
    ]

    async def new(params: Json) -> Json:
        modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
        return result(sessionId="s1", modes=modes, configOptions=options)

    async def change(params: Json) -> Json:
        return result(configOptions=[{**options[0], "currentValue": params["value"]}, *options[1:]])

    agent = ScriptedAgent()
    agent.answers |= {"session/new": new, "session/set_config_option": change}
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        assert session.modes is not None
        assert (session.modes.current, [mode.mode_id for mode in session.modes.available]) == ("plan", ["code", "plan"])
        assert [(each.setting_id, each.kind) for each in session.settings] == [
            ("m", "select"),
            ("d", "dial"),
            ("c", "select"),
        ]
        await session.set_mode("code")
        assert session.modes.current == "code"
    assert agent.calls("session/set_mode") == []


@pytest.mark.rule(132)
async def test_the_completion_of_an_unknown_elicitation_is_ignored(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        for elicitation_id in ("never", "never"):
            agent.send({"method": "elicitation/complete", "params": {"elicitationId": elicitation_id}})
        assert (await session.prompt("go")).stop_reason == "end_turn"
    assert [message["method"] for message in agent.received] == ["initialize", "session/new", "session/prompt"]
