"""Answers of a model server as the real client libraries read them: text, thinking, tool calls, usage, stop reasons."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from duologue.testing import ModelScript, ModelServer, ModelToolCall, ModelTurn, ModelUsage, tool_call
from tests.testing.models.clients import (
    CHAT_TOOLS,
    CLIENTS,
    MESSAGES_TOOLS,
    PROMPT,
    RESPONSES_TOOLS,
    anthropic_client,
    openai_client,
)

USAGE = ModelUsage(input=10, output=20, cache_read=300, cache_write=4000, reasoning=5)


@pytest.mark.parametrize("client", CLIENTS)
async def test_text_and_parallel_tool_calls_arrive(client: str) -> None:
    turn = ModelTurn("I read both: äöü 🍵", tools=[tool_call("read", path="a.txt"), tool_call("read", path="ü")])

    async with asyncio.timeout(60), ModelServer([turn]) as server:
        answer = await CLIENTS[client](server)
        server.check()

    assert answer.text == "I read both: äöü 🍵"
    arguments: list[Any] = [call.arguments for call in answer.calls]
    if client.startswith("messages"):
        assert arguments == [{"path": "a.txt"}, {"path": "ü"}]
    else:
        assert arguments == ['{"path":"a.txt"}', '{"path":"ü"}']
    assert answer.stop in ("tool_calls", "completed", "tool_use")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("stop", "names"),
    [
        ("end", ("stop", "completed", "end_turn")),
        ("max_tokens", ("length", "max_output_tokens", "max_tokens")),
        ("stop_sequence", ("stop", "completed", "stop_sequence")),
        ("content_filter", ("content_filter", "content_filter", "refusal")),
    ],
)
async def test_a_stop_reason_has_the_name_of_the_api(stop: Any, names: tuple[str, str, str], client: str) -> None:
    async with asyncio.timeout(60), ModelServer([ModelTurn("text", stop=stop)]) as server:
        answer = await CLIENTS[client](server)

    api = ("chat", "responses", "messages").index(client.partition(",")[0])
    assert answer.stop == names[api]


async def test_the_events_of_a_streamed_message_have_the_names_and_the_order_of_anthropic() -> None:
    turn = ModelTurn(["One ", "two"], thinking=["hm", "m"], tools=[tool_call("read", path="a")], usage=USAGE)
    async with asyncio.timeout(60), ModelServer([turn]) as server, anthropic_client(server) as client:
        events = await client.messages.create(
            model="m", max_tokens=99, messages=PROMPT, tools=MESSAGES_TOOLS, stream=True
        )
        received: list[Any] = [event async for event in events]

    deltas = [event.delta.type for event in received if event.type == "content_block_delta"]
    assert [event.type for event in received if event.type != "content_block_delta"] == [
        "message_start",
        *["content_block_start", "content_block_stop"] * 3,
        "message_delta",
        "message_stop",
    ]
    assert deltas == [*["thinking_delta"] * 2, "signature_delta", *["text_delta"] * 2, "input_json_delta"]
    assert (received[0].message.usage.input_tokens, received[0].message.usage.cache_read_input_tokens) == (10, 300)
    assert (received[-2].usage.output_tokens, received[-2].delta.stop_reason) == (20, "tool_use")


async def test_a_stream_of_anthropic_has_a_ping() -> None:
    async with asyncio.timeout(60), ModelServer(["hello"]) as server, anthropic_client(server) as client:
        async with client.messages.with_streaming_response.create(
            model="m", max_tokens=99, messages=PROMPT, stream=True
        ) as raw:
            lines = [line async for line in raw.iter_lines()]

    assert "event: ping" in lines


async def test_the_helpers_of_the_libraries_collect_thinking_text_calls_and_usage() -> None:
    turn = ModelTurn("Text", thinking="I think", tools=[tool_call("read", path="a")], usage=USAGE)
    async with asyncio.timeout(60), ModelServer([turn] * 3) as server:
        async with anthropic_client(server) as one:
            async with one.messages.stream(
                model="m", max_tokens=99, messages=PROMPT, tools=MESSAGES_TOOLS
            ) as message_events:
                message = await message_events.get_final_message()
        async with openai_client(server) as two:
            async with two.responses.stream(model="m", input=PROMPT, tools=RESPONSES_TOOLS) as response_events:
                response = await response_events.get_final_response()
            async with two.chat.completions.stream(
                model="m", messages=PROMPT, tools=CHAT_TOOLS, stream_options={"include_usage": True}
            ) as chat_events:
                completion = await chat_events.get_final_completion()

    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert (message.usage.cache_creation_input_tokens, message.usage.output_tokens) == (4000, 20)
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (4310, 300)
    assert response.usage.output_tokens_details.reasoning_tokens == 5
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (4310, 20)
    assert completion.choices[0].message.model_dump()["reasoning_content"] == "I think"


async def test_tokens_that_the_script_does_not_give_are_estimated_and_repeatable() -> None:
    async with asyncio.timeout(60), ModelServer(["x" * 400] * 2) as server, anthropic_client(server) as client:
        answers = [await client.messages.create(model="m", max_tokens=99, messages=PROMPT) for _ in range(2)]
        counted = await client.messages.count_tokens(model="m", messages=PROMPT)

    assert answers[0].usage == answers[1].usage
    assert answers[0].usage.output_tokens == 100
    assert counted.input_tokens == answers[0].usage.input_tokens > 0


async def test_arguments_that_are_a_text_are_sent_as_they_are() -> None:
    turn = ModelTurn(tools=[ModelToolCall("read", "not {json", "my-id")])
    async with asyncio.timeout(60), ModelServer([turn]) as server:
        answer = await CLIENTS["chat, streamed"](server)

    assert answer.calls[0].arguments == "not {json"


async def test_the_models_of_the_script_are_listed_and_others_rejected() -> None:
    script = ModelScript([ModelTurn("hello")], models=["small", "m"])
    async with asyncio.timeout(60), ModelServer(script) as server:
        async with openai_client(server) as one, anthropic_client(server) as two:
            assert [model.id async for model in one.models.list()] == ["small", "m"]
            assert [model.id async for model in two.models.list()] == ["small", "m"]
            assert (await one.models.retrieve("small")).id == "small"
            assert (await two.models.retrieve("small")).display_name == "small"
            with pytest.raises(openai.NotFoundError):
                await one.models.retrieve("large")
            with pytest.raises(openai.NotFoundError):
                await one.chat.completions.create(model="large", messages=PROMPT)
        assert (await CLIENTS["messages"](server)).text == "hello"
        server.check()
