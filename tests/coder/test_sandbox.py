"""Commands under bubblewrap: they write to the project only, have no network, and are asked about once."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import sys
from pathlib import Path

import pytest

from duologue.evals.run import bubblewrap
from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from tests.cli.program import duologue
from tests.coder.client import User, coding

REAL_PYTHON = str(Path(sys.executable).resolve())  # a virtual environment in /tmp is not seen

needs_bubblewrap = pytest.mark.skipif(bool(bubblewrap.obstacle()), reason=bubblewrap.obstacle() or "it works")


@needs_bubblewrap
async def test_a_command_writes_to_the_project_only_and_has_no_network(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    network = shlex.join([REAL_PYTHON, "-c", "import socket; socket.create_connection(('127.0.0.1', 9), 1)"])
    command = f"echo inside > made; echo outside > {outside}; touch /usr/made; {network}; env"
    user = User()
    script = [
        ModelTurn(tools=[tool_call("run_command", command=command)]),
        ModelTurn(
            "Tried.",
            expect=RequestPattern(
                tool_result=["Read-only file system", "PermissionError", "PATH="], absent="OPENAI_API_KEY"
            ),
        ),
    ]
    async with (
        asyncio.timeout(120),
        ModelServer(script) as server,
        coding(project, server, user, has_sandbox=True) as session,
    ):
        turn = await session.prompt("try it")
        server.check()

    assert turn.text == "Tried."
    assert (project / "made").read_text() == "inside\n"
    assert not outside.exists()
    # The editor starts nothing, so its own rules ask about nothing.
    assert [request.method for request in user.requests] == ["session/request_permission"]
    assert user.requests[0].tool.raw_input == {"command": command}
    (call,) = session.transcript.tool_calls
    assert call.status == "completed"
    assert "Read-only file system" in str(call.content)


@needs_bubblewrap
async def test_a_rejected_command_does_not_run_in_the_sandbox_either(project: Path) -> None:
    script = [
        ModelTurn(tools=[tool_call("run_command", command="touch made")]),
        ModelTurn("I did not.", expect=RequestPattern(tool_result="the user did not permit this")),
    ]
    async with (
        asyncio.timeout(120),
        ModelServer(script) as server,
        coding(project, server, User(["reject_once"]), has_sandbox=True) as session,
    ):
        await session.prompt("make it")
        server.check()

    assert not (project / "made").exists()


@needs_bubblewrap
async def test_cancelling_kills_the_command_in_the_sandbox(project: Path) -> None:
    os.mkfifo(project / "pipe")
    script = [ModelTurn(tools=[tool_call("run_command", command="cat pipe")])]
    async with (
        asyncio.timeout(120),
        ModelServer(script) as server,
        coding(project, server, has_sandbox=True) as session,
    ):
        async with session.prompt("wait") as turn:
            writer = await asyncio.to_thread(os.open, project / "pipe", os.O_WRONLY)  # when `cat` reads
            await turn.cancel()
            await turn

    assert turn.stop_reason == "cancelled"
    without_reader = select.poll()
    without_reader.register(writer, select.POLLERR)
    try:
        assert without_reader.poll(30_000) == [(writer, select.POLLERR)]
    finally:
        os.close(writer)


def test_without_bubblewrap_the_program_says_what_to_install(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "code", "--sandbox", PATH=str(tmp_path))

    assert ended.returncode != 0
    assert "install the package `bubblewrap`" in ended.stderr
