"""Mistakes of an agent's author: found when a handler is registered, a value is used, or a call is not awaited."""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from duologue.agent.agent import Agent
from duologue.agent.session import Session
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.updates import PlanEntry
from duologue.errors import InternalError, RequestError
from tests.agent.programs import program
from tests.agent.wire_client import agent_with, client_for


def sync_handler(turn: Any) -> None: ...


def sync_generator(turn: Any) -> Iterator[str]:
    yield "x"


async def async_generator(turn: Any) -> AsyncIterator[str]:
    yield "x"


async def without_parameters() -> None: ...


async def two_parameters(turn: Any, text: str) -> None: ...


async def good(turn: Any) -> None: ...


class SyncCallable:
    def __call__(self, turn: Any) -> None: ...


class AsyncCallable:
    async def __call__(self, turn: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (
            sync_handler,
            r"sync_handler \(test_diagnostics.py:\d+\) is not a coroutine function.*`async def sync_handler",
        ),
        (sync_generator, r"sync_generator \(test_diagnostics.py:\d+\) is a generator"),
        (async_generator, r"is an async generator.*await turn.say"),
        (without_parameters, r"without_parameters \(test_diagnostics.py:\d+\): .* must take one parameter"),
        (two_parameters, "must take one parameter"),
        (SyncCallable(), "is not a coroutine function"),
        (functools.partial(sync_handler), "is not a coroutine function"),
        ("answer", "must be a function"),
    ],
)
def test_a_prompt_handler_that_cannot_work_is_rejected_when_it_is_registered(handler: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Agent[Settings]("tested").on_prompt(handler)


async def of_text(text: str) -> None: ...


async def of_text_later(text: str) -> None: ...


async def of_session(session: Session[Settings]) -> None: ...


@pytest.mark.parametrize("handler", [of_text, of_text_later, functools.partial(of_text)])
def test_a_prompt_handler_that_expects_text_is_rejected(handler: Any) -> None:
    with pytest.raises(TypeError, match=r"of_text.*called with a Turn.*`text`.*with str; write `turn: Turn`, and read"):
        Agent[Settings]("tested").on_prompt(handler)


def test_so_is_every_handler_that_expects_something_else() -> None:
    async def command(turn: Any, argument: int) -> None: ...

    agent: Any = Agent[Settings]("tested")
    with pytest.raises(TypeError, match=r"called with a Turn.*annotated with Session"):
        agent.on_prompt(of_session)
    with pytest.raises(TypeError, match=r"called with a Session.*annotated with str"):
        agent.on_open(of_text)
    with pytest.raises(TypeError, match=r"slash command is called with a str.*annotated with int"):
        agent.command("x", "X")(command)


class OwnTurn(Turn[Settings]): ...


class HasText(Protocol):
    text: str


async def of_turn(turn: Turn[Settings]) -> None: ...


# A name that only type checkers import does not exist when the program runs.
async def of_unknown(turn: OnlyForTypeCheckers) -> None: ...  # type: ignore[name-defined]  # noqa: F821


async def of_protocol(turn: HasText) -> None: ...


async def of_object(turn: object) -> None: ...


async def of_subclass(turn: OwnTurn) -> None: ...


async def of_either(turn: Turn[Settings] | None) -> None: ...


def annotated(turn: Any) -> Awaitable[None]:
    return good(turn)


@functools.wraps(good)
def wrapped(turn: Any) -> Any:
    return good(turn)


WORKING: list[Callable[[Any], Any]] = [
    good,
    AsyncCallable(),
    functools.partial(two_parameters, text="x"),
    lambda turn: two_parameters(turn, "x"),
    annotated,
    wrapped,
    of_turn,
    of_unknown,
    of_protocol,
    of_object,
    of_subclass,
    of_either,
]


@pytest.mark.parametrize("handler", WORKING)
def test_a_prompt_handler_that_may_work_is_accepted(handler: Any) -> None:
    assert Agent[Settings]("tested").on_prompt(handler) is handler


REGISTRATIONS: list[Callable[[Any, Any], Any]] = [
    lambda agent, handler: agent.on_open(handler),
    lambda agent, handler: agent.command("x", "X")(handler),
    lambda agent, handler: agent.extension("_x")(handler),
    lambda agent, handler: agent.login("x", "X")(handler),
    lambda agent, handler: agent.on_logout(handler),
    lambda agent, handler: agent.on_login_status(handler),
]


@pytest.mark.parametrize("register", REGISTRATIONS)
def test_every_other_handler_is_checked_too(register: Callable[[Any, Any], Any]) -> None:
    async def three(a: int, b: int, c: int) -> None: ...

    agent = Agent[Settings]("tested")
    with pytest.raises(TypeError, match="is not a coroutine function"):
        register(agent, sync_handler)
    with pytest.raises(TypeError, match="must take"):
        register(agent, three)


def test_a_hook_for_requests_must_be_a_plain_function() -> None:
    agent = Agent[Settings]("tested")
    wrong: Any = lambda: None  # noqa: E731  # a lambda is what is tested
    with pytest.raises(TypeError, match="use `def`"):
        agent.on_request(good)
    with pytest.raises(TypeError, match="one parameter"):
        agent.on_request(wrong)


MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda turn: turn.tool("x", kind="reed"), "'reed' is not a kind of a tool call.*did you mean 'read'"),
    (
        lambda turn: turn.tool("x").update(status="done"),
        "'done' is not a status of a tool call; use one of pending",
    ),
    (lambda turn: turn.tool("x").update(kind="write"), "'write' is not a kind of a tool call"),
    (lambda turn: turn.tool("x").show("y", status="complete"), "did you mean 'completed'"),
    (lambda turn: turn.notify("x", severity="warn"), "'warn' is not a severity.*did you mean 'warning'"),
    (lambda turn: turn.stop("refuse"), "'refuse' is not a stop reason"),
    (lambda turn: turn.report_compaction("c", "done"), "'done' is not a status of a compaction"),
    (lambda turn: turn.plan(PlanEntry("x", status="done")), "'done' is not a status of a plan's step"),
    (lambda turn: turn.plan(PlanEntry("x", priority="top")), "'top' is not a priority of a plan's step"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
async def test_a_value_that_the_protocol_does_not_list_fails_the_turn_and_names_those_it_lists(
    tmp_path: Path, mistake: Callable[[Any], Any], message: str
) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        made = mistake(turn)
        if asyncio.iscoroutine(made):
            await made

    async with asyncio.timeout(60), client_for(agent_with(answer, debug=True), tmp_path) as client:
        with pytest.raises(InternalError, match=message):
            await client.prompt(await client.new(), "go")


def line_of(function: Callable[..., Any], text: str) -> int:
    """Return the number of the line of a function that contains a text."""
    code = function.__code__
    lines = Path(code.co_filename).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if n > code.co_firstlineno and text in line)


async def fails(tmp_path: Path, answer: Any) -> str:
    """Return the text of the error with which a turn fails; the next turn works."""
    is_first = True

    async def once(turn: Turn[Settings]) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            await answer(turn)

    async with asyncio.timeout(60), client_for(agent_with(once), tmp_path) as client:
        session = await client.new()
        with pytest.raises(RequestError) as caught:
            await client.prompt(session, "go")
        assert (await client.prompt(session, "go")).stop_reason == "end_turn"
    return str(caught.value)


async def test_a_call_without_await_fails_the_turn_and_names_its_line(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        turn.say("never sent")  # type: ignore[unused-coroutine]  # the mistake
        await turn.say("sent")

    error = await fails(tmp_path, answer)

    assert f"`say` was called without `await` at test_diagnostics.py:{line_of(answer, 'never sent')}" in error


async def test_so_does_one_of_a_tool_call_a_file_or_the_session(tmp_path: Path) -> None:
    async def show(turn: Turn[Settings]) -> None:
        async with turn.tool("Read") as tool:
            tool.show("x")  # type: ignore[unused-coroutine]  # the mistake

    async def write(turn: Turn[Settings]) -> None:
        turn.files.write("x", "y")  # type: ignore[unused-coroutine]  # the mistake

    async def set_option(turn: Turn[Settings]) -> None:
        turn.session.set_commands([])  # type: ignore[unused-coroutine]  # the mistake

    for answer, name in ((show, "show"), (write, "write"), (set_option, "set_commands")):
        line = line_of(answer, f".{name}(")
        assert f"`{name}` was called without `await` at test_diagnostics.py:{line}" in await fails(tmp_path, answer)


async def test_so_does_one_of_a_terminal(tmp_path: Path) -> None:
    async def wait(turn: Turn[Settings]) -> None:
        async with turn.terminal(sys.executable, "-c", "") as terminal:
            terminal.wait()  # type: ignore[unused-coroutine]  # the mistake

    error = await fails(tmp_path, wait)

    assert f"`wait` was called without `await` at test_diagnostics.py:{line_of(wait, '.wait(')}" in error


async def test_a_result_that_is_tested_without_await_is_neither_true_nor_false(tmp_path: Path) -> None:
    acted: list[str] = []

    async def permission(turn: Turn[Settings]) -> None:
        async with turn.tool("Delete") as tool:
            mistake: Any = tool.request_permission()
            if mistake:  # here
                acted.append("deleted")

    async def option(turn: Turn[Settings]) -> None:
        async with turn.tool("Delete") as tool:
            mistake: Any = tool.request_permission_option()
            if not mistake:  # here
                acted.append("kept")

    async def open_page(turn: Turn[Settings]) -> None:
        mistake: Any = turn.elicit_url("Visit", "https://example.com")
        if mistake:  # here
            acted.append("visited")

    mistakes = (permission, "request_permission"), (option, "request_permission_option"), (open_page, "elicit_url")
    for answer, name in mistakes:
        error = await fails(tmp_path, answer)
        assert f"`{name}` was used without `await` at test_diagnostics.py:{line_of(answer, '# here')}" in error
        assert f"write `if await ….{name}(…):`" in error
    assert acted == []


async def test_a_result_without_await_has_no_attributes_and_says_why(tmp_path: Path) -> None:
    async def run(turn: Turn[Settings]) -> None:
        result: Any = turn.run("true")
        await turn.say(str(result.ok))

    async def plan(turn: Turn[Settings]) -> None:
        steps: Any = turn.plan("Read")
        async with steps.step():
            pass

    for answer, name, attribute in ((run, "run", "ok"), (plan, "plan", "step")):
        async with asyncio.timeout(60), client_for(agent_with(answer, debug=True), tmp_path) as client:
            with pytest.raises(InternalError, match=rf"`{name}` was called without `await`.*no `{attribute}`"):
                await client.prompt(await client.new(), "go")


async def test_a_result_can_be_awaited_in_a_task_of_its_own(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("Read") as tool:
            asked = asyncio.create_task(tool.request_permission())
            await turn.say(f"{await asked}")

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        await client.prompt(await client.new(), "go")
        assert client.text in ("True", "False")


async def test_a_block_that_is_not_entered_fails_the_turn_and_names_its_line(tmp_path: Path) -> None:
    async def tool(turn: Turn[Settings]) -> None:
        turn.tool("Read")
        await turn.say("read")

    async def in_a_variable(turn: Turn[Settings]) -> None:
        stored = turn.tool("Read")
        await turn.say(stored.status)

    async def step(turn: Turn[Settings]) -> None:
        plan = await turn.plan("Read")
        plan.step()

    async def terminal(turn: Turn[Settings]) -> None:
        turn.terminal("true")

    for answer, call, text in (
        (tool, "turn.tool", "turn.tool("),
        (in_a_variable, "turn.tool", "turn.tool("),
        (step, "plan.step", ".step("),
        (terminal, "turn.terminal", ".terminal("),
    ):
        error = await fails(tmp_path, answer)
        line = line_of(answer, text)
        assert f"`{call}(…)` was called without `async with` at test_diagnostics.py:{line}; write" in error


async def test_a_tool_call_that_is_not_entered_cannot_be_used(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        tool = turn.tool("Read")
        with pytest.raises(RuntimeError, match=r"was not announced; write `async with turn\.tool"):
            await tool.show("x")
        with pytest.raises(RuntimeError, match="was not announced"):
            await tool.request_permission()

    assert "without `async with`" in await fails(tmp_path, answer)


async def test_so_does_one_before_the_turn_is_stopped(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        turn.say("x")  # type: ignore[unused-coroutine]  # the mistake
        turn.stop("refusal")

    assert "`say` was called without `await`" in await fails(tmp_path, answer)


async def test_a_call_that_was_stored_names_its_line_where_origins_are_tracked(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        stored = turn.say("x")
        del stored

    async def until_the_end(turn: Turn[Settings]) -> None:
        stored = turn.plan("x")
        assert stored is not None

    assert "(`python -X dev` shows the line)" in await fails(tmp_path, answer)
    assert "`plan` was called without `await` (`python -X dev`" in await fails(tmp_path, until_the_end)
    depth = sys.get_coroutine_origin_tracking_depth()
    sys.set_coroutine_origin_tracking_depth(1)
    try:
        assert f"at test_diagnostics.py:{line_of(answer, 'stored =')}" in await fails(tmp_path, answer)
        sys.set_coroutine_origin_tracking_depth(2)
        line = line_of(until_the_end, "stored =")
        assert f"at test_diagnostics.py:{line}" in await fails(tmp_path, until_the_end)
    finally:
        sys.set_coroutine_origin_tracking_depth(depth)


async def test_a_handler_that_returns_its_answer_is_named_with_its_line(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> str:
        return "Hello"

    agent = agent_with(answer)
    agent.command("greet", "Greet")(lambda turn, argument: answer(turn))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        session = await client.new()
        with pytest.raises(InternalError, match=r"answer \(test_diagnostics.py:\d+\) returned .*await turn.say"):
            await client.prompt(session, "go")
        with pytest.raises(InternalError, match=r"lambda> \(test_diagnostics.py:\d+\) returned a value of type str"):
            await client.prompt(session, "/greet me")


async def test_an_error_of_the_handler_itself_comes_first(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        turn.say("x")  # type: ignore[unused-coroutine]  # the mistake
        raise RequestError("the cause", code=-32000)

    assert await fails(tmp_path, answer) == "the cause"


async def test_other_coroutines_are_reported_by_the_interpreter_as_ever(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            good(turn)  # type: ignore[unused-coroutine]  # the mistake
            gc.collect()
        await turn.say(str([str(each.message) for each in caught]))

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        await client.prompt(await client.new(), "go")
        assert client.text == "[\"coroutine 'good' was never awaited\"]"


async def test_a_program_logs_the_file_and_line_of_a_call_without_await(tmp_path: Path) -> None:
    agent = tmp_path / "forgetful.py"
    agent.write_text(
        "from duologue import Agent, Turn\n"
        "agent = Agent('forgetful')\n"
        "@agent.on_prompt\n"
        "async def answer(turn: Turn) -> None:\n"
        "    turn.say('hello')\n"
        "agent.run()\n"
    )
    async with program(agent, tmp_path) as (client, stderr):
        with pytest.raises(InternalError, match=r"without `await` at forgetful.py:5"):
            await client.prompt(await client.new(), "hello")
    assert f"`say` was called without `await`, so nothing was sent: {agent}:5" in stderr.decode()


async def test_a_plan_of_something_else_than_steps_fails_the_turn_and_names_what_to_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps: Any = ["a", "b"]

    async def one_list(turn: Turn[Settings]) -> None:
        await turn.plan(steps)

    async def number(turn: Turn[Settings]) -> None:
        # the wrong type is the mistake that must be reported
        await turn.plan("a", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    await fails(tmp_path, one_list)
    assert "must be a string or a `PlanEntry`, got list; write `*` before it: `turn.plan(*steps)`" in caplog.text
    await fails(tmp_path, number)
    assert "must be a string or a `PlanEntry`, got int\n" in caplog.text


async def test_run_inside_a_coroutine_names_what_to_write_instead() -> None:
    with pytest.raises(RuntimeError, match=r"one is running already: write `await agent.serve\(StdioTransport\(\)\)`"):
        agent_with().run()
    with pytest.raises(RuntimeError, match=r"one is running already: write `agent.asgi\(\)`"):
        agent_with().run(ws=0)
