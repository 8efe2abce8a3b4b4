"""An editor of version 2 before an agent of version 1: prompts are answered at once, and what is missing is said."""

from __future__ import annotations

import asyncio

import pytest

from duologue.agent.settings import Settings, choice
from tests.agent.v2.wire_client import WireClient
from tests.client.scripted_agent import ALL_OPTIONS, Json, ScriptedAgent, error, result, text_chunk
from tests.relay.bridge.spans import agent_of_version, initialize, opened, wire_across

EVERYTHING: Json = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}, "close": {}}}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


class Held:
    """Prompts that end when a test says so."""

    def __init__(self, agent: ScriptedAgent) -> None:
        self.ends: asyncio.Queue[Json] = asyncio.Queue()
        agent.answers["session/prompt"] = self._prompt

    async def _prompt(self, params: Json) -> Json:
        return await self.ends.get()


async def test_a_prompt_is_answered_at_once_and_its_end_is_an_idle_state() -> None:
    agent = ScriptedAgent()
    held = Held(agent)
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        message_id = (await client.prompt(session, "hi"))["result"]["messageId"]
        await agent.until("session/prompt")
        agent.update(text_chunk("hel"), text_chunk("lo"))
        held.ends.put_nowait(
            result(stopReason="max_tokens", usage={"totalTokens": 3, "inputTokens": 1, "outputTokens": 2})
        )
        await client.until(client.ends)

    (echo,) = client.of("user_message")
    assert (echo["messageId"], echo["content"]) == (message_id, [text("hi")])
    assert client.states == ["running", "idle max_tokens"]
    assert client.text == "hello"
    assert len({chunk["messageId"] for chunk in client.of("agent_message_chunk")}) == 1
    assert client.ends()[0]["usage"]["totalTokens"] == 3


async def test_an_error_of_the_prompt_is_an_idle_state_with_that_error() -> None:
    agent = ScriptedAgent()

    async def prompt(params: Json) -> Json:
        return error(-32042, "the model is ill", data={"since": "noon"})

    agent.answers["session/prompt"] = prompt
    async with wire_across(agent, 2, 1) as client:
        end = await client.turn(await opened(client, 2), "hi")

    assert end["stopReason"] == "error"
    assert end["error"] == {"code": -32042, "message": "the model is ill", "data": {"since": "noon"}}


async def test_files_and_terminals_are_never_advertised_to_the_agent() -> None:
    agent = ScriptedAgent()
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2, elicitation={"form": {}})
        refused = await agent.ask("fs/read_text_file", {"sessionId": session, "path": "/etc/hosts"})
        capabilities = agent.calls("initialize")[0]["clientCapabilities"]

    assert capabilities.get("fs", {}) in ({}, {"readTextFile": False, "writeTextFile": False})
    assert not capabilities.get("terminal")
    assert capabilities["elicitation"] == {"form": {}}
    assert agent.calls("initialize")[0]["clientInfo"]["name"] == "tested"
    assert refused["error"]["code"] == -32601


async def test_prompts_reach_the_agent_one_after_the_other() -> None:
    agent = ScriptedAgent()
    held = Held(agent)
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        await client.prompt(session, "one")
        await agent.until("session/prompt")
        second = client.prompt(session, "two")
        await client.ask("session/list")  # whatever was to be sent is sent by now
        was_early = len(agent.calls("session/prompt"))
        held.ends.put_nowait(result(stopReason="end_turn"))
        answer = await second
        await agent.until("session/prompt", 2)
        held.ends.put_nowait(result(stopReason="refusal"))
        await client.until(lambda: len(client.ends()) == 2)

    assert was_early == 1
    assert "messageId" in answer["result"]
    assert client.states == ["running", "idle end_turn", "running", "idle refusal"]


async def test_a_cancellation_ends_what_runs_and_refuses_what_waits() -> None:
    agent = ScriptedAgent()
    held = Held(agent)
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        await client.prompt(session, "one")
        await agent.until("session/prompt")
        second = client.prompt(session, "two")
        await client.ask("session/list")
        client.notify("session/cancel", sessionId=session)
        refused = await second
        await agent.until("session/cancel")
        held.ends.put_nowait(error(-32603, "killed by the cancellation"))
        await client.until(client.ends)

    assert refused["error"]["code"] == -32800
    assert client.states == ["running", "idle cancelled"]
    assert len(agent.calls("session/prompt")) == 1


async def test_a_cancellation_answers_the_open_question_of_the_agent() -> None:
    agent = ScriptedAgent()
    held = Held(agent)
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        await client.prompt(session, "one")
        await agent.until("session/prompt")
        answer = agent.ask_permission({"toolCallId": "c", "title": "Dig"})
        question = await client.until_asked("session/request_permission")
        client.notify("session/cancel", sessionId=session)
        outcome = (await answer)["result"]["outcome"]
        late = await agent.ask_permission({"toolCallId": "d", "title": "Dig deeper"})
        held.ends.put_nowait(result(stopReason="cancelled"))
        await client.until(client.ends)

    assert outcome == {"outcome": "cancelled"}
    assert late["result"]["outcome"] == {"outcome": "cancelled"}
    assert (question["params"]["title"], len(client.asked)) == ("Dig", 1)
    assert [call["params"] for call in client.validator.received if call.get("method") == "$/cancel_request"] == [
        {"requestId": question["id"]}
    ]
    assert client.states == ["running", "requires_action", "running", "idle cancelled"]


async def test_a_question_without_a_title_has_that_of_its_tool_call() -> None:
    agent = ScriptedAgent()
    held = Held(agent)
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        await client.prompt(session, "one")
        await agent.until("session/prompt")
        agent.update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Dig"})
        answer = agent.ask_permission({"toolCallId": "c"}, ALL_OPTIONS[:1])
        question = await client.until_asked("session/request_permission")
        outcome = {"outcome": {"outcome": "selected", "optionId": "o0"}}
        client.write(id=question["id"], result=outcome)
        held.ends.put_nowait(result(stopReason="end_turn"))

        assert (await answer)["result"] == outcome
        await client.until(client.ends)
    assert question["params"]["title"] == "Dig"


async def test_updates_after_a_permission_request_do_not_change_the_request() -> None:
    agent = ScriptedAgent()
    held = Held(agent)
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        await client.prompt(session, "one")
        await agent.until("session/prompt")
        command = {"kind": "execute", "rawInput": {"command": "rm -rf ."}}
        agent.update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Clean up", **command})
        answer = agent.ask_permission({"toolCallId": "c"}, ALL_OPTIONS[:1])
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "kind": "read", "rawInput": {}})
        question = await client.until_asked("session/request_permission")
        outcome = {"outcome": {"outcome": "selected", "optionId": "o0"}}
        client.write(id=question["id"], result=outcome)
        held.ends.put_nowait(result(stopReason="end_turn"))

        assert (await answer)["result"] == outcome
        await client.until(client.ends)
    call = question["params"]["subject"]["toolCall"]
    assert {name: call[name] for name in command} == command


async def test_an_agent_that_repeats_the_prompt_does_not_have_it_shown_twice() -> None:
    agent = ScriptedAgent()
    held = Held(agent)
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        await client.prompt(session, "one")
        await agent.until("session/prompt")
        agent.update({"sessionUpdate": "user_message_chunk", "content": text("one")})
        agent.update({"sessionUpdate": "user_message_chunk", "content": text("and something else")})
        held.ends.put_nowait(result(stopReason="end_turn"))
        await client.until(client.ends)

    assert [chunk["content"]["text"] for chunk in client.of("user_message_chunk")] == ["and something else"]


async def test_a_method_that_the_agent_lacks_is_answered_by_the_bridge(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent()
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        agent.update({"sessionUpdate": "session_info_update", "title": "Digging"})
        await client.until(lambda: client.updates)
        listed = await client.ask("session/list")
        elsewhere = await client.ask("session/list", cwd="/")
        resumed = await client.refused("session/resume", sessionId="old", cwd="/tmp")
        await client.ask("session/close", sessionId=session)
        agent.update(text_chunk("too late"))
        closed = await client.ask("session/list")
        unknown = await client.refused("session/prompt", sessionId=session, prompt=[text("hi")])
        image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        other = str((await client.ask("session/new", cwd="/tmp"))["sessionId"])
        unread = await client.refused("session/prompt", sessionId=other, prompt=[image])

    (known,) = listed["sessions"]
    assert (known["sessionId"], known["cwd"], known["title"]) == (session, "/tmp", "Digging")
    assert elsewhere == closed == {"sessions": []}
    assert (resumed["code"], resumed["message"]) == (-32601, "this agent can neither load nor resume sessions")
    assert (unknown["code"], unread["code"]) == (-32002, -32602)
    assert client.text == ""
    assert {message["method"] for message in agent.received} == {"initialize", "session/new", "session/cancel"}
    assert caplog.text.count("does not list its sessions") == 1
    assert caplog.text.count("closes no sessions") == 1


async def test_an_agent_that_only_loads_is_resumed_in_silence() -> None:
    agent = ScriptedAgent({"loadSession": True})

    async def load(params: Json) -> Json:
        agent.update(text_chunk("long ago"), {"sessionUpdate": "session_info_update", "title": "T"}, session_id="old")
        return result()

    agent.answers["session/load"] = load
    async with wire_across(agent, 2, 1) as client:
        await initialize(client, 2)
        await client.ask("session/resume", sessionId="old", cwd="/tmp")
        silently = client.text, len(client.of("session_info_update"))
        await client.ask("session/resume", sessionId="old", cwd="/tmp", replayFrom={"type": "start"})

    assert silently == ("", 1)
    assert client.text == "long ago"
    assert len(agent.calls("session/load")) == 2


async def test_an_agent_that_only_resumes_cannot_tell_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent({"sessionCapabilities": {"resume": {}}})
    async with wire_across(agent, 2, 1) as client:
        await initialize(client, 2)
        await client.ask("session/resume", sessionId="old", cwd="/tmp", replayFrom={"type": "start"})
        await client.until(lambda: client.of("notice"))

    assert "does not replay earlier sessions" in caplog.text
    assert len(agent.calls("session/resume")) == 1


async def test_a_session_that_cannot_be_opened_leaves_nothing_behind() -> None:
    agent = ScriptedAgent(EVERYTHING)

    async def refuse(params: Json) -> Json:
        return error(-32002, "no such session")

    agent.answers["session/load"] = refuse
    async with wire_across(agent, 2, 1) as client:
        await initialize(client, 2)
        refused = await client.refused("session/resume", sessionId="x", cwd="/tmp", replayFrom={"type": "start"})
        unknown = await client.refused("session/prompt", sessionId="x", prompt=[text("hi")])

    assert (refused["code"], unknown["code"]) == (-32002, -32002)


class SampleSettings(Settings):
    mode = choice("ask", "code", category="mode")
    flavour = choice("sweet", "sour")


async def test_modes_are_a_setting_and_setting_it_sets_the_mode() -> None:
    agent = ScriptedAgent()

    async def new(params: Json) -> Json:
        modes = [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]
        models = [{"modelId": "big", "name": "Big"}, {"modelId": "small", "name": "Small"}]
        return result(
            sessionId="s1",
            modes={"currentModeId": "ask", "availableModes": modes},
            models={"currentModelId": "big", "availableModels": models},
        )

    agent.answers["session/new"] = new
    async with wire_across(agent, 2, 1) as client:
        await initialize(client, 2)
        options = (await client.ask("session/new", cwd="/tmp"))["configOptions"]
        set_mode = await _set(client, "mode", "code")
        set_model = await _set(client, "model", "small")
        agent.update({"sessionUpdate": "current_mode_update", "currentModeId": "ask"})
        await client.until(lambda: client.of("config_option_update"))

    values = {option["category"]: option["currentValue"] for option in options}
    assert values == {"mode": "ask", "model": "big"}
    assert [option["currentValue"] for option in set_mode] == ["code", "big"]
    assert [option["currentValue"] for option in set_model] == ["code", "small"]
    assert agent.calls("session/set_mode") == [{"sessionId": "s1", "modeId": "code"}]
    assert agent.calls("session/set_model") == [{"sessionId": "s1", "modelId": "small"}]
    (update,) = client.of("config_option_update")
    assert [option["currentValue"] for option in update["configOptions"]] == ["ask", "small"]


async def test_settings_that_an_agent_has_in_both_forms_are_shown_once() -> None:
    agent = agent_of_version(1, settings=SampleSettings)
    async with wire_across(agent, 2, 1) as client:
        await initialize(client, 2)
        new = await client.ask("session/new", cwd="/tmp")
        changed = await _set(client, "mode", "code", new["sessionId"])
        refused = await client.refused(
            "session/set_config_option", sessionId=new["sessionId"], configId="flavour", type="id", value="bitter"
        )

    assert [option["configId"] for option in new["configOptions"]] == ["mode", "flavour"]
    assert [option["currentValue"] for option in changed] == ["code", "sweet"]
    assert refused["code"] == -32602


async def _set(client: WireClient, name: str, value: str, session: str = "s1") -> list[Json]:
    answer = await client.ask("session/set_config_option", sessionId=session, configId=name, type="id", value=value)
    options: list[Json] = answer["configOptions"]
    return options


async def test_a_repeated_tool_call_is_one_and_null_changes_nothing() -> None:
    agent = ScriptedAgent()
    held = Held(agent)
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        await client.prompt(session, "one")
        await agent.until("session/prompt")
        agent.update(
            {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Dig", "kind": "edit", "status": "pending"},
            {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": None, "status": "completed"},
        )
        held.ends.put_nowait(result(stopReason="end_turn"))
        await client.until(client.ends)

    first, second = client.of("tool_call_update")
    assert (first["title"], first["kind"], first["status"]) == ("Dig", "edit", "pending")
    assert "title" not in second
    assert second["status"] == "completed"


async def test_logging_out_of_an_agent_that_cannot_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent(authMethods=[{"id": "key", "name": "Key"}])
    async with wire_across(agent, 2, 1) as client:
        welcome = await initialize(client, 2)
        await client.ask("auth/login", methodId="key")
        refused = await client.refused("auth/logout")

    assert [method["methodId"] for method in welcome["authMethods"]] == ["key"]
    assert agent.calls("authenticate") == [{"methodId": "key"}]
    assert refused["code"] == -32601
    assert "cannot log out" in caplog.text


async def test_a_client_may_introduce_itself_again() -> None:
    agent = ScriptedAgent()
    async with wire_across(agent, 2, 1) as client:
        await initialize(client, 2)
        session = await opened(client, 2, elicitation={"url": {}})

    assert session == "s1"
    assert [bool(call["clientCapabilities"].get("elicitation")) for call in agent.calls("initialize")] == [False, True]


async def test_a_prompt_that_is_cancelled_in_the_same_breath_does_not_run() -> None:
    agent = ScriptedAgent()
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        prompt = client.prompt(session, "one")
        client.notify("session/cancel", sessionId=session)
        answer = await prompt

    assert answer["error"]["code"] == -32800
    assert client.states == []
    assert agent.calls("session/prompt") == []


async def test_a_queued_prompt_that_is_cancelled_is_never_sent() -> None:
    agent = ScriptedAgent()
    held = Held(agent)
    async with wire_across(agent, 2, 1) as client:
        session = await opened(client, 2)
        await client.prompt(session, "one")
        await agent.until("session/prompt")
        second = client.start_as("two", "session/prompt", sessionId=session, prompt=[text("two")])
        await client.ask("session/list")
        client.notify("$/cancel_request", requestId="two")
        withdrawn = await second
        held.ends.put_nowait(result(stopReason="end_turn"))
        await client.until(client.ends)

    assert withdrawn["error"]["code"] == -32800
    assert len(agent.calls("session/prompt")) == 1
    assert client.states == ["running", "idle end_turn"]
