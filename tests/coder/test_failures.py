"""Whatever goes wrong at the model's end: a clear message, the right stop reason, and a session that goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue.errors import InternalError, InvalidParams
from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from duologue.testing.models.faults import MODEL_FAULTS
from tests.coder.client import User, coder, coding, open_client

READ = tool_call("read_file", path="calc.py")

ERRORS = {
    "unauthorized": "does not accept the key",
    "forbidden": "does not accept the key",
    "model_not_found": "has no such model",
    "rate_limited": "limits how often it is asked",
    "quota_exceeded": "no credit left",
    "bad_request": "rejected the request",
    "request_too_large": "sent no usable answer",
    "server_error": "the provider failed",
    "unavailable": "not available at the moment",
    "overloaded": "overloaded",
    "timeout": "did not answer in time",
    "reset": "connection to the model failed",
    "reset_midstream": "connection to the model failed",
    "hang": "did not answer in time",
    "truncated": "broke off",
    "malformed_json": "sent no usable answer",
    "wrong_content_type": "sent no usable answer",
    "bad_gateway": "the provider failed",
    "empty_body": "sent no usable answer",
    "error_event": "the provider failed",
    "empty": "sent no usable answer",
}
"""Faults that end the turn with an error, and what it says."""

STOPPED = {
    "context_length": "max_tokens",
    "cut_arguments": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
}
"""Faults that end the turn with a stop reason."""

SURVIVED = set(MODEL_FAULTS) - set(ERRORS) - set(STOPPED)
"""Faults that the model learns of, or that are none for the user."""


def script_of(fault: str, *, times: int) -> list[ModelTurn]:
    """Return turns with a fault for the first prompt, and good ones for the second."""
    return [
        ModelTurn(
            "Some text here",
            tools=[READ],
            fault=fault,
            retry_after=0,
            size=100_000,
            times=times,
            when=RequestPattern(history=["go"], absent="and now?"),
        ),
        ModelTurn("Read.", times=0, when=RequestPattern(absent="and now?")),
        ModelTurn(tools=[READ], when=RequestPattern(prompt="and now?")),
        ModelTurn("It works.", when=RequestPattern(tool_result="return a - b")),
    ]


@pytest.mark.parametrize("fault", sorted(ERRORS))
async def test_a_failed_model_ends_the_turn_with_a_sentence_and_the_session_goes_on(project: Path, fault: str) -> None:
    # The client library tries again by itself, so the fault is sent more than once.
    async with (
        asyncio.timeout(200),
        ModelServer(script_of(fault, times=0)) as server,
        coding(project, server, model_timeout=1.0) as session,
    ):
        with pytest.raises(InternalError, match=ERRORS[fault]) as raised:
            await session.prompt("go")
        after = await session.prompt("and now?")

    assert (after.stop_reason, after.text) == ("end_turn", "It works.")
    assert raised.value.message.startswith("openai:scripted: ")
    assert server.api_key not in raised.value.message


@pytest.mark.parametrize("fault", sorted(STOPPED))
async def test_a_model_that_stops_ends_the_turn_with_its_stop_reason_and_the_session_goes_on(
    project: Path, fault: str
) -> None:
    async with (
        asyncio.timeout(120),
        ModelServer(script_of(fault, times=0)) as server,
        coding(project, server) as session,
    ):
        turn = await session.prompt("go")
        after = await session.prompt("and now?")

    assert turn.stop_reason == STOPPED[fault]
    assert turn.text
    assert (after.stop_reason, after.text) == ("end_turn", "It works.")


@pytest.mark.parametrize("fault", sorted(SURVIVED))
async def test_a_mistake_of_the_model_is_corrected_within_the_turn(project: Path, fault: str) -> None:
    async with (
        asyncio.timeout(120),
        ModelServer(script_of(fault, times=1)) as server,
        coding(project, server) as session,
    ):
        turn = await session.prompt("go")
        after = await session.prompt("and now?")

    assert (turn.stop_reason, turn.text[-5:]) == ("end_turn", "Read.")
    assert (after.stop_reason, after.text) == ("end_turn", "It works.")


async def test_without_a_model_each_prompt_says_what_to_set(project: Path) -> None:
    async with asyncio.timeout(120), ModelServer() as server:
        agent = coder(server, project.parent, models=())
        async with open_client(project, agent, User()) as remote, remote.new_session(project) as session:
            with pytest.raises(InvalidParams, match=r"ANTHROPIC_API_KEY.*--base-url"):
                await session.prompt("hello")
