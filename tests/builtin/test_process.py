"""The real program on its real stdout: `duologue agent`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import duologue
from duologue.builtin.command_table import COMMANDS
from duologue.builtin.commands.failures import NOISE
from duologue.errors import AgentExited, AuthenticationRequired, RequestError
from duologue.schema import v1
from tests.builtin.harness import PROGRAM, process

ENDS = {"refuse": "refusal", "max-tokens": "max_tokens", "max-requests": "max_turn_requests"}
"""Stop reasons other than `end_turn`."""

ERRORS = {"error", "exception"}
ELSEWHERE = {"crash", "slow", "steer", "cancel-me", "stubborn"}
"""Commands that take their time, or the process with them: each has a test of its own."""


async def test_every_command_runs_in_one_session_of_the_real_program(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Hello\n")
    async with process(tmp_path) as harness:
        harness.session = await harness.client.new()
        for name in COMMANDS:
            if name in ELSEWHERE:
                continue
            if name in ERRORS:
                with pytest.raises(RequestError):
                    await harness.prompt(f"/{name}")
            else:
                assert (name, (await harness.prompt(f"/{name}")).stop_reason) == (name, ENDS.get(name, "end_turn"))
                assert (name, bool(harness.updates)) == (name, True)


@pytest.mark.parametrize("command", ["/slow", "/steer", "/cancel-me", "/stubborn"])
async def test_a_slow_command_can_be_cancelled(tmp_path: Path, command: str) -> None:
    async with process(tmp_path) as harness:
        harness.session = await harness.client.new()
        assert (await harness.cancelled(command)).stop_reason == "cancelled"
        assert await harness.ask("hello")


async def test_noise_on_the_wire_is_noise_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async with process(tmp_path) as harness:
        harness.session = await harness.client.new()
        text = await harness.ask("/noise")
        assert f"I wrote {len(NOISE)} lines to stdout" in text
        assert await harness.ask("hello")


def test_noise_is_on_stdout_while_what_is_printed_goes_to_stderr(tmp_path: Path) -> None:
    command = [*PROGRAM, "--sessions", str(tmp_path / "kept")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        assert agent.stderr is not None
        reading = agent.stdout
        agent.stdin.write(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n')
        reading.readline()
        agent.stdin.write(
            b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"%s","mcpServers":[]}}\n'
            % os.fsencode(tmp_path)
        )
        session = reading.readline().split(b'"sessionId":"')[1].split(b'"')[0]
        agent.stdin.write(
            b'{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"%s",'
            b'"prompt":[{"type":"text","text":"/noise"}]}}\n' % session
        )
        lines: list[bytes] = []
        while not (lines and b'"id":2' in lines[-1]):
            lines.append(reading.readline())
        agent.stdin.close()
        printed = agent.stderr.read()

    assert {line.removesuffix(b"\n") for line in lines} >= set(NOISE)
    assert not any(b"was printed" in line or b"descriptor 1" in line for line in lines)
    assert b"was printed" in printed
    assert b"descriptor 1" in printed


@pytest.mark.parametrize(("command", "end"), [("/crash", (None, "SIGKILL")), ("/crash 3", (3, None))])
async def test_a_crash_takes_the_process_and_the_session_can_be_loaded_again(
    tmp_path: Path, command: str, end: tuple[int | None, str | None]
) -> None:
    async with process(tmp_path) as harness:
        session = harness.session = await harness.client.new()
        await harness.ask("/title Before the end")
        with pytest.raises(AgentExited) as caught:
            await harness.prompt(command)
        assert (caught.value.exit_code, caught.value.signal) == end
        assert harness.text == "Goodbye."

    async with process(tmp_path) as harness:
        listed = await harness.client.connection.request(v1.SESSION_LIST, v1.ListSessionsRequest())
        assert [(info.session_id, info.title) for info in listed.sessions] == [(session, "Before the end")]
        request = v1.LoadSessionRequest(session_id=session, cwd=str(tmp_path), mcp_servers=[])
        await harness.client.connection.request(v1.SESSION_LOAD, request)
        assert "Goodbye." in harness.text


async def test_a_login_is_required_if_the_command_line_says_so(tmp_path: Path) -> None:
    async with process(tmp_path, "--login") as harness:
        with pytest.raises(AuthenticationRequired):
            await harness.client.new()


@pytest.mark.parametrize(("options", "is_sent"), [((), False), (("--debug",), True)])
async def test_the_text_of_an_unexpected_error_is_sent_only_with_debug(
    tmp_path: Path, options: tuple[str, ...], is_sent: bool
) -> None:
    async with process(tmp_path, *options) as harness:
        harness.session = await harness.client.new()
        with pytest.raises(RequestError) as caught:
            await harness.prompt("/exception")
        assert ("must stay inside the agent" in f"{caught.value.message} {caught.value.data}") == is_sent


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        input='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n',
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_sessions_are_kept_in_the_users_data_directory(tmp_path: Path) -> None:
    ended = run(XDG_DATA_HOME=str(tmp_path / "data"))

    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "data" / "duologue" / "sessions").is_dir()
    run(XDG_DATA_HOME="relative", HOME=str(tmp_path / "home"))
    assert (tmp_path / "home" / ".local" / "share" / "duologue" / "sessions").is_dir()


def test_a_data_directory_that_cannot_be_used_costs_persistence_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")

    ended = run(XDG_DATA_HOME=str(tmp_path / "data"))

    assert ended.returncode == 0
    assert '"protocolVersion":1' in ended.stdout
    assert "sessions are stored in memory only" in ended.stderr


def test_it_introduces_itself_with_its_version() -> None:
    assert f'"agentInfo":{{"name":"duologue","version":"{duologue.__version__}"' in run().stdout
