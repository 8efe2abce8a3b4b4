"""Scripted conversations: played as written, and failing loudly when the client does something else."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duologue.errors import AgentExited
from duologue.testing.message_pattern import difference
from duologue.testing.scenario import Scenario
from duologue.testing.script import Script, Step, read_script
from duologue.testing.script_player import ScenarioFailed
from duologue.transports.base import Transport
from duologue.transports.memory import memory_pair
from tests.builtin.harness import PROGRAM, process

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenario.toml"


def message(**fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **fields}


class Client:
    """The client of a scenario, frame by frame."""

    def __init__(self, transport: Transport, playing: asyncio.Task[Step | None]) -> None:
        self.playing = playing
        self._transport = transport
        self._frames: list[bytes] = []

    def send(self, **fields: Any) -> None:
        self._transport.send(msgspec.json.encode(message(**fields)))

    def send_raw(self, line: bytes) -> None:
        self._transport.send(line)

    async def receive(self) -> Any:
        return msgspec.json.decode(await self.receive_raw())

    async def receive_raw(self) -> bytes:
        if not self._frames:
            self._frames = await self._transport.receive()
        return self._frames.pop(0)

    async def leave(self) -> Step | None:
        """Close our end; how the scenario ended."""
        await self._transport.aclose()
        return await self.playing


@asynccontextmanager
async def played(toml: str | Script, tmp_path: Path) -> AsyncGenerator[Client]:
    """Play a scenario in memory."""
    if isinstance(toml, str):
        path = tmp_path / "scenario.toml"
        path.write_text(toml)
        scenario = Scenario(path)
    else:
        scenario = Scenario(toml)
    near, far = memory_pair()
    async with asyncio.timeout(60), near:
        playing = asyncio.ensure_future(scenario.play(far))
        try:
            yield Client(near, playing)
        finally:
            playing.cancel()


async def test_a_script_may_begin_with_the_first_prompt(tmp_path: Path) -> None:
    script = """
        [[step]]
        expect = "session/prompt"
        [[step]]
        reply.result = { stopReason = "end_turn" }
    """
    async with played(script, tmp_path) as client:
        client.send(id=0, method="initialize", params={"protocolVersion": 1})
        assert (await client.receive())["result"]["protocolVersion"] == 1
        client.send(id=1, method="session/new", params={})
        assert await client.receive() == message(id=1, result={"sessionId": "scenario"})
        client.send(id=2, method="session/prompt", params={})
        assert await client.receive() == message(id=2, result={"stopReason": "end_turn"})
        assert await client.leave() is None


async def test_answers_of_the_script_come_before_those_that_are_always_there(tmp_path: Path) -> None:
    script = """
        answers.initialize = { error = { code = -32000, message = "no" } }
        answers."session/list" = { result = { sessions = [] } }
    """
    async with played(script, tmp_path) as client:
        client.send(id="a", method="initialize")
        assert await client.receive() == message(id="a", error={"code": -32000, "message": "no"})
        client.send(id="b", method="session/list")
        assert await client.receive() == message(id="b", result={"sessions": []})


async def test_replies_go_to_the_request_that_is_meant(tmp_path: Path) -> None:
    script = """
        [[step]]
        expect = "first"
        [[step]]
        expect = "second"
        [[step]]
        reply = { result = 1 }
        to = "first"
        [[step]]
        reply = { error = { code = 1, message = "2" } }
    """
    async with played(script, tmp_path) as client:
        client.send(id=1, method="first")
        client.send(id=2, method="second")
        assert await client.receive() == message(id=1, result=1)
        assert await client.receive() == message(id=2, error={"code": 1, "message": "2"})


async def test_a_request_of_the_agent_waits_for_its_answer(tmp_path: Path) -> None:
    script = """
        [[step]]
        send = { id = "q", method = "ask" }
        [[step]]
        expect = { id = "q", result = { answer = "*" } }
        [[step]]
        send = { method = "thanks" }
    """
    async with played(script, tmp_path) as client:
        assert await client.receive() == message(id="q", method="ask")
        client.send(id="q", result={"answer": 42, "more": True})
        assert await client.receive() == message(method="thanks")


async def test_faults_are_sent_as_they_are_and_as_often_as_wanted(tmp_path: Path) -> None:
    script = """
        [[step]]
        raw = "not a message"
        times = 2
        [[step]]
        raw_hex = "7b ff 7d"
        [[step]]
        send = { method = "again" }
        times = 3
        [[step]]
        end = 7
        torn = "{"
    """
    async with played(script, tmp_path) as client:
        frames = [await client.receive_raw() for _ in range(6)]
        assert frames[:3] == [b"not a message", b"not a message", b"{\xff}"]
        assert [msgspec.json.decode(frame) for frame in frames[3:]] == [message(method="again")] * 3
        assert await client.playing == Step(end=7, torn="{")


async def test_a_delay_comes_before_its_step() -> None:
    near, far = memory_pair()
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(60), near:
        playing = asyncio.ensure_future(Scenario(Script(step=[Step(delay=0.1), Step(end=0, delay=0.1)])).play(far))
        await playing
    assert loop.time() - began >= 0.19


async def test_a_loop_starts_over_until_the_client_leaves(tmp_path: Path) -> None:
    script = """
        loop = true
        [[step]]
        expect = "session/prompt"
        [[step]]
        reply.result = {}
    """
    async with played(script, tmp_path) as client:
        for number in range(3):
            client.send(id=number, method="session/prompt")
            assert (await client.receive())["id"] == number
        assert await client.leave() is None


async def test_ignored_methods_are_ignored(tmp_path: Path) -> None:
    script = """
        ignore = ["session/cancel"]
        [[step]]
        expect = "end"
        [[step]]
        end = 0
    """
    async with played(script, tmp_path) as client:
        client.send(method="session/cancel", params={})
        client.send(method="$/cancel_request", params={})
        client.send(method="end")
        assert await client.playing == Step(end=0)


EXPECT_A_PROMPT = """
    [[step]]
    expect = { method = "session/prompt", params = { prompt = [{ text = "hello" }] } }
"""


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"method": "session/cancel"}, 'it.method is "session/cancel", not "session/prompt"'),
        ({"id": 5, "method": "session/list"}, 'it.method is "session/list"'),
        ({"id": 5, "method": "session/prompt"}, "it has no params"),
        ({"id": 5, "method": "session/prompt", "params": {"prompt": []}}, "it.params.prompt has 0 members, not 1"),
        (
            {"id": 5, "method": "session/prompt", "params": {"prompt": [{"text": "bye"}]}},
            'it.params.prompt[0].text is "bye", not "hello"',
        ),
        ({"id": 5, "result": {}}, "it has no method"),
    ],
)
async def test_another_message_than_the_expected_one_fails_and_says_where(
    tmp_path: Path, sent: dict[str, Any], problem: str
) -> None:
    async with played(EXPECT_A_PROMPT, tmp_path) as client:
        client.send(**sent)
        if "method" in sent and "id" in sent:
            assert problem in (await client.receive())["error"]["message"]
        with pytest.raises(ScenarioFailed) as caught:
            await client.playing
        assert f"step 1: session/prompt was expected, but {problem}" in str(caught.value)


async def test_a_client_that_leaves_too_early_fails_the_scenario(tmp_path: Path) -> None:
    async with played(EXPECT_A_PROMPT, tmp_path) as client:
        with pytest.raises(ScenarioFailed, match="step 1: the client disconnected while session/prompt was expected"):
            await client.leave()


@pytest.mark.parametrize(
    "script",
    [
        "[[step]]\nexpect = 'x'\nwithin = 0.05",
        "within = 0.05\n[[step]]\nexpect = 'x'",
        "within = 60\n[[step]]\nexpect = 'x'\nwithin = 0.05",
    ],
)
async def test_a_message_that_does_not_arrive_in_time_fails_the_scenario(tmp_path: Path, script: str) -> None:
    async with played(script, tmp_path) as client:
        with pytest.raises(ScenarioFailed, match="step 1: x did not arrive in time"):
            await client.playing


async def test_an_answer_that_never_comes_is_named_by_its_id(tmp_path: Path) -> None:
    async with played("[[step]]\nexpect = { id = 'q' }\n", tmp_path) as client:
        with pytest.raises(ScenarioFailed, match="while a response to 'q' was expected"):
            await client.leave()


async def test_a_request_after_the_last_step_fails_the_scenario(tmp_path: Path) -> None:
    async with played("", tmp_path) as client:
        client.send(method="session/cancel")
        client.send(id=9, method="session/prompt")
        assert (await client.receive())["error"]["code"] == -32601
        with pytest.raises(ScenarioFailed, match="the scenario has ended, and has no answer to session/prompt"):
            await client.playing


async def test_a_line_that_is_no_message_fails_the_scenario(tmp_path: Path) -> None:
    async with played(EXPECT_A_PROMPT, tmp_path) as client:
        client.send_raw(b"[]")
        with pytest.raises(ScenarioFailed, match="the client sent an invalid message"):
            await client.playing


async def test_a_reply_without_a_request_fails_the_scenario(tmp_path: Path) -> None:
    async with played("[[step]]\nreply.result = {}\n", tmp_path) as client:
        with pytest.raises(ScenarioFailed, match="step 1: no request is waiting for a reply"):
            await client.playing


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ("step = [", "Invalid value"),
        ("[[step]]\nexpct = 'x'", "`expct` - at `$.step[0]`"),
        ("[[step]]\nexpect = 'x'\nsend = {}", "a step must have one action, not expect and send - at `$.step[0]`"),
        ("[[step]]\n", "a step needs an action"),
        ("[[step]]\nend = 0\n[[step]]\ndelay = 1", "`end` must be the last step"),
        ("[[step]]\nend = 'explode'", "Invalid enum value 'explode' - at `$.step[0].end`"),
        ("[[step]]\nend = 0\nwithin = 1", "`within` is only allowed with expect"),
        ("[[step]]\nraw_hex = 'xy'", "non-hexadecimal"),
        ("[[step]]\nreply = {}", "a reply needs either a result or an error"),
        ("loop = true\n[[step]]\ndelay = 1", "a loop needs at least one `expect`"),
        ("steps = []", "`steps`"),
    ],
)
def test_a_file_that_is_no_script_is_refused_by_place(tmp_path: Path, toml: str, problem: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(toml)

    with pytest.raises(ValueError, match=re.escape(problem)):
        read_script(path)


def test_yaml_says_the_same_as_toml(tmp_path: Path) -> None:
    toml, yaml = tmp_path / "a.toml", tmp_path / "a.yaml"
    toml.write_text("loop = true\n[[step]]\nexpect = 'x'\n[[step]]\nend = 'kill'\ndelay = 0.5\n")
    yaml.write_text("loop: true\nstep:\n  - expect: x\n  - {end: kill, delay: 0.5}\n")

    assert read_script(yaml) == read_script(toml)
    yaml.write_text("step: [")
    with pytest.raises(ValueError, match="expected the node content"):
        read_script(yaml)


def test_without_the_package_yaml_is_refused_and_toml_is_recommended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.yml").write_text("loop: true")
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(ValueError, match="YAML needs the package PyYAML; install it, or write the scenario as TOML"):
        read_script(tmp_path / "a.yml")


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        ({}, {"a": 1}, None),
        ({"a": 1}, {"a": 1, "b": 2}, None),
        ({"a": {"b": "*"}}, {"a": {"b": None}}, None),
        ({"a": {"b": "*"}}, {"a": {}}, "it.a has no b"),
        ([1, "*"], [1, 2], None),
        (1, True, "it is true, not 1"),
        (1, 1.0, None),
        ({"a": 1}, [1], 'it is [1], not {"a":1}'),
        ("x" * 300, "", f'it is "", not "{"x" * 199}…'),
    ],
)
def test_only_what_the_pattern_names_must_fit(pattern: Any, value: Any, found: str | None) -> None:
    assert difference(pattern, value) == found


async def test_the_example_is_played_by_the_real_program_to_its_violent_end(tmp_path: Path) -> None:
    async with process(tmp_path, "--scenario", str(EXAMPLE)) as harness:
        harness.session = await harness.client.new()
        assert await harness.ask("anything") == "May I? "
        assert len(harness.asked) == 1
        with pytest.raises(AgentExited) as caught:
            await harness.prompt("crash")
        assert "3" in str(caught.value)


async def test_a_client_that_does_something_else_sees_the_program_end_and_say_why(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(EXPECT_A_PROMPT)

    async with process(tmp_path, "--scenario", str(path)) as harness:
        harness.session = await harness.client.new()
        with pytest.raises(Exception, match='text is "bye", not "hello"'):
            await harness.prompt("bye")
        with pytest.raises(AgentExited, match="step 1: session/prompt was expected"):
            await harness.prompt("hello")


@pytest.mark.parametrize(
    ("script", "code", "output"),
    [
        ("[[step]]\nend = 7\ntorn = 'half a'", 7, b"half a"),
        ("[[step]]\nend = 'kill'\ntorn = 'x'", -9, b"x"),
        ("[[step]]\nend = 'close'", 0, b""),
        ("", 0, b""),
        ("[[step]]\nexpect = 'x'", 1, b""),
        ("nonsense", 2, b""),
    ],
)
def test_the_program_ends_as_the_script_says(tmp_path: Path, script: str, code: int, output: bytes) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(script)

    ended = subprocess.run([*PROGRAM, "--scenario", str(path)], input=b"", capture_output=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout) == (code, output)
    assert (str(path) in ended.stderr.decode()) == (code in (1, 2))


def test_a_closed_stdout_is_an_end_for_the_client_while_the_program_stays(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text("[[step]]\nend = 'close'")

    with subprocess.Popen(
        [*PROGRAM, "--scenario", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.read() == b""
        assert program.poll() is None
        program.stdin.close()
        assert program.wait(10) == 0
