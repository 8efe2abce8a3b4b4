"""Scripts played as the client: against agent objects, functions, other scripts, programs and servers."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from duologue import Agent, Turn
from duologue.errors import StartError
from duologue.testing import (
    AgentTester,
    Scenario,
    ScenarioFailed,
    Script,
    ScriptedClient,
    Step,
    VirtualClock,
    builtin_agent,
    drive,
)
from duologue.testing.script import read_script
from duologue.testing.script_variables import UnknownVariable, Variables, value_at
from duologue.transports.base import Transport
from tests.builtin.harness import PROGRAM

EXAMPLE = Path(__file__).parents[2] / "examples" / "client_script.toml"


async def echo(prompt: str) -> str:
    return f"You said: {prompt}"  # not prose


def janitor(kind: Literal["delete", "move"] = "delete") -> Agent[Any]:
    agent = Agent("janitor")

    @agent.on_prompt
    async def answer(turn: Turn) -> None:
        name = turn.text.removeprefix("delete ")
        async with turn.tool(f"Delete {name}", kind=kind, locations=[name]) as tool:
            if await tool.request_permission():
                (turn.cwd / name).unlink()

    return agent


def prompt(text: str = "hello", id_: Any = 1) -> Step:
    params = {"sessionId": "$session", "prompt": [{"type": "text", "text": text}]}
    return Step(send={"id": id_, "method": "session/prompt", "params": params})


END = Step(expect={"id": 1, "result": {"stopReason": "end_turn"}})


async def test_the_example_deletes_the_file_that_a_test_names(tmp_path: Path) -> None:
    (tmp_path / "other.txt").touch()
    async with asyncio.timeout(60):
        run = await drive(janitor(), EXAMPLE, variables={"file": "other.txt"}, cwd=tmp_path)

    assert not (tmp_path / "other.txt").exists()
    assert run.variables["option"]
    assert run.received[0]["result"]["agentInfo"]["name"] == "janitor"
    assert str(run).startswith("-> initialize #setup-1 {")


async def test_an_agent_that_deviates_is_reported_with_the_messages(tmp_path: Path) -> None:
    (tmp_path / "old.txt").touch()
    with pytest.raises(ScenarioFailed) as caught:
        async with asyncio.timeout(60):
            await drive(janitor("move"), EXAMPLE, cwd=tmp_path)

    assert str(caught.value).startswith("step 2: session/update was expected, but it.method is")
    [note] = caught.value.__notes__
    assert re.search(r"-> session/prompt #prompt-1 .*\n  <- session/update", note)


async def test_a_program_is_driven_and_ended(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        run = await ScriptedClient([prompt("/say hello"), END]).run([*PROGRAM], cwd=tmp_path)

    assert run.variables["agent"]["protocolVersion"] == 1


async def test_a_program_that_ends_is_reported_with_its_stderr(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import sys; sys.stdin.readline(); print('oh no', file=sys.stderr); sys.exit(3)"]
    with pytest.raises(ScenarioFailed, match=r"setup 2: the agent disconnected .*exited with code 3") as caught:
        async with asyncio.timeout(60):
            await drive(program, [], cwd=tmp_path)

    assert "oh no" in "\n".join(caught.value.__notes__)
    with pytest.raises(StartError):
        await drive(["no-such-program-anywhere"], [], cwd=tmp_path)


async def test_the_fixture_drives_in_the_directory_of_the_test(acp: AgentTester, tmp_path: Path) -> None:
    run = await acp.drive(echo, [prompt(), END])

    assert run.variables["cwd"] == str(tmp_path)


async def test_a_script_without_setup_sends_nothing_by_itself() -> None:
    early = Step(send={"id": 1, "method": "session/new", "params": {}})
    script = Script(setup=False, step=[early, Step(expect={"id": 1, "error": {"code": "*"}})])

    run = await drive(builtin_agent(), script)
    assert [each.direction for each in run.frames] == ["sent", "received"]


async def test_a_script_that_initializes_is_not_set_up_twice() -> None:
    script = Script(
        step=[
            Step(send={"id": 0, "method": "initialize", "params": {"protocolVersion": 1}}),
            Step(expect={"id": 0, "result": {"protocolVersion": 1}}),
        ]
    )

    assert len((await drive(echo, script)).frames) == 2


ASKING = Script(
    step=[
        Step(expect="session/prompt"),
        Step(send={"method": "session/update", "params": {"update": {"sessionUpdate": "plan", "entries": []}}}),
        Step(send={"id": "a", "method": "ask", "params": {"options": [{"id": "first"}, {"id": "second"}]}}),
        Step(expect={"id": "a", "result": {"chosen": "second"}}),
        Step(reply={"result": {"stopReason": "end_turn"}}),
    ]
)


async def test_answers_may_use_the_request() -> None:
    script = Script(answers={"ask": {"result": {"chosen": "$request.params.options.1.id"}}}, step=[prompt(), END])

    await drive(Scenario(ASKING), script)


async def test_messages_are_expected_in_any_order() -> None:
    update = {"method": "session/update"}
    script = [
        prompt(),
        Step(expect_all=["ask", update]),
        Step(reply={"result": {"chosen": "second"}}, to="ask"),
        END,
    ]
    await drive(Scenario(ASKING), script)
    with pytest.raises(ScenarioFailed, match="one of other and ask was expected, but none is like it"):
        await drive(Scenario(ASKING), Script(ignore=[], step=[prompt(), Step(expect_all=["other", "ask"])]))


@pytest.mark.parametrize("excluded", ["session/update", "*", {"params": {"update": {"sessionUpdate": "plan"}}}])
async def test_a_message_that_must_not_come_before_another_fails_the_script(excluded: Any) -> None:
    steps = [prompt(), Step(expect="ask", without=[excluded])]

    with pytest.raises(ScenarioFailed, match="step 2: the step is `without` this message before ask"):
        await drive(Scenario(ASKING), steps)


async def test_a_message_that_may_come_later_is_no_failure() -> None:
    steps = [
        prompt(),
        Step(expect="ask", without=[{"id": 1}]),
        Step(reply={"result": {"chosen": "second"}}),
        END,
    ]

    await drive(Scenario(ASKING), steps)


async def test_updates_are_only_ignored_unless_the_script_names_what_to_ignore() -> None:
    with pytest.raises(ScenarioFailed, match=r'step 2: ask was expected, but it.method is "session/update"'):
        await drive(Scenario(ASKING), Script(ignore=[], step=[prompt(), Step(expect="ask")]))


async def test_an_agent_that_does_not_answer_in_time_fails_the_script(virtual_time: VirtualClock) -> None:
    with pytest.raises(ScenarioFailed, match="step 2: a response to 1 did not arrive in time"):
        await drive(Scenario(Script(step=[Step(expect="session/prompt")])), [prompt(), Step(expect={"id": 1})])
    assert virtual_time.elapsed == pytest.approx(60)


class Unread:
    """An agent that answers the setup and then reads nothing."""

    async def serve(self, transport: Transport) -> None:
        for id_, result in (("setup-1", "{}"), ("setup-2", '{"sessionId":"s"}')):
            transport.send(f'{{"jsonrpc":"2.0","id":"{id_}","result":{result}}}'.encode())
        await asyncio.Event().wait()


async def test_an_agent_that_does_not_read_fails_the_script(virtual_time: VirtualClock) -> None:
    flood = Step(raw="x" * 1_000_000, times=40)

    with pytest.raises(ScenarioFailed, match=r"the agent does not read: output waited for 0.1 s"):
        await drive(Unread(), Script(within=0.1, step=[flood]))


async def test_a_variable_without_a_value_is_named() -> None:
    with pytest.raises(ScenarioFailed, match=r"step 1: \$sesion has no value; known are: \$agent, \$cwd, \$session"):
        await drive(echo, [Step(send={"method": "x", "params": {"sessionId": "$sesion"}})])


async def test_a_part_that_is_not_there_cannot_be_captured() -> None:
    steps = [prompt(), Step(expect={"id": 1}, capture={"x": "result.usage.tokens"})]

    with pytest.raises(ScenarioFailed, match=r"step 2: cannot capture result.usage.tokens: there is no usage in "):
        await drive(echo, steps)


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ("loop = true\n[[step]]\nexpect = 'x'", "`loop` is for the script of an agent"),
        ("[[step]]\nend = 0\ntorn = 'x'", "`torn` is for the script of an agent"),
        ("[[step]]\nsend = {}\nwithout = ['x']", "`without` is only allowed with expect or expect_all"),
        ("[[step]]\nexpect_all = ['x']\ncapture = { a = 'b' }", "`capture` is only allowed with expect"),
        ("[[step]]\nexpect = 'x'\ncapture = { 'a-b' = 'b' }", "'a-b' cannot be the name of a variable"),
        ("[variables]\n'1' = 2", "'1' cannot be the name of a variable"),
        ("[[step]]\nexpect_all = []", "`expect_all` needs at least one message"),
    ],
)
def test_a_script_that_no_client_can_play_is_refused(tmp_path: Path, toml: str, problem: str) -> None:
    (tmp_path / "broken.toml").write_text(toml)

    with pytest.raises(ValueError, match=re.escape(problem)):
        ScriptedClient(tmp_path / "broken.toml")


async def test_an_agent_may_capture_as_well_and_old_scripts_keep_their_dollars(tmp_path: Path) -> None:
    text = """
        [[step]]
        expect = "session/prompt"
        capture = { text = "params.prompt.0.text" }
        [[step]]
        reply.result = { stopReason = "end_turn", _meta = { echo = "$text", more = "say ${text}" } }
    """
    (tmp_path / "agent.toml").write_text(text)
    echoed = {"echo": "hello", "more": "say hello"}
    await drive(Scenario(tmp_path / "agent.toml"), [prompt(), Step(expect={"id": 1, "result": {"_meta": echoed}})])

    (tmp_path / "agent.toml").write_text(text.replace('capture = { text = "params.prompt.0.text" }', ""))
    literal = {"echo": "$text", "more": "say ${text}"}
    assert not read_script(tmp_path / "agent.toml").has_variables
    run = await drive(Scenario(tmp_path / "agent.toml"), [prompt(), Step(expect={"id": 1})])
    assert run.received[-1]["result"]["_meta"] == literal


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ("$a", 1),
        ("$a!", "$a!"),
        ("${a}!", "1!"),
        ("$b.c.0", "x"),
        ({"k": ["$b", "$5", "5 $"]}, {"k": [{"c": ["x"]}, "$5", "5 $"]}),
        (7, 7),
    ],
)
def test_variables_are_filled_in(value: Any, filled: Any) -> None:
    assert Variables({"a": 1, "b": {"c": ["x"]}}, is_strict=True).fill(value) == filled


def test_an_unknown_variable_is_an_error_only_where_variables_are_used() -> None:
    assert Variables({}, is_strict=False).fill("$x") == "$x"
    with pytest.raises(UnknownVariable, match=r"\$x has no value; known are: none"):
        Variables({}, is_strict=True).fill("$x")
    with pytest.raises(UnknownVariable, match=r"\$a.b"):
        Variables({"a": 1}, is_strict=True).fill("$a.b")
    with pytest.raises(LookupError):
        value_at([1], "1")
