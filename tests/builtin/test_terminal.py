"""/run and /test: in the editor's terminal, or as a process of the agent's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import client_for
from tests.builtin.harness import Harness, open_harness


async def test_a_command_is_asked_for_and_run_in_one_tool_call(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        text = await harness.ask("/run sh -c 'echo hello; exit 3'")

        (call,) = harness.of(v1.ToolCall)
        assert (call.kind, call.title) == ("execute", "sh -c 'echo hello; exit 3'")
        assert harness.asked[0].tool_call.tool_call_id == call.tool_call_id
        assert harness.asked[0].tool_call.raw_input == {"command": ["sh", "-c", "echo hello; exit 3"]}
        assert harness.shown == [v1.Content(content=v1.TextContent(text="hello\n"))]
        assert harness.status == "failed"
        ran = {"output": "hello\n", "exitCode": 3, "signal": None, "timedOut": False}
        assert harness.of(v1.ToolCallUpdate)[-1].raw_output == ran
        assert "It ended with 3 and printed 6 characters" in text


async def test_a_rejected_command_does_not_run(tmp_path: Path) -> None:
    async with open_harness(tmp_path, choose="reject_once") as harness:
        assert "I ran nothing" in await harness.ask(f"/run touch {tmp_path}/was-here")
        assert harness.status == "failed"
        assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("/run", "It ended with 0 and printed 6 characters"),
        ("run echo hi", "It ended with 0 and printed 3 characters"),
        ("/run no-such-program", "It could not be run"),
        ("/run 'half a quote", "I cannot read that command: No closing quotation"),
        ("/test", "I see no tests here"),
    ],
)
async def test_the_outcome_of_a_command_is_reported(tmp_path: Path, command: str, text: str) -> None:
    async with open_harness(tmp_path) as harness:
        assert text in await harness.ask(command)


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("Makefile", "build:\ntest: build\n", "make test"),
        ("pyproject.toml", "", "python3 -m pytest"),
        ("package.json", '{"scripts": {"test": "jest"}}', "npm test"),
        ("Cargo.toml", "", "cargo test"),
        ("go.mod", "", "go test ./..."),
    ],
)
async def test_the_tests_of_a_project_are_what_its_files_say(
    tmp_path: Path, name: str, text: str, command: str
) -> None:
    (tmp_path / name).write_text(text)

    async with open_harness(tmp_path, choose="reject_once") as harness:
        await harness.ask("run the tests")
        assert harness.asked[0].tool_call.title == command


async def test_a_command_runs_in_the_editors_terminal_where_it_has_one_and_the_terminal_is_released(
    tmp_path: Path,
) -> None:
    calls: list[Any] = []
    async with client_for(builtin_agent(), tmp_path, terminal=True) as client:
        harness = Harness(client, "allow_once")

        @client.handlers.on(v1.TERMINAL_CREATE)
        async def create(context: Context, params: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
            calls.append([params.command, *params.args])
            return v1.CreateTerminalResponse(terminal_id="t1")

        @client.handlers.on(v1.TERMINAL_WAIT_FOR_EXIT)
        async def wait(context: Context, params: v1.WaitForTerminalExitRequest) -> v1.WaitForTerminalExitResponse:
            return v1.WaitForTerminalExitResponse(exit_code=0)

        @client.handlers.on(v1.TERMINAL_OUTPUT)
        async def output(context: Context, params: v1.TerminalOutputRequest) -> v1.TerminalOutputResponse:
            return v1.TerminalOutputResponse(output="12345", truncated=False)

        @client.handlers.on(v1.TERMINAL_RELEASE)
        async def release(context: Context, params: v1.ReleaseTerminalRequest) -> v1.ReleaseTerminalResponse:
            calls.append(params.terminal_id)
            return v1.ReleaseTerminalResponse()

        harness.session = await client.new()
        assert "It ended with 0 and printed 5 characters" in await harness.ask(f"/run {sys.executable} --version")
        assert calls == [[sys.executable, "--version"], "t1"]
        assert harness.shown == [v1.Terminal(terminal_id="t1")]
        assert harness.status == "completed"
