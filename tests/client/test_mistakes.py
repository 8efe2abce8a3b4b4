"""Mistakes of a client's author: a prompt that is never sent, a connection or session that is not opened."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect, sync


def echo() -> Agent[Any]:
    agent: Agent[Any] = Agent("echo")

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        await turn.say(turn.text)

    return agent


def line_of(text: str) -> int:
    """Return the number of the first line of this file that ends with a text."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(text))


def warnings_of(action: Callable[[], object]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
        gc.collect()
    return [each for each in caught if each.category is RuntimeWarning]


async def test_a_prompt_that_is_never_awaited_is_a_warning_with_the_line_of_the_call(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(echo()) as agent, agent.new_session(tmp_path) as session:

        def drop() -> None:
            session.prompt("lost")  # dropped

        def store() -> None:
            turn = session.prompt("lost")  # stored
            assert turn.text == ""

        for action, mark in ((drop, "# dropped"), (store, "# stored")):
            (warning,) = warnings_of(action)
            assert (warning.filename, warning.lineno) == (__file__, line_of(mark))
            assert "the prompt was never sent; write `await session.prompt(…)`" in str(warning.message)
        assert await session.ask("found") == "found"


def test_so_is_one_of_the_blocking_api(tmp_path: Path) -> None:
    with sync.connect(echo()) as agent, agent.new_session(tmp_path) as session:
        (warning,) = warnings_of(lambda: session.prompt("lost"))  # blocking

        assert (warning.filename, warning.lineno) == (__file__, line_of("# blocking"))
        assert "write `session.prompt(…).wait()` or `for event in session.prompt(…):`" in str(warning.message)
        assert session.prompt("found").wait().text == "found"


def test_a_prompt_that_is_started_in_any_way_is_no_warning(tmp_path: Path) -> None:
    async def start() -> None:
        async with connect(echo()) as agent, agent.new_session(tmp_path) as session:
            await session.prompt("one")
            async with session.prompt("two"):
                pass
            async for _ in session.prompt("three"):
                pass

    assert warnings_of(lambda: asyncio.run(start())) == []


def test_a_program_shows_the_warning_by_default(tmp_path: Path) -> None:
    program = tmp_path / "client.py"
    program.write_text(
        "from duologue import Agent, sync\n"
        "agent = Agent('silent')\n"
        "with sync.connect(agent) as connected, connected.new_session('.') as session:\n"
        "    session.prompt('hello')\n"
    )
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=100, check=True)

    assert f"{program}:4: RuntimeWarning: the prompt was never sent" in ended.stderr


def test_connect_without_async_with_says_what_to_write() -> None:
    made: Any = connect(echo())
    with pytest.raises(TypeError, match=r"`async with connect\(…\) as agent:`.*`with duologue.sync.connect\(…\)"), made:
        pass
    with pytest.raises(AttributeError, match=r"has no `new_session`; write `async with connect"):
        made.new_session(".")


async def test_so_does_one_that_is_awaited_or_entered_twice() -> None:
    made: Any = connect(echo())
    with pytest.raises(TypeError, match="needs `async with` instead of `await`"):
        await made
    async with asyncio.timeout(60), made:
        with pytest.raises(RuntimeError, match="is opened once"):
            await made.__aenter__()


async def test_a_session_that_is_not_awaited_says_what_to_write(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(echo()) as agent:
        session: Any = agent.new_session(tmp_path)
        with pytest.raises(AttributeError, match=r"has no `prompt`; write `session = await agent.new_session\(…\)`"):
            session.prompt("x")
        with pytest.raises(TypeError, match="needs `async with` instead of `with`"), session:
            pass
        assert await (await session).ask("found") == "found"


def test_a_blocking_connection_without_with_says_what_to_write() -> None:
    made: Any = sync.connect(echo())
    with pytest.raises(AttributeError, match=r"has no `new_session`.*with duologue.sync.connect.*duologue.sync.open"):
        made.new_session(".")


def test_permissions_that_are_no_policy_are_rejected_at_the_call(tmp_path: Path) -> None:
    wrong: Any = "allow"
    with pytest.raises(
        TypeError, match=r'`duologue.Permissions`, got \'allow\'; write `permissions=Permissions\(edit="al'
    ):
        connect(echo(), permissions=wrong)
    with pytest.raises(TypeError, match=r"`workspace` must be a `duologue.Workspace`, got PosixPath"):
        # here and below the wrong type is the mistake
        connect(echo(), workspace=tmp_path)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"`terminals` must be a `duologue.Terminals`, got True; .*Terminals\(\)`"):
        connect(echo(), terminals=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
