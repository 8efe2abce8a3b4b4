"""Failures that a client must survive, and a conversation that goes on after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.errors import InternalError, RequestError
from duologue.schema import v1
from duologue.schema.base import Other
from tests.builtin.harness import open_harness


@pytest.mark.parametrize(
    ("command", "reason"),
    [("/refuse", "refusal"), ("/max-tokens", "max_tokens"), ("/max-requests", "max_turn_requests")],
)
async def test_a_turn_ends_for_every_reason(tmp_path: Path, command: str, reason: str) -> None:
    async with open_harness(tmp_path) as harness:
        assert (await harness.prompt(command)).stop_reason == reason
        assert harness.text
        assert await harness.ask("hello")


@pytest.mark.parametrize(("command", "code"), [("/error", -32603), ("/error -32002", -32002), ("/error 400", 400)])
async def test_an_error_ends_the_prompt_and_not_the_connection(tmp_path: Path, command: str, code: int) -> None:
    async with open_harness(tmp_path) as harness:
        with pytest.raises(RequestError) as caught:
            await harness.prompt(command)
        assert (caught.value.code, caught.value.message) == (code, "this error was asked for")
        assert caught.value.data == {"asked": True}
        assert await harness.ask("hello")


async def test_an_unexpected_exception_tells_its_class_and_nothing_else(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        with pytest.raises(InternalError) as caught:
            await harness.prompt("/exception")
        assert "ValueError" in caught.value.message
        assert "nobody" not in caught.value.message
        assert await harness.ask("hello")


async def test_an_update_from_the_future_arrives_as_it_is(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "your client survived" in await harness.ask("/unknown-update")
        (update,) = harness.of(Other)
        assert (update.tag, update["answer"]) == ("from_the_future", 42)
        (call,) = harness.of(v1.ToolCall)
        assert (call.kind, call.status) == ("telepathy", "dreaming")


async def test_odd_tool_calls_arrive_as_they_are(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "your client survived" in await harness.ask("/odd-tools")
        calls = harness.of(v1.ToolCall)
        assert [call.title for call in calls] == ["Announced once", "Announced twice", "Never finished"]
        assert calls[2].status == "in_progress"
        assert (calls[2].raw_input, calls[2].raw_output) == ("not an object", [1, None, "two"])
        assert harness.of(v1.ToolCallUpdate)[0].tool_call_id == "never-announced"


async def test_odd_text_arrives_as_it_is_save_half_a_character(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("/odd-text")
        pieces = [chunk.content.text for chunk in harness.of(v1.AgentMessageChunk)]
        assert pieces[:2] == ["\u2028\u2029\x85", "\0"]
        assert pieces[5:7] == ["", "\ufffd"]


@pytest.mark.parametrize("command", ["/crash", "/crash 3", "/noise"])
async def test_inside_another_program_it_neither_crashes_nor_makes_noise(tmp_path: Path, command: str) -> None:
    async with open_harness(tmp_path) as harness:
        assert "I am an object inside another program" in await harness.ask(command)
