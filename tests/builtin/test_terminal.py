"""/run and /test: in the editor's terminal, or as a process of the agent's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import editor_for
from tests.builtin.harness import Bench, bench


async def test_a_command_is_asked_for_and_run_in_one_tool_call(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        said = await on.say("/run sh -c 'echo hello; exit 3'")

        (call,) = on.of(v1.ToolCall)
        assert (call.kind, call.title) == ("execute", "sh -c 'echo hello; exit 3'")
        assert on.asked[0].tool_call.tool_call_id == call.tool_call_id
        assert on.asked[0].tool_call.raw_input == {"command": ["sh", "-c", "echo hello; exit 3"]}
        assert on.shown == [v1.Content(content=v1.TextContent(text="hello\n"))]
        assert on.status == "failed"
        ran = {"output": "hello\n", "exitCode": 3, "signal": None, "timedOut": False}
        assert on.of(v1.ToolCallUpdate)[-1].raw_output == ran
        assert "It ended with 3 and printed 6 characters" in said


async def test_a_rejected_command_does_not_run(tmp_path: Path) -> None:
    async with bench(tmp_path, choose="reject_once") as on:
        assert "I ran nothing" in await on.say(f"/run touch {tmp_path}/was-here")
        assert on.status == "failed"
        assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/run", "It ended with 0 and printed 6 characters"),
        ("run echo hi", "It ended with 0 and printed 3 characters"),
        ("/run no-such-program", "It could not be run"),
        ("/run 'half a quote", "I cannot read that command: No closing quotation"),
        ("/test", "I see no tests here"),
    ],
)
async def test_the_outcome_of_a_command_is_reported(tmp_path: Path, command: str, said: str) -> None:
    async with bench(tmp_path) as on:
        assert said in await on.say(command)


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

    async with bench(tmp_path, choose="reject_once") as on:
        await on.say("run the tests")
        assert on.asked[0].tool_call.title == command


async def test_a_command_runs_in_the_editors_terminal_where_it_has_one_and_the_terminal_is_released(
    tmp_path: Path,
) -> None:
    calls: list[Any] = []
    async with editor_for(builtin_agent(), tmp_path, terminal=True) as editor:
        on = Bench(editor, "allow_once")

        @editor.handlers.on(v1.TERMINAL_CREATE)
        async def create(context: Context, params: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
            calls.append([params.command, *params.args])
            return v1.CreateTerminalResponse(terminal_id="t1")

        @editor.handlers.on(v1.TERMINAL_WAIT_FOR_EXIT)
        async def wait(context: Context, params: v1.WaitForTerminalExitRequest) -> v1.WaitForTerminalExitResponse:
            return v1.WaitForTerminalExitResponse(exit_code=0)

        @editor.handlers.on(v1.TERMINAL_OUTPUT)
        async def output(context: Context, params: v1.TerminalOutputRequest) -> v1.TerminalOutputResponse:
            return v1.TerminalOutputResponse(output="12345", truncated=False)

        @editor.handlers.on(v1.TERMINAL_RELEASE)
        async def release(context: Context, params: v1.ReleaseTerminalRequest) -> v1.ReleaseTerminalResponse:
            calls.append(params.terminal_id)
            return v1.ReleaseTerminalResponse()

        on.session = await editor.new()
        assert "It ended with 0 and printed 5 characters" in await on.say(f"/run {sys.executable} --version")
        assert calls == [[sys.executable, "--version"], "t1"]
        assert on.shown == [v1.Terminal(terminal_id="t1")]
        assert on.status == "completed"
