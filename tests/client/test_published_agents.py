"""Behaviour of published agents that a client has to cope with."""

from __future__ import annotations

import asyncio
import json
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
from duologue.errors import AgentExited, AuthenticationRequired, MethodNotFound, ModelFailed, RequestError
from duologue.events import Event, Text, ToolCall, UnknownUpdate, UserText
from tests.client.processes import is_running
from tests.client.scripted_agent import Json, ScriptedAgent, error, result, text_chunk

pytestmark = pytest.mark.timeout(30)

META = {"vendor.example/x": {"deep": [1, None, 2**60]}}


async def played(agent: ScriptedAgent, cwd: Path, *updates: Json, **answer: Any) -> tuple[ClientSession, ClientTurn]:
    """Run one turn in which the agent sends these updates; return the session and the turn."""

    async def play(params: Json) -> Json:
        agent.update(*updates)
        return result(**({"stopReason": "end_turn"} | answer))

    agent.answers["session/prompt"] = play
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(cwd) as session:
        turn = session.prompt("go")
        return session, await turn


async def test_line_1_very_long_lines_and_odd_characters_arrive_whole(tmp_path: Path) -> None:
    """1. Lines of 560,000 characters, chunks of 100,000; U+2028, NUL, emoji: split on the line feed only."""
    commands = [{"name": f"c{number}", "description": "x" * 500} for number in range(1_100)]
    odd = "a\u2028b\u2029c\u0085d\u0000e\r\n\U0001f469\u200d\U0001f680"
    many = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
    agent = ScriptedAgent()
    session, turn = await played(agent, tmp_path, many, text_chunk("y" * 100_000), text_chunk(odd))
    assert turn.text == "y" * 100_000 + odd
    assert len(session.commands) == 1_100


async def test_line_2_what_an_agent_prints_is_no_part_of_the_conversation(tmp_path: Path) -> None:
    """2. Non-JSON on stdout, hundreds of lines on stderr, empty text chunks, a slow start."""
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import json, sys\n"
        "def say(**message): print(json.dumps({'jsonrpc': '2.0', **message}), flush=True)\n"
        "def chunk(text): say(method='session/update', params={'sessionId': 's', 'update': {'sessionUpdate':\n"
        "    'agent_message_chunk', 'content': {'type': 'text', 'text': text}}})\n"
        "print('Loading the model...\\n\\n   done', flush=True)\n"
        "for n in range(500): print('warning', n, file=sys.stderr)\n"
        "results = {'initialize': {'protocolVersion': 1}, 'session/new': {'sessionId': 's'}}\n"
        "for line in sys.stdin:\n"
        "    call = json.loads(line)\n"
        "    if call['method'] == 'session/prompt':\n"
        "        print('thinking about it', flush=True)\n"
        "        for text in ('', 'yes', ''): chunk(text)\n"
        "    say(id=call['id'], result=results.get(call['method'], {'stopReason': 'end_turn'}))\n"
    )
    received: list[bytes] = []
    async with (
        asyncio.timeout(60),
        connect([sys.executable, str(agent)], on_stderr=received.append) as remote,
        remote.new_session(tmp_path) as session,
    ):
        assert await session.ask("go") == "yes"
        assert "lines that are not the protocol" in remote.connection.stray_output
    assert b"".join(received).count(b"warning") == 500


async def test_line_3_unknown_requests_are_refused_and_unknown_notifications_are_not_answered(tmp_path: Path) -> None:
    """3. Requests and notifications of unknown methods, with and without a leading underscore."""
    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        received = len(agent.received)
        for name in ("_vendor/ping", "session/surprise"):
            agent.send({"method": name, "params": {"sessionId": "s1"}})
            answer = await agent.ask(name, {"sessionId": "s1"})
            assert answer["error"]["code"] == -32601
        assert len(agent.received) == received + 2
        assert (await session.prompt("go")).stop_reason == "end_turn"


async def test_line_4_unknown_fields_and_meta_are_kept_within_reach_and_break_nothing(tmp_path: Path) -> None:
    """4. Unknown fields everywhere, `_meta` in every place, fields of other versions, unknown capabilities."""
    tool = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "Edit",
        "kind": "vendor-kind",
        "status": "completed",
        "content": [
            {"type": "content", "content": {"type": "text", "text": "x", "_meta": META, "n": 1}, "_meta": META},
            {"type": "hologram", "depth": 3},
        ],
        "locations": [{"path": "/a", "line": 3, "_meta": META, "column": 7}],
        "_meta": META,
        "vendorField": {"a": 1},
    }
    commands = [{"name": "c", "description": "d", "_meta": META, "icon": "x"}]
    agent = ScriptedAgent({"telepathy": {}, "sessionCapabilities": {"fly": {}}, "_meta": META}, motto="hi")
    models = {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M", "_meta": META}]}
    agent.answers["session/new"] = lambda _: answered(sessionId="s1", models=models, _meta=META, extra=1)
    agent.answers["session/load"] = lambda _: answered(sessionId="other", models=models)
    session, turn = await played(
        agent,
        tmp_path,
        tool,
        {"sessionUpdate": "available_commands_update", "availableCommands": commands},
        {"sessionUpdate": "weather", "degrees": 21},
        text_chunk("done", _meta=META, mood="good"),
        usage={"totalTokens": 3, "inputTokens": 1, "outputTokens": 2, "secret": 4},
        _meta=META,
    )
    assert [call.kind for call in turn.tool_calls] == ["vendor-kind"]
    assert turn.tool_calls[0].meta == META
    assert turn.tool_calls[0].locations[0].meta == META
    assert json.loads(turn.tool_calls[0].raw)["params"]["update"] == tool
    assert session.commands[0].meta == META
    assert session.models is not None
    assert session.models.value == "m"
    assert turn.usage is not None
    assert turn.usage.total == 3
    assert turn.meta == META

    agent.welcome["agentCapabilities"]["loadSession"] = True
    async with asyncio.timeout(60), connect(agent) as remote:
        loaded = await remote.load_session("mine", tmp_path)
        assert loaded.id == "mine"


async def answered(**fields: Any) -> Json:
    return result(**fields)


async def test_line_5_updates_come_before_between_and_after_and_all_are_seen(tmp_path: Path) -> None:
    """5. Updates before `session/new` is answered, after a turn, between turns; late replay; echoed user chunks."""

    async def new(params: Json) -> Json:
        agent.update({"sessionUpdate": "current_mode_update", "currentModeId": "code"}, text_chunk("early"))
        return result(sessionId="s1")

    async def echo(params: Json) -> Json:
        agent.update({**text_chunk("go"), "sessionUpdate": "user_message_chunk"}, text_chunk("received"))
        return result(stopReason="end_turn")

    agent = ScriptedAgent({"loadSession": True, "sessionCapabilities": {"resume": {}}}, prompt=echo)
    agent.answers["session/new"] = new
    async with asyncio.timeout(60), connect(agent) as remote:
        session = await remote.new_session(tmp_path)
        assert session.last_message_text() == "early"
        events: asyncio.Queue[Event] = asyncio.Queue()
        session.watch(events.put_nowait)
        turn = await session.prompt("go")
        assert isinstance(events.get_nowait(), UserText)
        assert turn.text == "received"
        assert [message.text for message in session.transcript.messages if message.role == "user"] == ["go"]
        assert isinstance(events.get_nowait(), Text)
        agent.update({"sessionUpdate": "session_info_update", "title": "Later"}, text_chunk("by the way"))
        await events.get()
        assert (await events.get()).is_late
        assert session.title == "Later"

        for opened in (await remote.load_session("old", tmp_path), await remote.resume_session("older", tmp_path)):
            replayed: asyncio.Queue[Event] = asyncio.Queue()
            opened.watch(replayed.put_nowait)
            question = {**text_chunk("what?"), "sessionUpdate": "user_message_chunk"}
            agent.update(question, text_chunk("that"), session_id=opened.id)
            assert [(await replayed.get()).is_late, (await replayed.get()).is_late] == [False, False]
            assert [message.text for message in opened.transcript.messages] == ["what?", "that"]


async def test_settings_from_a_replay_survive_a_response_without_settings(tmp_path: Path) -> None:
    """5. Updates before the answer that opens a session: modes, config."""

    async def load(params: Json) -> Json:
        option = {"id": "b", "name": "B", "type": "boolean", "currentValue": True}
        agent.update({"sessionUpdate": "config_option_update", "configOptions": [option]}, session_id="old")
        return {"result": None}

    agent = ScriptedAgent({"loadSession": True})
    agent.answers["session/load"] = load
    async with asyncio.timeout(60), connect(agent) as remote:
        session = await remote.load_session("old", tmp_path)
        assert [(setting.setting_id, setting.value) for setting in session.settings] == [("b", True)]


@pytest.mark.fault("WLD-03")
async def test_line_6_tool_calls_begin_anyhow_and_end_with_their_turn(tmp_path: Path) -> None:
    """6. A permission or an update as first mention; `tool_call` twice; nothing but an id; calls that never finish.

    What a turn leaves open at its end may have worked: the last status stays, and the call says that it is not settled.
    """

    async def work(params: Json) -> Json:
        asked = await agent.ask_permission({"toolCallId": "asked", "title": "Delete it", "kind": "delete"})
        outcomes.append(asked["result"]["outcome"])
        agent.update(
            {"sessionUpdate": "tool_call_update", "toolCallId": "first"},
            {"sessionUpdate": "tool_call", "toolCallId": "twice", "title": "One", "kind": "read"},
            {"sessionUpdate": "tool_call", "toolCallId": "twice", "title": "Two"},
            {"sessionUpdate": "tool_call_update", "toolCallId": "twice", "status": "completed"},
        )
        return result(stopReason="end_turn")

    outcomes: list[Json] = []
    agent = ScriptedAgent(prompt=work)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        await session.prompt("go")
        assert outcomes == [{"outcome": "selected", "optionId": "o0"}]
        calls = {
            call.tool_call_id: (call.title, call.status, call.is_unsettled) for call in session.transcript.tool_calls
        }
        assert calls == {
            "asked": ("Delete it", "pending", True),
            "first": ("", "pending", True),
            "twice": ("Two", "completed", False),
        }
        assert session.transcript.tool_calls[0].kind == "delete"


@pytest.mark.parametrize("spelling", [{}, {"oldText": None}, {"oldText": ""}])
@pytest.mark.parametrize("raw", [None, "text", 3, [1], {"a": 1}, False])
async def test_line_7_one_thing_in_three_spellings_and_raw_values_of_any_type(
    tmp_path: Path, spelling: Json, raw: Any
) -> None:
    """7. Null, absent and empty used for the same thing; `rawInput` and `rawOutput` of any JSON type."""
    change = {"type": "diff", "path": "/new", "newText": "x", **spelling}
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Make", "rawInput": raw, "content": [change]}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": None, "kind": None, "rawOutput": raw}
    _, turn = await played(ScriptedAgent(), tmp_path, call, {**done, "status": "completed", "locations": None})
    (made,) = turn.tool_calls
    assert made.title == "Make"
    assert not made.changes[0].old_text
    assert made.changes[0].new_text == "x"
    if raw is not None:
        assert made.raw_input == made.raw_output == raw


async def test_line_8_terminals_that_were_never_made_and_commands_in_one_line(tmp_path: Path) -> None:
    """8. `terminal` content with foreign ids; `terminal/create` without `cwd`, or with a shell line in `command`."""

    async def run(params: Json) -> Json:
        shown = {"type": "terminal", "terminalId": "never-made"}
        agent.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run", "content": [shown]})
        made = await agent.ask("terminal/create", {"sessionId": "s1", "command": "pwd && echo 'two words'"})
        terminal = {"sessionId": "s1", "terminalId": made["result"]["terminalId"]}
        await agent.ask("terminal/wait_for_exit", terminal)
        output = await agent.ask("terminal/output", terminal)
        agent.update(text_chunk(output["result"]["output"]))
        return result(stopReason="end_turn")

    async def yes(question: PermissionRequest) -> bool:
        return True

    agent = ScriptedAgent(prompt=run)
    rules = Permissions(on_request=yes)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, terminals=Terminals()) as remote,
        remote.new_session(tmp_path) as session,
    ):
        assert (await session.ask("go")).splitlines() == [str(tmp_path), "two words"]


@pytest.mark.fault("WLD-01")
@pytest.mark.parametrize(
    ("name", "missing", "received"),
    [
        (None, "error", -32002),
        (None, "empty", ""),
        (None, None, -32002),
        ("gemini-cli", None, ""),
        ("gemini-cli", "error", -32002),
        ("qwen-code", None, -32002),
        ("qwen-code", "empty", ""),
    ],
)
async def test_line_9_a_missing_file_is_an_error_or_empty_as_the_agent_needs_it(
    tmp_path: Path, name: str | None, missing: Any, received: object
) -> None:
    """9. One agent cannot create a file when reading it answers "not found", another expects exactly that."""
    agent = ScriptedAgent(agentInfo=None if name is None else {"name": name, "version": "0.61.0"})
    workspace = Workspace(missing=missing)
    async with asyncio.timeout(60), connect(agent, workspace=workspace) as remote, remote.new_session(tmp_path):
        answer = await agent.ask("fs/read_text_file", {"sessionId": "s1", "path": str(tmp_path / "new")})
    assert (answer["error"]["code"] if "error" in answer else answer["result"]["content"]) == received


@pytest.mark.parametrize(("path", "code"), [(".env", -32600), ("../outside", -32602)])
async def test_line_9_an_agent_that_reads_missing_files_as_empty_reads_nothing_it_may_not(
    tmp_path: Path, path: str, code: int
) -> None:
    """9. Reading stays behind the rules: what is forbidden is no empty text, be it there or not."""
    agent = ScriptedAgent(agentInfo={"name": "gemini-cli", "version": "0.61.0"})
    rules = Permissions(read="reject")
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, workspace=Workspace()) as remote,
        remote.new_session(tmp_path),
    ):
        answer = await agent.ask("fs/read_text_file", {"sessionId": "s1", "path": f"{tmp_path}/{path}"})
    assert answer["error"]["code"] == code


@pytest.mark.parametrize(
    ("kinds", "is_allowed", "chosen"),
    [
        (["reject_once", "allow_always", "allow_once"], True, 2),
        (["allow_once", "allow_once", "reject_once"], True, 0),
        (["allow_always", "allow_once", "reject_always", "reject_once"], False, 3),
        (["vendor", "reject_once"], False, 1),
        (["allow_once"], False, None),
        ([], True, None),
    ],
)
async def test_line_10_options_are_chosen_by_their_kind(
    tmp_path: Path, kinds: list[str], is_allowed: bool, chosen: int | None
) -> None:
    """10. Options of a permission request in any order and number, several of one kind."""

    async def decide(question: PermissionRequest) -> bool:
        return is_allowed

    options = [{"optionId": f"{number}", "name": "Yes", "kind": kind} for number, kind in enumerate(kinds)]
    agent = ScriptedAgent()
    async with asyncio.timeout(60), connect(agent, permissions=Permissions(on_request=decide)) as remote:
        async with remote.new_session(tmp_path):
            tool = {"toolCallId": "t", "kind": "edit", "locations": [{"path": str(tmp_path / "a")}]}
            answer = await agent.ask_permission(tool, options)
    expected = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": str(chosen)}
    assert answer["result"]["outcome"] == expected


@pytest.mark.parametrize("code", [400, -1, 0, -32602, -32603, -32002, 2**40])
@pytest.mark.parametrize("data", [None, "text", 3, [1], {"a": 1}])
async def test_line_11_errors_of_every_code_and_data_are_raised_as_they_came(
    tmp_path: Path, code: int, data: Any
) -> None:
    """11. Codes outside the JSON-RPC range, `error.data` of any type; an unknown session in many disguises."""
    agent = ScriptedAgent()
    agent.answers["session/prompt"] = lambda _: failing(code, data)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        with pytest.raises(RequestError, match="quota") as raised:
            await session.prompt("go")
        assert (raised.value.code, raised.value.data) == (code, data)
        agent.answers["session/prompt"] = lambda _: answered(stopReason="refusal")
        assert (await session.prompt("go")).stop_reason == "refusal"
        agent.answers["session/prompt"] = lambda _: answered(stopReason="end_turn")
        turn = await session.prompt("go")
        assert (turn.stop_reason, turn.text) == ("end_turn", "")


async def failing(code: int, data: Any) -> Json:
    return error(code, "over quota", data=data)


async def test_line_12_a_cancelled_turn_that_ends_as_an_error_has_ended(tmp_path: Path) -> None:
    """12. `session/cancel` answered with an error; prompts one after the other; colliding request ids."""

    async def fail_when_cancelled(params: Json) -> Json:
        # The client's own ids are small numbers, too.
        for number in range(5):
            answer = await agent.ask("_vendor/x", {}, request_id=number)
            assert answer["error"]["code"] == -32601
        agent.update(text_chunk("working"))
        await agent.until("session/cancel")
        return error(-32603, "AbortError")

    agent = ScriptedAgent(prompt=fail_when_cancelled)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            async for _ in turn:
                break
        assert turn.stop_reason == "cancelled"
        assert turn.error is None
        # The same error without having been asked to end is one.
        agent.answers["session/prompt"] = lambda _: failing(-32603, None)
        with pytest.raises(RequestError):
            await session.prompt("go")


async def test_line_12_a_second_prompt_is_sent_only_when_the_first_has_ended(tmp_path: Path) -> None:
    """12. A second prompt during a turn cancels the first, queues, errors, or is never answered: so none is sent."""
    running: list[int] = []

    async def alone(params: Json) -> Json:
        running.append(1)
        assert len(running) == 1
        await agent.ask("_vendor/x", {})
        running.pop()
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=alone)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        turns = await asyncio.gather(*(session.prompt(str(number)) for number in range(3)))
        assert [turn.stop_reason for turn in turns] == ["end_turn"] * 3
    assert [call["prompt"][0]["text"] for call in agent.calls("session/prompt")] == ["0", "1", "2"]


async def test_line_13_a_login_may_be_demanded_without_a_way_to_log_in(tmp_path: Path) -> None:
    """13. -32000 although `authMethods` is empty; methods described only in `_meta`, or of an older draft."""
    agent = ScriptedAgent(authMethods=[])
    agent.answers["session/new"] = lambda _: failing(-32000, None)
    async with asyncio.timeout(60), connect(agent) as remote:
        assert remote.login_methods == []
        with pytest.raises(AuthenticationRequired, match="over quota"):
            await remote.new_session(tmp_path)
    methods = [
        {"id": "bare", "name": "Bare", "_meta": META},
        {"id": "env", "name": "Key", "type": "env_var", "vars": [{"name": "KEY"}], "varName": "KEY"},
        {"id": "future", "name": "Ray", "type": "telepathy", "strength": 3},
    ]
    agent = ScriptedAgent(authMethods=methods)
    async with asyncio.timeout(60), connect(agent) as remote:
        assert [method.method_id for method in remote.login_methods] == ["bare", "env", "future"]
        assert remote.login_methods[0].meta == META


async def test_line_14_an_agent_that_says_one_sentence_and_leaves_is_quoted(tmp_path: Path) -> None:
    """14. Agents that ignore the end of stdin and SIGTERM, that leave children, that print one sentence and exit 0."""
    async with asyncio.timeout(60):
        with pytest.raises(AgentExited) as raised:
            async with connect([sys.executable, "-c", "print('Please run `tool login` first.')"]):
                pytest.fail("it was welcomed")
    assert "Please run `tool login` first." in str(raised.value)


async def test_line_14_an_agent_that_ignores_every_goodbye_is_gone_with_its_children(tmp_path: Path) -> None:
    """14. Agents that ignore the end of stdin and SIGTERM, and leave children behind."""
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import json, os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "call = json.loads(sys.stdin.readline())\n"
        "info = {'name': f'{os.getpid()} {child.pid}', 'version': '1'}\n"
        "result = {'protocolVersion': 1, 'agentInfo': info}\n"
        "print(json.dumps({'jsonrpc': '2.0', 'id': call['id'], 'result': result}), flush=True)\n"
        "time.sleep(60)\n"
    )
    async with asyncio.timeout(60):
        async with connect([sys.executable, str(agent)]) as remote:
            assert remote.info is not None
            pids = remote.info.name.split()
            assert all(map(is_running, pids))
    assert not any(map(is_running, pids))


async def test_a_method_that_is_advertised_and_missing_is_only_an_error(tmp_path: Path) -> None:
    """15. Capabilities advertised and then answered with -32601."""
    abilities = ["close", "list", "delete", "resume", "fork"]
    agent = ScriptedAgent({"loadSession": True, "sessionCapabilities": {name: {} for name in abilities}})
    for name in (*abilities, "load"):
        agent.answers[f"session/{name}"] = lambda _: failing(-32601, None)
    async with asyncio.timeout(60), connect(agent) as remote:
        async with remote.new_session(tmp_path) as session:
            for call in (
                remote.load_session("x"),
                remote.resume_session("x"),
                remote.list_sessions(),
                remote.delete_session("x"),
                session.fork(),
            ):
                with pytest.raises(MethodNotFound):
                    await call
            assert (await session.prompt("go")).stop_reason == "end_turn"
        assert remote._request_handler.sessions == {}


async def test_unknown_updates_reach_the_caller_as_they_came(tmp_path: Path) -> None:
    async def weather(params: Json) -> Json:
        tool = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look"}
        agent.update({"sessionUpdate": "weather", "degrees": 21}, tool)
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=weather)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            events = [event async for event in turn]
    match events:
        case [
            UnknownUpdate(tag="weather", fields={"degrees": 21}),
            ToolCall(status="pending", is_unsettled=False),
            ToolCall(status="pending", is_unsettled=True),
        ]:
            pass
        case _:
            pytest.fail(f"other events came: {events}")


async def test_a_call_that_is_settled_after_its_turn_is_settled(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    opened = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Build", "status": "in_progress"}

    async def leave_open(params: Json) -> Json:
        agent.update(opened)
        return result(stopReason="end_turn")

    agent.answers["session/prompt"] = leave_open
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        turn = await session.prompt("go")
        assert [(call.status, call.is_unsettled) for call in turn.tool_calls] == [("in_progress", True)]
        later = session.events()
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"})
        event = await anext(later)
        assert isinstance(event, ToolCall)
        assert (event.status, event.is_unsettled, event.is_late) == ("completed", False, True)


TERMINAL = {"terminal_id": "call_1"}
CODEX: list[Json] = [  # codex-acp 2.6: everything at the end, as a difference
    {
        "sessionUpdate": "tool_call",
        "toolCallId": "call_1",
        "kind": "execute",
        "title": "make",
        "status": "in_progress",
        "content": [{"type": "terminal", "terminalId": "call_1"}],
        "_meta": {"terminal_info": {"cwd": "/w", **TERMINAL}},
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call_1",
        "status": "failed",
        "_meta": {
            "terminal_output_delta": {"data": "one\ntwo\n", **TERMINAL},
            "terminal_exit": {"exit_code": 3, "signal": None, **TERMINAL},
        },
    },
]
PI: list[Json] = [  # pi-acp 0.0.34: piece by piece, the last one with the end
    {**CODEX[0], "status": "pending"},
    *(
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call_1",
            "status": "in_progress",
            "_meta": {"terminal_output": {"data": data, **TERMINAL}},
        }
        for data in ("on", "e\n")
    ),
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call_1",
        "status": "failed",
        "_meta": {
            "terminal_output": {"data": "two\n", **TERMINAL},
            "terminal_exit": {"exit_code": 3, "signal": None, **TERMINAL},
        },
    },
]


@pytest.mark.fault("WLD-04")
@pytest.mark.parametrize("updates", [CODEX, PI], ids=["codex", "pi"])
async def test_the_output_of_commands_is_read_from_the_meta_of_tool_calls(tmp_path: Path, updates: list[Json]) -> None:
    session, turn = await played(ScriptedAgent(), tmp_path, *updates)

    (terminal,) = session.transcript.terminals
    assert (terminal.terminal_id, terminal.cwd, terminal.text) == ("call_1", "/w", "one\ntwo\n")
    assert terminal.exit is not None
    assert (terminal.exit.exit_code, terminal.exit.signal) == (3, None)
    (call,) = turn.tool_calls
    assert (call.status, call.terminals) == ("failed", ["call_1"])


async def test_output_comes_as_events_before_the_end_of_its_call(tmp_path: Path) -> None:
    async def play(params: Json) -> Json:
        agent.update(*CODEX)
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=play)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            seen = [event async for event in turn]
    assert [type(event).__name__ for event in seen] == [
        "Terminal",
        "ToolCall",
        "TerminalOutput",
        "Terminal",
        "ToolCall",
    ]
    assert all(event.raw for event in seen)


@pytest.mark.fault("WLD-04")
@pytest.mark.parametrize(
    "meta",
    [
        {"terminal_info": 1},
        {"terminal_info": "call_1", "terminal_exit": {"exit_code": 1}},
        {"terminal_output": {"terminal_id": 1, "data": "x"}},
        {"terminal_output_delta": {"terminal_id": "t", "data": ["x"]}},
        {"terminal_exit": {"terminal_id": "t", "exit_code": "three"}},
    ],
)
async def test_malformed_terminals_in_the_meta_of_a_tool_call_say_nothing(tmp_path: Path, meta: Json) -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run", "status": "completed", "_meta": meta}
    session, turn = await played(ScriptedAgent(), tmp_path, call)

    assert session.transcript.terminals == []
    assert [(call.status, call.meta) for call in turn.tool_calls] == [("completed", meta)]


def thread_status(kind: str) -> Json:
    return {"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": {"type": kind}}}}


def failure_of(severity: str, **more: Any) -> Json:
    """Make a failure as codex-acp 2.6 sends it."""
    failure = {"id": "1:error", "revision": 1, "category": "limit", "severity": severity, "title": "Slow down"}
    return {"jetbrains": {"air": {"version": 1, "sessionFailure": {**failure, "actions": ["retry"], **more}}}}


@pytest.mark.fault("WLD-08")
@pytest.mark.parametrize(
    ("updates", "answer", "message"),
    [
        ([thread_status("systemError"), text_chunk("quota exceeded")], {}, "its model failed: quota exceeded"),
        ([thread_status("systemError")], {}, "no reason given"),
        ([text_chunk("all is well")], {"_meta": failure_of("error")}, "its model failed: Slow down$"),
        ([], {"_meta": failure_of("error", details="in a minute")}, "its model failed: Slow down: in a minute$"),
        ([{"sessionUpdate": "session_info_update", "_meta": failure_of("error")}], {}, "its model failed: Slow down$"),
    ],
)
async def test_a_failure_of_the_model_that_ends_as_end_turn_is_raised(
    tmp_path: Path, updates: list[Json], answer: Json, message: str
) -> None:
    with pytest.raises(ModelFailed, match=message):
        await played(ScriptedAgent(), tmp_path, *updates, **answer)


@pytest.mark.parametrize(
    ("updates", "answer"),
    [
        ([thread_status("systemError"), thread_status("active"), text_chunk("again")], {}),
        ([thread_status("active"), thread_status("idle")], {}),
        ([thread_status("systemError")], {"stopReason": "cancelled"}),
        ([], {"_meta": failure_of("warning")}),
        ([{"sessionUpdate": "session_info_update", "_meta": {"codex": "broken"}}], {"_meta": {"jetbrains": [1]}}),
    ],
)
async def test_a_model_that_recovered_or_was_stopped_has_not_failed(
    tmp_path: Path, updates: list[Json], answer: Json
) -> None:
    _, turn = await played(ScriptedAgent(), tmp_path, *updates, **answer)

    assert turn.error is None


async def test_a_session_goes_on_after_its_model_failed(tmp_path: Path) -> None:
    async def fail_once(params: Json) -> Json:
        if len(agent.calls("session/prompt")) == 1:
            agent.update(thread_status("systemError"))
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=fail_once)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        first = session.prompt("go")
        with pytest.raises(ModelFailed):
            await first
        assert first.stop_reason == "end_turn"
        assert (await session.prompt("again")).error is None
