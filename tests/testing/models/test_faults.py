"""Every fault of a model server, as the real client libraries see it, streamed and not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from duologue.testing import MODEL_FAULTS, ModelServer, ModelTurn, tool_call
from tests.testing.models.clients import CLIENTS, Received, anthropic_client, ask_chat, openai_client

TEXT = "A text of the model that has several pieces."
GIANT = 200_000

Check = Callable[[Received], bool]
Expected = type[BaseException] | tuple[type[BaseException], ...] | Check


def _is_whole(answer: Received) -> bool:
    return answer.text == TEXT and answer.stop in ("stop", "completed", "end_turn")


def _is_cut(answer: Received) -> bool:
    return answer.text == TEXT[:16] and answer.stop is None


def _is_nothing(answer: Received) -> bool:
    return answer == Received("", [], None)


def _has_bad_arguments(answer: Received) -> bool:
    (call,) = answer.calls
    try:
        return not isinstance(json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments, dict)
    except ValueError:
        return True


def _is_cut_call(answer: Received) -> bool:
    # The library of Anthropic completes a cut object by itself.
    is_cut = answer.calls[0].arguments in ('{"path":', {}, "")
    return is_cut and answer.stop in ("length", "max_output_tokens", "max_tokens")


def all_clients(openai_error: Expected, anthropic_error: Expected) -> dict[str, Expected]:
    return {name: anthropic_error if name.startswith("messages") else openai_error for name in CLIENTS}


def by_stream(whole: Expected, streamed: Expected, **exceptions: Expected) -> dict[str, Expected]:
    expected = {name: streamed if name.endswith("streamed") else whole for name in CLIENTS}
    return expected | {f"{name}, streamed": value for name, value in exceptions.items()}


EXPECTED: dict[str, dict[str, Expected]] = {
    "unauthorized": all_clients(openai.AuthenticationError, anthropic.AuthenticationError),
    "forbidden": all_clients(openai.PermissionDeniedError, anthropic.PermissionDeniedError),
    "model_not_found": all_clients(openai.NotFoundError, anthropic.NotFoundError),
    "rate_limited": all_clients(openai.RateLimitError, anthropic.RateLimitError),
    "quota_exceeded": all_clients(openai.RateLimitError, anthropic.BadRequestError),
    "bad_request": all_clients(openai.BadRequestError, anthropic.BadRequestError),
    "context_length": all_clients(openai.BadRequestError, anthropic.BadRequestError),
    "request_too_large": all_clients(openai.APIStatusError, anthropic.ContentTooLargeError),
    "server_error": all_clients(openai.InternalServerError, anthropic.InternalServerError),
    "unavailable": all_clients(openai.InternalServerError, anthropic.ServiceUnavailableError),
    "overloaded": all_clients(openai.InternalServerError, anthropic.OverloadedError),
    "bad_gateway": all_clients(openai.InternalServerError, anthropic.InternalServerError),
    "timeout": all_clients(openai.APITimeoutError, anthropic.APITimeoutError),
    "reset": all_clients(openai.APIConnectionError, anthropic.APIConnectionError),
    # In a stream, the library of Anthropic does not wrap the errors of its HTTP client; before the headers it does.
    "reset_midstream": all_clients(openai.APIConnectionError, anthropic.APIConnectionError)
    | {"messages, streamed": (httpx2.ReadError, anthropic.APIConnectionError)},
    "hang": all_clients(openai.APITimeoutError, anthropic.APITimeoutError)
    | {"messages, streamed": (httpx2.ReadTimeout, anthropic.APITimeoutError)},
    "truncated": by_stream(json.JSONDecodeError, _is_cut),
    "slow_drip": by_stream(_is_whole, _is_whole),
    "malformed_json": by_stream(json.JSONDecodeError, json.JSONDecodeError),
    "wrong_content_type": by_stream(AttributeError, _is_nothing, messages=AssertionError),
    "empty_body": by_stream(json.JSONDecodeError, _is_nothing, messages=AssertionError),
    "error_event": all_clients(openai.InternalServerError, anthropic.InternalServerError)
    | {
        "chat, streamed": openai.APIError,
        "responses, streamed": openai.APIError,
        "messages, streamed": anthropic.APIStatusError,
    },
    "duplicate_event": by_stream(_is_whole, lambda answer: answer.text == TEXT[:32] + TEXT[16:]),
    "unknown_event": by_stream(_is_whole, _is_whole),
    "no_usage": by_stream(_is_whole, _is_whole),
    "malformed_arguments": by_stream(_has_bad_arguments, _has_bad_arguments, messages=ValueError),
    "cut_arguments": by_stream(_is_cut_call, _is_cut_call),
    "wrong_arguments": by_stream(_has_bad_arguments, _has_bad_arguments),
    "unknown_tool": by_stream(
        lambda answer: answer.calls[0].name == "no_such_tool", lambda answer: answer.calls[0].name == "no_such_tool"
    ),
    "duplicate_tool_id": by_stream(lambda answer: len(answer.calls) == 2, lambda answer: len(answer.calls) == 2),
    "empty": by_stream(lambda answer: answer.text == "" and answer.stop is not None, lambda answer: answer.text == ""),
    "refusal": all_clients(
        lambda answer: (answer.refusal, answer.text) == (TEXT, ""),
        lambda answer: (answer.stop, answer.text) == ("refusal", TEXT),
    ),
    "content_filter": all_clients(
        lambda answer: answer.stop == "content_filter", lambda answer: answer.stop == "refusal"
    ),
    "giant": by_stream(lambda answer: len(answer.text) == GIANT, lambda answer: len(answer.text) == GIANT),
}

NEED_TOOLS = {"malformed_arguments": 1, "cut_arguments": 1, "wrong_arguments": 1, "duplicate_tool_id": 2}


def turn_with(fault: str) -> ModelTurn:
    tools = [tool_call("read", path="a.txt")] * NEED_TOOLS.get(fault, 0)
    return ModelTurn(TEXT, tools=tools, fault=fault, size=GIANT)


def test_every_fault_has_an_expectation_for_every_client() -> None:
    assert set(EXPECTED) == set(MODEL_FAULTS)
    assert len(MODEL_FAULTS) >= 20


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", MODEL_FAULTS)
async def test_a_fault_reaches_the_real_client_library(fault: str, client: str) -> None:
    expected, ask = EXPECTED[fault][client], CLIENTS[client]
    timeout = 0.3 if fault in ("timeout", "hang") else 60

    async with asyncio.timeout(60), ModelServer([turn_with(fault)]) as server:
        if isinstance(expected, type | tuple):
            with pytest.raises(expected):  # pyright: ignore[reportUnknownArgumentType]
                await ask(server, timeout)
        else:
            answer = await ask(server, timeout)
            assert expected(answer), answer
        server.check()


async def test_a_client_that_retries_gets_the_next_turn() -> None:
    script = [ModelTurn(fault="rate_limited", retry_after=0.01), ModelTurn(fault="reset"), ModelTurn("done")]

    async with asyncio.timeout(60), ModelServer(script) as server:
        async with openai_client(server, max_retries=2) as client:
            whole = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])

        assert whole.choices[0].message.content == "done"
        assert [request.turn for request in server.requests] == [1, 2, 3]


@pytest.mark.parametrize("fault", ["rate_limited", "unavailable", "overloaded"])
async def test_a_fault_that_passes_says_when_to_try_again(fault: str) -> None:
    script = [ModelTurn(fault=fault, retry_after=7)] * 2

    async with asyncio.timeout(60), ModelServer(script) as server:
        async with openai_client(server) as client:
            with pytest.raises(openai.APIStatusError) as one:
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])
        async with anthropic_client(server) as other:
            with pytest.raises(anthropic.APIStatusError) as two:
                await other.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "go"}])

    assert one.value.response.headers["retry-after"] == two.value.response.headers["retry-after"] == "7"


async def test_an_error_has_the_provider_s_own_body() -> None:
    script = [ModelTurn(fault="context_length"), ModelTurn(fault="context_length", message="too long for me")]

    async with asyncio.timeout(60), ModelServer(script) as server:
        async with openai_client(server) as client:
            with pytest.raises(openai.BadRequestError) as one:
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])
        async with anthropic_client(server) as other:
            with pytest.raises(anthropic.BadRequestError) as two:
                await other.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "go"}])

    assert one.value.code == "context_length_exceeded"
    body: Any = two.value.body
    assert body["error"] == {"type": "invalid_request_error", "message": "too long for me"}
    assert two.value.request_id == "req_2"


async def test_a_fault_after_more_pieces_than_there_are_happens_after_the_last_one() -> None:
    async with asyncio.timeout(60), ModelServer([ModelTurn("short", fault="truncated", fault_after=99)]) as server:
        answer = await CLIENTS["chat, streamed"](server)

    assert (answer.text, answer.stop) == ("short", None)


async def test_a_fault_can_repeat_for_every_attempt() -> None:
    async with asyncio.timeout(60), ModelServer([ModelTurn(fault="server_error", times=0)]) as server:
        for _ in range(3):
            with pytest.raises(openai.InternalServerError):
                await ask_chat(server)
        server.check()
