"""`duologue connect --protocol`: an agent of another version as a local command, in real processes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from duologue import Permissions, connect
from duologue.errors import InternalError
from duologue.transports.process.process_tree import descendants, is_alive
from tests.cli.program import PROGRAM, duologue, environment

NEWER = [sys.executable, "-m", "tests.relay.bridge.v2_agent"]
INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


async def test_an_editor_of_version_1_uses_an_agent_of_version_2(tmp_path: Path) -> None:
    stderr = bytearray()
    command = [*PROGRAM, "connect", "--protocol", "v1", "--", *NEWER]
    async with (
        asyncio.timeout(60),
        connect(command, permissions=Permissions.allow_everything(), on_stderr=stderr.extend) as agent,
        agent.new_session(tmp_path) as session,
    ):
        turn = await session.prompt("run")
        (call,) = session.transcript.tool_calls

    assert (agent.version, agent.info and agent.info.name) == (1, "newer")
    assert turn.text == "You said run."
    assert "from a command" in str(call.content)
    assert b"shown as text" in stderr


async def test_a_client_of_version_2_uses_an_agent_of_version_1(tmp_path: Path) -> None:
    env = environment(tmp_path)
    async with (
        asyncio.timeout(60),
        connect(
            [*PROGRAM, "connect", "--protocol", "v2", "--", *PROGRAM, "agent"], env=env, protocol_versions=(2,)
        ) as agent,
        agent.new_session(tmp_path) as session,
    ):
        turn = await session.prompt("/echo hello")

    assert (agent.version, agent.info and agent.info.name) == (2, "duologue")
    assert "You said: hello" in turn.text


async def test_an_agent_that_exits_is_reported_to_the_editor_and_on_stderr(tmp_path: Path) -> None:
    stderr = bytearray()
    async with (
        asyncio.timeout(60),
        connect([*PROGRAM, "connect", "--protocol", "v1", "--", *NEWER], on_stderr=stderr.extend) as agent,
        agent.new_session(tmp_path) as session,
    ):
        with pytest.raises(InternalError, match=r"the agent is gone: .*3"):
            await session.prompt("die")
        await agent.connection.wait_closed()

    assert b"something broke" in stderr


async def test_an_editor_that_leaves_takes_the_agent_with_it(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        async with (
            connect([*PROGRAM, "connect", "--protocol", "v1", "--", *NEWER]) as agent,
            agent.new_session(tmp_path),
        ):
            running = descendants(os.getpid())
    assert len(running) >= 2
    assert [process for process in running if is_alive(process)] == []


@pytest.mark.parametrize(
    "arguments",
    [["connect", "--protocol", "v1"], ["connect", "--protocol", "v3", "ws://h"], ["connect", "ws://h", "--", "x"]],
)
def test_a_command_line_that_makes_no_sense_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    assert duologue(tmp_path, *arguments).returncode == 2


def test_a_missing_command_is_reported_to_the_editor_and_on_stderr(tmp_path: Path) -> None:
    for arguments in (["connect"], ["connect", "--protocol", "v1"]):
        ended = duologue(tmp_path, *arguments, "--", "no-such-agent", stdin=INITIALIZE)
        assert ended.returncode == 1
        assert "no-such-agent" in ended.stderr
        answer = json.loads(ended.stdout)
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
