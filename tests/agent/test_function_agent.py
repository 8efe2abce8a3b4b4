"""Agents out of plain functions and classes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from duologue.agent.hosting.function_agent import as_agent
from duologue.agent.session import Session
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.content import ImageContent
from duologue.errors import InternalError
from duologue.schema import v1
from tests.agent.wire_client import agent_with, client_for


async def generator(prompt: str) -> AsyncIterator[str | ImageContent]:
    yield "You said: "
    yield prompt
    yield ImageContent("aGk=", "image/png")


async def whole(prompt: str) -> str:
    return f"You said: {prompt}"


async def silent(prompt: str) -> None:
    return None


async def with_turn(turn: Turn[Settings]) -> None:
    await turn.say(f"You said: {turn.text}")


async def annotated(it: Turn[Any]) -> str:
    return f"You said: {it.text}"


class Counting:
    """Made once per session."""

    def __init__(self) -> None:
        self.count = 0

    async def prompt(self, prompt: str) -> str:
        self.count += 1
        return f"{self.count}: {prompt}"


class SessionAware:
    def __init__(self, session: Session[Settings]) -> None:
        self.session = session

    async def prompt(self, prompt: str) -> AsyncIterator[str]:
        yield str(self.session.cwd)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (generator, "You said: hi"),
        (whole, "You said: hi"),
        (silent, ""),
        (with_turn, "You said: hi"),
        (annotated, "You said: hi"),
        (Counting, "1: hi"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_function_or_a_class_is_an_agent(tmp_path: Path, target: Any, text: str) -> None:
    agent = as_agent(target)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        assert client.hello.agent_capabilities.load_session
        assert client.hello.agent_info is not None
        assert client.hello.agent_info.name == target.__name__.lower().replace("_", "-")
        session = await client.new()
        assert (await client.prompt(session, "hi")).stop_reason == "end_turn"
        assert client.text == text


async def test_an_instance_belongs_to_its_session_and_goes_with_it(tmp_path: Path) -> None:
    agent = as_agent(Counting, name="counting")
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        one, two = await client.new(), await client.new()
        for session in (one, one, two):
            await client.prompt(session, "x")
        assert client.text == "1: x2: x1: x"
        await client.close(one)
        gc.collect()
        assert len([each for each in gc.get_objects() if isinstance(each, Counting)]) == 1


class Working:
    def __init__(self, session: Session[Settings]) -> None:
        self.session = session

    async def prompt(self, turn: Turn[Settings]) -> str:
        return f"{self.session.cwd} {turn.text}"


async def test_a_class_may_ask_for_its_session_and_its_method_for_the_turn(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(as_agent(SessionAware), tmp_path) as client:
        await client.prompt(await client.new(), "x")
        assert client.text == str(tmp_path)
    async with asyncio.timeout(60), client_for(as_agent(Working), tmp_path) as client:
        await client.prompt(await client.new(), "x")
        assert client.text == f"{tmp_path} x"


async def test_a_cancelled_generator_cleans_up_inside_its_turn(tmp_path: Path) -> None:
    cleaned: list[str] = []

    async def endless(prompt: str) -> AsyncIterator[str]:
        try:
            while True:
                yield "x"
                await asyncio.sleep(0)
        finally:
            cleaned.append(prompt)

    async with asyncio.timeout(60), client_for(as_agent(endless), tmp_path) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "go"))
        await client.until_updates(v1.AgentMessageChunk)
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert cleaned == ["go"]


def test_an_object_that_is_no_coroutine_function_is_rejected_with_a_clear_message() -> None:
    def plain(prompt: str) -> str:
        return prompt

    async def nothing() -> str:
        return ""

    class Silent:
        pass

    class Sync:
        def prompt(self, prompt: str) -> str:
            return prompt

    targets: list[tuple[Any, str]] = [
        (plain, "plain .*is not a coroutine function"),
        (nothing, "must take one parameter"),
        (Silent, "the class Silent needs a method `async def prompt"),
        (Sync, "Sync.prompt .*is not a coroutine function"),
    ]
    for target, message in targets:
        with pytest.raises(TypeError, match=message):
            as_agent(target)


def test_an_agent_is_itself() -> None:
    agent = agent_with()

    assert as_agent(agent) is agent


async def yields_a_number(prompt: str) -> AsyncIterator[Any]:
    yield "one "
    yield 42


async def returns_a_number(prompt: str) -> Any:
    return 42


async def test_a_value_that_is_no_text_fails_the_turn_and_names_the_function_and_its_line(tmp_path: Path) -> None:
    first = yields_a_number.__code__.co_firstlineno
    for target, message in (
        (yields_a_number, rf"yields_a_number \(test_function_agent.py:{first}\) yielded at line {first + 2} a .* int,"),
        (returns_a_number, r"returns_a_number \(test_function_agent.py:\d+\) returned a .* int,.*, or nothing"),
    ):
        async with asyncio.timeout(60), client_for(as_agent(target), tmp_path) as client:
            with pytest.raises(InternalError, match=message):
                await client.prompt(await client.new(), "x")


def test_an_annotation_that_no_prompt_has_is_rejected_when_the_function_is_registered() -> None:
    async def number(prompt: int) -> str:
        return str(prompt)

    async def text(turn: str) -> str:
        return turn

    class Numbers:
        async def prompt(self, prompt: int) -> str:
            return str(prompt)

    targets: list[tuple[Any, str]] = [
        (number, r"number .*is called with a str.*annotated with int; write `prompt: str`"),
        (text, r"text .*is called with a Turn.*annotated with str; write `turn: Turn`, and read `turn.text`"),
        (Numbers, r"Numbers.prompt .*is called with a str.*annotated with int; write `prompt: str`"),
    ]
    for target, message in targets:
        with pytest.raises(TypeError, match=message):
            as_agent(target)


async def test_an_annotation_that_a_prompt_has_among_others_is_accepted(tmp_path: Path) -> None:
    async def optional(prompt: str | None) -> str:
        return f"{prompt}"

    async def described(prompt: Annotated[str, "the text"]) -> str:
        return prompt

    async def anything(*prompts: object) -> str:
        return f"{prompts[0]}"

    for target in (optional, described, anything):
        async with asyncio.timeout(60), client_for(as_agent(target), tmp_path) as client:
            await client.prompt(await client.new(), "x")
            assert client.text == "x"
