"""The real client libraries of OpenAI and Anthropic, connected to a model server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai

from duologue.testing import ModelServer

PROMPT: list[Any] = [{"role": "user", "content": "read the file"}]
SCHEMA: Any = {"type": "object", "properties": {"path": {"type": "string"}}}
CHAT_TOOLS: Any = [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]
RESPONSES_TOOLS: Any = [{"type": "function", "name": "read", "parameters": SCHEMA}]
MESSAGES_TOOLS: Any = [{"name": "read", "input_schema": SCHEMA}]


class Call(NamedTuple):
    """A tool call that a client received."""

    name: str
    arguments: Any


class Received(NamedTuple):
    """An answer as a client library understood it."""

    text: str
    calls: list[Call]
    stop: str | None
    refusal: str = ""


@asynccontextmanager
async def openai_client(server: ModelServer, timeout: float = 60, **options: Any) -> AsyncGenerator[openai.AsyncOpenAI]:
    """Connect the library of OpenAI, without retries."""
    limits = httpx2.Timeout(60, read=timeout)
    given: dict[str, Any] = {"api_key": server.api_key, "max_retries": 0, **options}
    async with openai.AsyncOpenAI(base_url=server.openai_url, timeout=limits, **given) as client:
        yield client


@asynccontextmanager
async def anthropic_client(
    server: ModelServer, timeout: float = 60, **options: Any
) -> AsyncGenerator[anthropic.AsyncAnthropic]:
    """Connect the library of Anthropic, without retries."""
    limits = httpx2.Timeout(60, read=timeout)
    given: dict[str, Any] = {"api_key": server.api_key, "max_retries": 0, **options}
    async with anthropic.AsyncAnthropic(base_url=server.anthropic_url, timeout=limits, **given) as client:
        yield client


async def ask_chat(server: ModelServer, timeout: float = 60) -> Received:
    """Read an answer of chat completions that is not streamed."""
    async with openai_client(server, timeout) as client:
        whole = await client.chat.completions.create(model="m", messages=PROMPT, tools=CHAT_TOOLS)
    choice = whole.choices[0]
    given: list[Any] = list(choice.message.tool_calls or [])
    calls = [Call(call.function.name, call.function.arguments) for call in given]
    return Received(choice.message.content or "", calls, choice.finish_reason, choice.message.refusal or "")


async def stream_chat(server: ModelServer, timeout: float = 60) -> Received:
    """Read a streamed answer of chat completions, event by event."""
    text, refusal, stop = "", "", None
    calls: dict[int, list[str]] = {}
    async with openai_client(server, timeout) as client:
        events = await client.chat.completions.create(model="m", messages=PROMPT, tools=CHAT_TOOLS, stream=True)
        async for chunk in events:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                refusal += choice.delta.refusal or ""
                stop = choice.finish_reason or stop
                for call in choice.delta.tool_calls or []:
                    assert call.function is not None
                    entry = calls.setdefault(call.index, [call.function.name or "", ""])
                    entry[1] += call.function.arguments or ""
    return Received(text, [Call(*entry) for entry in calls.values()], stop, refusal)


async def ask_responses(server: ModelServer, timeout: float = 60) -> Received:
    """Read an answer of the Responses API that is not streamed."""
    async with openai_client(server, timeout) as client:
        return _response(await client.responses.create(model="m", input=PROMPT, tools=RESPONSES_TOOLS))


async def stream_responses(server: ModelServer, timeout: float = 60) -> Received:
    """Read a streamed answer of the Responses API, event by event."""
    text, last = "", None
    event: Any
    async with openai_client(server, timeout) as client:
        events = await client.responses.create(model="m", input=PROMPT, tools=RESPONSES_TOOLS, stream=True)
        async for event in events:
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "error":
                raise openai.APIError(event.message, httpx2.Request("POST", "http://127.0.0.1"), body=None)
            if event.type in ("response.completed", "response.incomplete"):
                last = event.response
    if last is None:
        return Received(text, [], None)
    return _response(last)._replace(text=text)


def _response(whole: Any) -> Received:
    calls = [Call(item.name, item.arguments) for item in whole.output if item.type == "function_call"]
    parts = [part for item in whole.output if item.type == "message" for part in item.content]
    refusal = "".join(part.refusal for part in parts if part.type == "refusal")
    stop = whole.incomplete_details.reason if whole.incomplete_details else whole.status
    return Received(whole.output_text, calls, stop, refusal)


async def ask_messages(server: ModelServer, timeout: float = 60) -> Received:
    """Read an answer of Anthropic's messages that is not streamed."""
    async with anthropic_client(server, timeout) as client:
        return _message(await client.messages.create(model="m", max_tokens=1000, messages=PROMPT, tools=MESSAGES_TOOLS))


async def stream_messages(server: ModelServer, timeout: float = 60) -> Received:
    """Read a streamed answer of Anthropic's messages with the helper of the library."""
    async with anthropic_client(server, timeout) as client:
        async with client.messages.stream(model="m", max_tokens=1000, messages=PROMPT, tools=MESSAGES_TOOLS) as events:
            return _message(await events.get_final_message())


def _message(whole: Any) -> Received:
    text = "".join(block.text for block in whole.content if block.type == "text")
    calls = [Call(block.name, block.input) for block in whole.content if block.type == "tool_use"]
    return Received(text, calls, whole.stop_reason)


Ask = Callable[..., Coroutine[Any, Any, Received]]
CLIENTS: dict[str, Ask] = {
    "chat": ask_chat,
    "chat, streamed": stream_chat,
    "responses": ask_responses,
    "responses, streamed": stream_responses,
    "messages": ask_messages,
    "messages, streamed": stream_messages,
}
