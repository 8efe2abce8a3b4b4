"""MCP servers of the session, of the command line and of the configuration."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from tests.cli.program import duologue
from tests.coder.client import User, coder, open_client
from tests.coder.test_process import process
from tests.mcp.server_processes import SERVERS, small

SMALL = [sys.executable, "-I", str(SERVERS / "small.py")]


def script_of(name: str) -> list[ModelTurn]:
    """Return turns of a model that calls the tool `echo` of a server."""
    call = tool_call(f"{name}__echo", tea="green")
    return [
        ModelTurn(tools=[call], expect=RequestPattern(tools=[f"{name}__echo"])),
        ModelTurn("Echoed.", expect=RequestPattern(tool_result="green")),
    ]


async def test_a_tool_of_a_server_of_the_session_is_called_if_the_user_allows_it(project: Path, tmp_path: Path) -> None:
    user = User(["reject_once"])
    rejected = [*script_of("small")[:1], ModelTurn("No.", expect=RequestPattern(absent="green tea"))]
    async with asyncio.timeout(120), ModelServer([*rejected, *script_of("small")]) as server:
        async with (
            open_client(project, coder(server, tmp_path), user) as agent,
            agent.new_session(project, mcp_servers=[small()]) as session,
        ):
            await session.prompt("echo it")
            await session.prompt("echo it again")
        server.check()

    assert [call.status for call in session.transcript.tool_calls] == ["failed", "completed"]
    assert len(user.requests) == 2


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_a_reading_mode_offers_no_tools_of_servers(project: Path, tmp_path: Path, mode: str) -> None:
    script = [ModelTurn("Nothing.", expect=RequestPattern(tools=["read_file"], tools_absent=["small__echo"]))]
    async with asyncio.timeout(120), ModelServer(script) as server:
        async with (
            open_client(project, coder(server, tmp_path), User()) as agent,
            agent.new_session(project, mcp_servers=[small()]) as session,
        ):
            await session.set_mode(mode)
            await session.prompt("echo it")
        server.check()


async def test_servers_of_the_command_line_and_of_the_configuration_are_in_every_session(
    project: Path, tmp_path: Path
) -> None:
    command, *args = SMALL
    config = tmp_path / "duologue" / "config.toml"
    config.parent.mkdir()
    config.write_text(f"[mcp_servers.configured]\ncommand = {json.dumps(command)}\nargs = {json.dumps(args)}\n")
    options = ["--mcp", f"given={' '.join(SMALL)}", "--mcp", "configured"]
    async with asyncio.timeout(200), ModelServer([*script_of("given"), *script_of("configured")]) as server:
        async with process(project, server, tmp_path, options=options) as agent, agent.new_session(project) as session:
            await session.prompt("echo it")
            await session.prompt("echo it")
        server.check()

    assert [call.status for call in session.transcript.tool_calls] == ["completed", "completed"]


def test_a_server_that_does_not_exist_is_said_before_an_editor_connects(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "code", "--mcp", "missing")

    assert ended.returncode == 2
    assert "no file and no configured server has this name" in ended.stderr
