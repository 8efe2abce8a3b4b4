"""An editor of version 1 before an agent of version 2: what the agent says in new words is said in old ones."""

from __future__ import annotations

from base64 import b64encode

import pytest

from duologue.agent.settings import Settings, choice
from tests.agent.v2.wire_client import WireClient, chosen
from tests.client.scripted_agent import Json, error, result
from tests.relay.bridge.spans import NewerAgent, agent_of_version, initialize, opened, wire_across


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def state(name: str, **rest: object) -> Json:
    return {"sessionUpdate": "state_update", "state": name, **rest}


async def prompted(client: WireClient, session: str, words: str = "hi") -> Json:
    return await client.start("session/prompt", sessionId=session, prompt=[text(words)])


async def test_an_idle_state_ends_the_prompt() -> None:
    agent = NewerAgent()
    agent.sends({"sessionUpdate": "agent_message_chunk", "messageId": "a", "content": text("hello")})
    async with wire_across(agent, 1, 2) as client:
        answer = await prompted(client, await opened(client, 1))

        assert answer["result"] == {"stopReason": "end_turn"}
        assert [update["content"]["text"] for update in client.updates] == ["hello"]
        assert agent.calls("initialize")[0]["protocolVersion"] == 2


async def test_work_that_failed_is_an_error_of_the_prompt() -> None:
    agent = NewerAgent()
    agent.sends(stopReason="error", error={"code": -32042, "message": "the model is ill", "data": {"since": "noon"}})
    async with wire_across(agent, 1, 2) as client:
        answer = await prompted(client, await opened(client, 1))

        assert answer["error"] == {"code": -32042, "message": "the model is ill", "data": {"since": "noon"}}


async def test_a_stop_reason_that_version_1_has_no_word_for_is_the_end_of_the_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = NewerAgent()
    agent.sends(stopReason="_bored")
    async with wire_across(agent, 1, 2) as client:
        answer = await prompted(client, await opened(client, 1))

    assert answer["result"]["stopReason"] == "end_turn"
    assert "a reason that this client does not know" in caplog.text


async def test_whole_messages_become_chunks_and_what_is_replaced_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = NewerAgent()
    agent.sends(
        {"sessionUpdate": "user_message", "messageId": "m1", "content": [text("hi")]},
        {"sessionUpdate": "agent_message", "messageId": "a", "content": [text("one")]},
        {"sessionUpdate": "agent_message", "messageId": "a", "content": [text("one two")]},
        {"sessionUpdate": "agent_message", "messageId": "a", "content": [text("three")]},
        {"sessionUpdate": "agent_message", "messageId": "a", "content": [text("four")]},
    )
    async with wire_across(agent, 1, 2) as client:
        await prompted(client, await opened(client, 1, session={"notices": {}}))
        chunks = client.of("agent_message_chunk")
        notices = client.of("notice")

    assert [chunk["content"]["text"] for chunk in chunks] == ["one", " two", "three", "four"]
    assert len({chunk["messageId"] for chunk in chunks}) == 3
    assert [notice["title"] for notice in notices] == [
        "The agent changed a message: it is shown again as another message."
    ]
    assert caplog.text.count("it is shown again as another message") == 1
    assert client.of("user_message_chunk") == []


async def test_a_command_that_the_agent_shows_is_text_in_its_tool_call_and_ends_with_it() -> None:
    agent = NewerAgent()
    output = b64encode(b"```\n\x1b[31mred\x1b[0m\n").decode()
    agent.sends(
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Build", "status": "in_progress"},
        {
            "sessionUpdate": "tool_call_content_chunk",
            "toolCallId": "c",
            "content": {"type": "terminal", "terminalId": "t"},
        },
        {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "make", "cwd": "/tmp"},
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": output},
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": b64encode(b"x" * 20000).decode()},
        {"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": output}},
        {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 2}},
    )
    async with wire_across(agent, 1, 2) as client:
        await prompted(client, await opened(client, 1))
        calls = [*client.of("tool_call"), *client.of("tool_call_update")]

    shown = [call["content"][0]["content"]["text"] for call in calls if call.get("content")]
    assert shown[-1] == "````\n$ make\n```\nred\n[exit code 2]\n````"
    assert all(len(each) < 17000 for each in shown)
    assert len(shown) <= 4  # once it is embedded, when it ends, and at most a look or two in between


async def test_output_of_a_command_after_its_turn_is_polled() -> None:
    agent = NewerAgent()
    agent.sends(
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c",
            "title": "Serve",
            "content": [{"type": "terminal", "terminalId": "t"}],
        },
        {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "serve"},
    )
    async with wire_across(agent, 1, 2) as client:
        await prompted(client, await opened(client, 1))
        for _ in range(100):
            data = b64encode(b"line\n").decode()
            agent.update({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data})
        await client.until(lambda: "line\nline" in str(client.of("tool_call_update")).replace("\\n", "\n"))

        assert len(client.of("tool_call_update")) < 10


async def test_a_cleared_field_returns_to_its_initial_value() -> None:
    agent = NewerAgent()
    agent.sends(
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c",
            "title": "T",
            "kind": "edit",
            "content": [{"type": "content", "content": text("x")}],
        },
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c",
            "title": None,
            "kind": None,
            "content": None,
            "locations": None,
        },
    )
    async with wire_across(agent, 1, 2) as client:
        await prompted(client, await opened(client, 1))
        (cleared,) = client.of("tool_call_update")

    assert (cleared["title"], cleared["kind"], cleared["content"], cleared["locations"]) == ("", "other", [], [])


@pytest.mark.parametrize("asks_for_it", [False, True])
async def test_notices_and_compaction_are_for_editors_that_asked_for_them(
    asks_for_it: bool, caplog: pytest.LogCaptureFixture
) -> None:
    agent = NewerAgent()
    agent.sends(
        {"sessionUpdate": "notice", "severity": "info", "title": "Look"},
        {"sessionUpdate": "notice", "severity": "info", "title": "Look again"},
        {"sessionUpdate": "compaction_update", "compactionId": "k", "status": "in_progress"},
    )
    capabilities: Json = {"session": {"notices": {}, "compaction": {}}} if asks_for_it else {}
    async with wire_across(agent, 1, 2) as client:
        await prompted(client, await opened(client, 1, **capabilities))
        kinds = [update["sessionUpdate"] for update in client.updates]

    assert kinds == (["notice", "notice", "compaction_update"] if asks_for_it else [])
    assert caplog.text.count("does not support notices") == (0 if asks_for_it else 1)


async def test_a_plan_that_is_gone_is_empty_for_an_editor_that_knows_one_plan() -> None:
    agent = NewerAgent()
    steps = [{"content": "dig", "priority": "high", "status": "pending"}]
    agent.sends(
        {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": steps}},
        {"sessionUpdate": "plan_removed", "planId": "p"},
    )
    async with wire_across(agent, 1, 2) as client:
        await prompted(client, await opened(client, 1))

        assert [plan["entries"] for plan in client.of("plan")] == [steps, []]


class SampleSettings(Settings):
    mode = choice("ask", "code", category="mode")


async def test_settings_of_category_mode_are_modes_and_setting_a_mode_sets_them() -> None:
    agent = agent_of_version(2, settings=SampleSettings)
    async with wire_across(agent, 1, 2) as client:
        await initialize(client, 1)
        new = await client.ask("session/new", cwd="/tmp", mcpServers=[])
        modes = new["modes"]
        await client.ask("session/set_mode", sessionId=new["sessionId"], modeId="code")
        (update,) = client.of("config_option_update")
        (switched,) = client.of("current_mode_update")
        await client.ask("session/set_config_option", sessionId=new["sessionId"], configId="mode", value="ask")
        await client.until(lambda: len(client.of("current_mode_update")) == 2)
        refused = await client.refused("session/set_mode", sessionId=new["sessionId"], modeId="sleep")

    assert (modes["currentModeId"], [mode["id"] for mode in modes["availableModes"]]) == ("ask", ["ask", "code"])
    assert new["configOptions"][0]["id"] == "mode"
    assert update["configOptions"][0]["currentValue"] == "code"
    assert switched["currentModeId"] == "code"
    assert client.of("current_mode_update")[-1]["currentModeId"] == "ask"
    assert refused["code"] == -32602


async def test_commands_are_sent_after_the_response_that_opens_the_session() -> None:
    agent = NewerAgent()

    async def new(params: Json) -> Json:
        command = {"type": "command", "name": "go", "description": "Go", "input": {"type": "text", "hint": "where"}}
        return result(sessionId="s1", availableCommands=[command])

    agent.answers["session/new"] = new
    async with wire_across(agent, 1, 2) as client:
        await opened(client, 1)
        await client.until(lambda: client.of("available_commands_update"))
        (update,) = client.updates

    assert update["availableCommands"] == [{"name": "go", "description": "Go", "input": {"hint": "where"}}]


async def test_loading_a_session_is_resuming_it_with_all_that_was_said() -> None:
    agent = NewerAgent()

    async def resume(params: Json) -> Json:
        if params.get("replayFrom"):
            agent.update(
                {"sessionUpdate": "user_message", "messageId": "u", "content": [text("hi")]},
                {"sessionUpdate": "agent_message", "messageId": "a", "content": [text("hello")]},
                state("idle"),
            )
        return result()

    agent.answers["session/resume"] = resume
    async with wire_across(agent, 1, 2) as client:
        welcome = await initialize(client, 1)
        await client.ask("session/load", sessionId="s1", cwd="/tmp", mcpServers=[])
        loaded = [(update["sessionUpdate"], update["content"]["text"]) for update in client.updates]
        await client.ask("session/resume", sessionId="s1", cwd="/tmp", mcpServers=[])

        assert welcome["agentCapabilities"]["loadSession"] is True
        assert loaded == [("user_message_chunk", "hi"), ("agent_message_chunk", "hello")]
        assert [call.get("replayFrom") for call in agent.calls("session/resume")] == [{"type": "start"}, None]
        assert len(client.updates) == 2


@pytest.mark.parametrize(
    ("subject", "tool"),
    [
        ({"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "Delete all"}}, ("c", "Delete all")),
        ({"type": "command", "command": "rm -r .", "cwd": "/tmp"}, ("permission-a1", "Really?")),
        (None, ("permission-a1", "Really?")),
    ],
)
async def test_a_question_keeps_its_words_whatever_it_is_about(subject: Json | None, tool: tuple[str, str]) -> None:
    agent = NewerAgent()

    async def prompt(params: Json) -> Json:
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        question = {"sessionId": "s1", "title": "Really?", "description": "It cannot be undone.", "options": options}
        answer = await agent.ask("session/request_permission", {**question, "subject": subject})
        return error(-32001, answer["result"]["outcome"]["optionId"])

    agent.answers["session/prompt"] = prompt
    async with wire_across(agent, 1, 2) as client:
        client.answers["session/request_permission"] = chosen("allow_once")
        answer = await prompted(client, await opened(client, 1))
        (asked,) = client.asked

    call = asked["params"]["toolCall"]
    assert (call["toolCallId"], call["title"]) == tool
    assert "It cannot be undone." in call["content"][0]["content"]["text"]
    assert answer["error"]["message"] == "yes"


async def test_a_prompt_whose_request_is_cancelled_still_ends() -> None:
    agent = NewerAgent()

    async with wire_across(agent, 1, 2) as client:
        session = await opened(client, 1)
        waiting = client.start_as("p", "session/prompt", sessionId=session, prompt=[text("hi")])
        await agent.until("session/prompt")
        agent.update(state("running"))
        client.notify("$/cancel_request", requestId="p")
        await agent.until("session/cancel")
        agent.update(state("idle", stopReason="cancelled"))

        assert (await waiting)["result"] == {"stopReason": "cancelled"}


async def test_a_prompt_that_was_cancelled_before_it_was_inserted_ends_as_cancelled() -> None:
    agent = NewerAgent()

    async def prompt(params: Json) -> Json:
        await agent.until("session/cancel")
        return error(-32800, "not inserted")

    agent.answers["session/prompt"] = prompt
    async with wire_across(agent, 1, 2) as client:
        session = await opened(client, 1)
        waiting = client.start("session/prompt", sessionId=session, prompt=[text("hi")])
        client.notify("session/cancel", sessionId=session)

        assert (await waiting)["result"] == {"stopReason": "cancelled"}


async def test_a_question_that_the_agent_takes_back_is_taken_back_from_the_editor() -> None:
    agent = NewerAgent()
    async with wire_across(agent, 1, 2) as client:
        session = await opened(client, 1)
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        question = {"sessionId": session, "title": "Really?", "options": options}
        answer = agent.ask("session/request_permission", question, "q")
        await client.until(lambda: client.asked)
        agent.send({"method": "$/cancel_request", "params": {"requestId": "q"}})
        ended = await answer
        cancels = [message for message in client.validator.received if message.get("method") == "$/cancel_request"]

        assert ended["error"]["code"] == -32800
        assert [cancel["params"]["requestId"] for cancel in cancels] == [client.asked[0]["id"]]
        client.write(id=client.asked[0]["id"], error={"code": -32800, "message": "ok"})
