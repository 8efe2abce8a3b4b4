"""Scripts of a model: the choice of the turn, expectations, files, and the errors that a test and a client see."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from duologue.testing import (
    ModelMessage,
    ModelRequest,
    ModelScript,
    ModelScriptFailed,
    ModelServer,
    ModelToolResult,
    ModelTurn,
    RequestPattern,
    read_model_script,
    tool_call,
)
from tests.testing.models.clients import CHAT_TOOLS, CLIENTS, MESSAGES_TOOLS, anthropic_client, openai_client


async def ask(server: ModelServer, *texts: str, **options: Any) -> str:
    """Send messages of a user, with the last one's answer as the result."""
    messages: Any = [{"role": "user", "content": text} for text in texts]
    async with openai_client(server) as client:
        create: Any = client.chat.completions.create
        whole = await create(model="m", messages=messages, **options)
    return whole.choices[0].message.content or ""


async def test_turns_answer_in_order() -> None:
    async with asyncio.timeout(60), ModelServer(["one", "two"]) as server:
        assert [await ask(server, "x"), await ask(server, "x")] == ["one", "two"]
        server.check()


async def test_a_turn_with_a_condition_answers_only_what_matches_it() -> None:
    script = [
        ModelTurn("first"),
        ModelTurn("weather", when=RequestPattern(prompt="rain")),
        ModelTurn("always", when=RequestPattern(prompt="again"), times=0),
        ModelTurn("second"),
    ]
    async with asyncio.timeout(60), ModelServer(script) as server:
        answers = [await ask(server, text) for text in ("again", "x", "again", "will it rain?", "y", "again")]
        assert answers == ["always", "first", "always", "weather", "second", "always"]
        server.check()


async def test_a_function_makes_the_turn_of_its_request() -> None:
    async with asyncio.timeout(60), ModelServer([lambda request: request.prompt.upper()]) as server:
        assert await ask(server, "hello") == "HELLO"


async def test_turns_can_be_added_while_the_server_runs() -> None:
    async with asyncio.timeout(60), ModelServer() as server:
        server.add("one", ModelTurn("two"))
        assert [await ask(server, "x"), await ask(server, "x")] == ["one", "two"]


async def test_a_request_without_a_turn_fails_the_client_and_the_test() -> None:
    with pytest.raises(ModelScriptFailed, match=r"no turn for request 2 .*'surprise'.* none is left"):
        async with asyncio.timeout(60), ModelServer(["one"]) as server:
            await ask(server, "x")
            with pytest.raises(openai.BadRequestError, match="no turn for request 2"):
                await ask(server, "surprise")


async def test_the_error_of_a_client_has_the_failure_as_a_note() -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        async with asyncio.timeout(60), ModelServer() as server:
            await ask(server, "x")

    assert any("no turn for request 1" in note for note in caught.value.__notes__)


async def test_a_turn_that_was_not_used_fails_the_check() -> None:
    async with asyncio.timeout(60), ModelServer(["one", "two", ModelTurn("free", times=0)]) as server:
        await ask(server, "x")
        with pytest.raises(ModelScriptFailed, match="sent 1 requests; turns not used: 2"):
            server.check()


REQUEST = ModelRequest(
    api="chat",
    model="m",
    system="You are careful.",
    messages=[
        ModelMessage("user", "read a.txt"),
        ModelMessage("assistant", "", [tool_call("read", path="a.txt")]),
        ModelMessage("user", "", [], [ModelToolResult("1", "tea and milk")]),
    ],
    tools=["read", "write"],
    is_streamed=False,
    body={"temperature": 0.5, "tool_choice": "auto"},
)


@pytest.mark.parametrize(
    ("pattern", "difference"),
    [
        (RequestPattern(prompt="read"), None),
        (RequestPattern(prompt=["read", "a.txt"]), None),
        (
            RequestPattern(prompt="write"),
            "the last message of the user is 'read a.txt', which does not contain 'write'",
        ),
        (RequestPattern(tool_result="milk"), None),
        (RequestPattern(tool_result="coffee"), "the result of the last tool calls is 'tea and milk'"),
        (RequestPattern(system="careful"), None),
        (RequestPattern(system="bold"), "the system prompt is 'You are careful.'"),
        (RequestPattern(contains=["careful", "milk"]), None),
        (RequestPattern(contains="coffee"), "does not contain 'coffee'"),
        (RequestPattern(absent="coffee"), None),
        (RequestPattern(absent="milk"), "contains 'milk', which must be absent"),
        (RequestPattern(history=["read a.txt", "tea"]), None),
        (RequestPattern(history=["tea", "read a.txt"]), "no message contains 'read a.txt' at its position"),
        (RequestPattern(messages=3), None),
        (RequestPattern(messages=2), "has 3 messages, not 2"),
        (RequestPattern(tools=["write"]), None),
        (RequestPattern(tools=["delete"]), "offered are read, write; `delete` is missing"),
        (RequestPattern(tools_absent=["delete"]), None),
        (RequestPattern(tools_absent=["write"]), "`write` must be absent"),
        (RequestPattern(model="m", api="chat"), None),
        (RequestPattern(model="n"), "the model is 'm', not 'n'"),
        (RequestPattern(api="messages"), "the API is chat, not messages"),
        (RequestPattern(body={"temperature": 0.5, "tool_choice": "*"}), None),
        (RequestPattern(body={"temperature": 1}), "the body.temperature is 0.5, not 1"),
    ],
)
def test_a_pattern_describes_a_request(pattern: RequestPattern, difference: str | None) -> None:
    from duologue.testing.models.request import mismatch

    found = mismatch(pattern, REQUEST)

    assert (found is None) if difference is None else (found is not None and difference in found)


async def test_an_expectation_that_fails_reaches_the_client_and_the_test() -> None:
    script = [ModelTurn("one", expect=RequestPattern(system="careful"))]
    with pytest.raises(ModelScriptFailed, match="turn 1 expects another request: the system prompt is ''"):
        async with asyncio.timeout(60), ModelServer(script) as server:
            with pytest.raises(openai.BadRequestError, match="turn 1 expects"):
                await ask(server, "x")


async def test_a_function_that_fails_is_a_failure_of_the_test() -> None:
    def fail(request: ModelRequest) -> ModelTurn:
        raise AssertionError("wrong prompt")

    async with asyncio.timeout(60), ModelServer([fail], raise_failures=False) as server:
        with pytest.raises(openai.BadRequestError, match="wrong prompt"):
            await ask(server, "x")
        assert server.failures == ["the function of turn 1 failed: AssertionError: wrong prompt"]


async def test_a_scripted_call_of_a_tool_that_is_not_offered_is_a_failure() -> None:
    script = [ModelTurn(tools=[tool_call("wirte", path="a")])]
    async with asyncio.timeout(60), ModelServer(script, raise_failures=False) as server:
        with pytest.raises(
            openai.BadRequestError, match=r"`wirte`, which the request does not offer \(it offers read\)"
        ):
            await CLIENTS["chat"](server)


BROKEN_CHATS: list[tuple[list[Any], str]] = [
    (
        [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
            },
            {"role": "user", "content": "go on"},
        ],
        "tool calls without a result immediately after them: `a` (read)",
    ),
    (
        [{"role": "user", "content": "go"}, {"role": "tool", "tool_call_id": "b", "content": "text"}],
        "the tool result `b` answers no tool call",
    ),
    ([], "at least one message is required"),
]


@pytest.mark.parametrize(("messages", "reason"), BROKEN_CHATS)
async def test_a_conversation_that_a_real_provider_rejects_is_rejected(messages: list[Any], reason: str) -> None:
    async with (
        asyncio.timeout(60),
        ModelServer(["text"], raise_failures=False) as server,
        openai_client(server) as client,
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="m", messages=messages)
        assert reason in str(caught.value)
        assert reason in server.failures[0]


async def test_a_lenient_script_accepts_such_a_conversation() -> None:
    script = ModelScript([ModelTurn("text")], is_lenient=True)
    async with asyncio.timeout(60), ModelServer(script) as server, openai_client(server) as client:
        whole = await client.chat.completions.create(model="m", messages=BROKEN_CHATS[0][0])

    assert whole.choices[0].message.content == "text"


async def test_a_loop_of_tools_runs_to_its_end_with_anthropic() -> None:
    script = [
        ModelTurn(tools=[tool_call("read", path="a.txt"), tool_call("read", path="b.txt")]),
        ModelTurn("tea and milk", expect=RequestPattern(tool_result=["tea", "milk"], history=["go", "a.txt", "tea"])),
    ]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    async with asyncio.timeout(60), ModelServer(script) as server, anthropic_client(server) as client:
        first = await client.messages.create(model="m", max_tokens=9, messages=messages, tools=MESSAGES_TOOLS)
        calls = [block for block in first.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": text == "milk"}
            for call, text in zip(calls, ("tea", "milk"), strict=True)
        ]
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        second = await client.messages.create(model="m", max_tokens=9, messages=messages, tools=MESSAGES_TOOLS)
        server.check()

        assert [result.is_error for result in server.requests[1].tool_results] == [False, True]
        assert second.stop_reason == "end_turn"


async def test_a_loop_of_tools_runs_to_its_end_with_responses() -> None:
    script = [
        ModelTurn(thinking="hm", tools=[tool_call("read", path="a.txt")]),
        ModelTurn("done", expect=RequestPattern(tool_result="tea", system="careful", api="responses")),
    ]
    tools: Any = [{"type": "function", "name": "read", "parameters": {}}]
    async with asyncio.timeout(60), ModelServer(script) as server, openai_client(server) as client:
        first = await client.responses.create(model="m", input="go", instructions="careful", tools=tools)
        given: Any = [{"role": "user", "content": "go"}, *first.output]
        call: Any = first.output[-1]
        given.append({"type": "function_call_output", "call_id": call.call_id, "output": "tea"})
        second = await client.responses.create(model="m", input=given, instructions="careful", tools=tools)
        server.check()

        assert second.output_text == "done"
        with pytest.raises(openai.BadRequestError, match="without a result"):
            await client.responses.create(model="m", input=given[:-1], tools=tools)
        assert len(server.failures) == 1
        server._log.failures.clear()


async def test_a_request_longer_than_the_context_gets_the_provider_s_error() -> None:
    script = ModelScript([ModelTurn("short enough")], context_limit=100)
    async with asyncio.timeout(60), ModelServer(script) as server:
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(server, "x" * 1000)
        assert caught.value.code == "context_length_exceeded"
        assert await ask(server, "x") == "short enough"
        server.check()


SCRIPT = """
models = ["m"]
context_limit = 5000

[[turn]]
thinking = "I need the file."
tools = [{ name = "read", arguments = { path = "a.txt" } }]
expect.tools = ["read"]
usage = { input = 5, output = 7 }

[[turn]]
when.tool_result = "tea"
text = ["It is ", "tea."]
stop = "max_tokens"
piece_delay = 0.001

[[turn]]
fault = "overloaded"
times = 2
"""


async def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT)
    script = read_model_script(path)

    assert (script.models, script.context_limit, len(script.turn)) == (["m"], 5000, 3)
    async with asyncio.timeout(60), ModelServer(path) as server:
        answer = await CLIENTS["messages, streamed"](server)
    assert [call.name for call in answer.calls] == ["read"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[turn]]\ntextt = 1", "unknown field `textt`"),
        ("[[turn]]\nfault = 'overlaoded'", "did you mean 'overloaded'"),
        ("[[turn]]\ndelay = 1e9", "`delay` must be from 0 to 600"),
        ("[[turn]]\ntimes = -1", "`times` must not be negative"),
        ("[[turn]]\npiece_chars = 0", "`piece_chars` must be at least 1"),
        ("[[turn]]\nfault = 'cut_arguments'", "needs a tool call"),
        ("[[turn]]\nexpect.colour = 'red'", "unknown field `colour`"),
        ("[[turn", "Expected ']]'"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "script.toml"
    path.write_text(text)

    with pytest.raises(ValueError, match=reason):
        read_model_script(path)


def test_a_chat_request_is_read_with_its_tools() -> None:
    from duologue.testing.models import chat_format

    request = chat_format.read({"messages": [{"role": "developer", "content": [{"text": "a"}]}], "tools": CHAT_TOOLS})

    assert (request.system, request.tools, request.messages) == ("a", ["read"], [])


BODIES: list[dict[str, Any]] = [
    {},
    {"messages": 5, "input": 5, "tools": {"a": 1}, "system": 7, "model": []},
    {
        "messages": [1, {"role": 5, "content": {"x": 1}}],
        "input": [None, {"type": 3}],
        "tools": [[], {"function": 1}],
    },
    {"messages": [{"role": "assistant", "tool_calls": [{"function": []}], "content": [{"type": "tool_use"}]}]},
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_with_values_of_wrong_types_is_read_without_an_error(body: dict[str, Any]) -> None:
    from duologue.testing.models import chat_format, messages_format, responses_format

    for read in (chat_format.read, responses_format.read, messages_format.read):
        request = read(body)
        assert request.tokens >= 1
        assert request.prompt == ""
