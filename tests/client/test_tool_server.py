"""Functions of the editor in the hands of an agent, in every way there is; and servers of the user's configuration."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
import pytest

from duologue import sync
from duologue.builtin.agent import builtin_agent
from duologue.client.agent import RemoteAgent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.tool_server import offered_tool_server
from duologue.client.target import AgentTarget
from duologue.conversation.session_setup import AcpMcpServer, HttpMcpServer, StdioMcpServer
from duologue.errors import AgentExited, InvalidParams, StartError
from duologue.mcp.tool_server.server import OfferedServers, ToolServer
from duologue.protocol.values import AgentCapabilities
from tests.client.minimal_agent import ModestAgent
from tests.client.scripted_agent import ScriptedAgent

TRANSPORTS = [("acp", AcpMcpServer), ("http", HttpMcpServer), ("command", StdioMcpServer)]
YES = Permissions.allow_everything()


async def open_tabs(limit: int = 10) -> list[str]:
    """List the files that are open in the editor."""
    return ["main.py", "notes.md"][:limit]


def where_am_i() -> str:
    """Return the process that the function runs in."""
    return f"process {os.getpid()}"


def _agent(transport: str) -> ModestAgent:
    return ModestAgent(builtin_agent(unstable=True), *(() if transport == "command" else (transport,)))


@pytest.mark.parametrize(("transport", "kind"), TRANSPORTS, ids=[transport for transport, _ in TRANSPORTS])
async def test_an_agent_calls_functions_of_ours_in_whatever_way_it_takes(
    transport: str, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A directory of its own, with a name that is short enough for sockets: other programs use the common one.
    with tempfile.TemporaryDirectory(prefix="tools-") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        await _call_functions(transport, kind, tmp_path)
        assert os.listdir(directory) == []


async def _call_functions(transport: str, kind: Any, tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        connect(_agent(transport), tools=[open_tabs, where_am_i], permissions=YES, unstable={"mcp_over_acp"}) as agent,
    ):
        assert [type(server) for server in agent._tool_servers] == [kind]
        async with agent.new_session(tmp_path) as first, agent.new_session(tmp_path) as second:
            assert "List the files that are open in the editor." in await first.ask("/mcp")
            assert "answered: main.py" in await first.ask('/mcp editor open_tabs {"limit": 1}')
            assert f"process {os.getpid()}" in await second.ask("/mcp editor where_am_i")
            assert "`open_tabs` failed" in await second.ask('/mcp editor open_tabs {"limit": "all"}')


async def test_an_agent_in_a_process_of_its_own_calls_functions_of_ours(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "duologue.cli.main", "agent", "--sessions", str(tmp_path / "kept")]
    async with (
        asyncio.timeout(60),
        connect(command, tools=[where_am_i], permissions=YES, unstable=True) as agent,
        agent.new_session(tmp_path) as session,
    ):
        assert f"process {os.getpid()}" in await session.ask("/mcp editor where_am_i")


async def test_the_tool_server_needs_its_token_and_ends_with_the_connection() -> None:
    async with asyncio.timeout(60), httpx2.AsyncClient() as web:
        async with connect(_agent("http"), tools=[open_tabs]) as agent:
            (server,) = agent._tool_servers
            assert isinstance(server, HttpMcpServer)
            assert server.url.startswith("http://127.0.0.1:")
            assert (await web.post(server.url, json={})).status_code == 401
        with pytest.raises(httpx2.ConnectError):
            await web.post(server.url, json={})


async def test_earlier_sessions_get_the_tools_as_well(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        connect(builtin_agent(unstable=True), tools=[open_tabs], permissions=YES, unstable=True) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await session.ask("hello")
        await session.aclose()
        for reopen in (agent.load_session, agent.resume_session):
            async with await reopen(session.id, tmp_path) as again:
                assert "open_tabs" in await again.ask("/mcp")
        async with agent.new_session(tmp_path) as another, another.fork() as forked:
            assert "open_tabs" in await forked.ask("/mcp")


async def test_tools_may_have_a_name_of_their_own(tmp_path: Path) -> None:
    tools = ToolServer([open_tabs], name="vim", instructions="Ask before you look.")
    agent = ScriptedAgent({"mcpCapabilities": {"acp": True}})
    async with asyncio.timeout(60), connect(agent, tools=tools, unstable={"mcp_over_acp"}) as remote:
        await remote.new_session(tmp_path)
    (server,) = agent.calls("session/new")[0]["mcpServers"]
    assert (server["type"], server["name"]) == ("acp", "vim")


@pytest.mark.parametrize("transport", ["acp", "http", "command"])
async def test_an_exception_of_the_program_is_raised_unchanged(transport: str) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with asyncio.timeout(60), connect(_agent(transport), tools=[open_tabs]):
            raise KeyError("mine")


@pytest.mark.parametrize("wrong", [[lambda: 1], [open_tabs, open_tabs], [print]])
async def test_an_invalid_tool_is_rejected_before_anything_is_started(wrong: list[Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        connect("no-such-command", tools=wrong)


def test_a_program_without_an_event_loop_lends_tools_too(tmp_path: Path) -> None:
    with (
        sync.connect(builtin_agent(unstable=True), tools=[where_am_i], permissions=YES, unstable=True) as agent,
        agent.new_session(tmp_path) as session,
    ):
        assert f"process {os.getpid()}" in session.ask("/mcp editor where_am_i")


@pytest.mark.parametrize(
    ("example", "output"),
    [("editor_tools.py", "answered: Remember the milk."), ("first_client.py", "and the last word")],
)
def test_the_examples_for_clients_run(example: str, output: str) -> None:
    program = Path(__file__).parents[2] / "examples" / example
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert output in ended.stdout


async def test_an_agent_that_is_started_again_has_the_tools_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "duologue.cli.main", "agent", "--sessions", str(tmp_path / "kept")]
    async with (
        asyncio.timeout(60),
        connect(command, tools=[where_am_i], permissions=YES, unstable=True, restart=True) as agent,
        agent.new_session(tmp_path) as session,
    ):
        with pytest.raises(AgentExited):
            await session.prompt("/crash")
        assert f"process {os.getpid()}" in await session.ask("/mcp editor where_am_i")


@pytest.mark.parametrize(
    ("target", "is_elsewhere"),
    [
        ("wss://agents.example.com", True),
        ("http://192.0.2.1:8080/acp", True),
        ({"url": "https://agents.example.com"}, True),
        ("ws://127.0.0.1:9", False),
        ("http://localhost:9", False),
        ("http://[::1]:9", False),
        ("gemini --acp", False),
        (["gemini"], False),
        ({"command": "gemini"}, False),
    ],
)
async def test_an_address_of_this_machine_is_near(target: Any, is_elsewhere: bool) -> None:
    assert AgentTarget(target).is_remote_host == is_elsewhere


async def test_to_another_machine_tools_are_lent_over_the_connection_or_not_at_all() -> None:
    tools, offered = ToolServer([open_tabs]), OfferedServers()
    async with offered_tool_server(
        tools, AgentCapabilities(mcp_acp=True, mcp_http=True), offered, is_near=False
    ) as server:
        assert isinstance(server, AcpMcpServer)
    with pytest.raises(StartError, match="on another machine"):
        async with offered_tool_server(tools, AgentCapabilities(mcp_http=True), offered, is_near=False):
            pass


# --- servers of the user's configuration


async def _named(agent: RemoteAgent, scripted: ScriptedAgent, cwd: Path, command: str) -> str:
    await agent.new_session(cwd, mcp_servers=[StdioMcpServer(name="mine", command=command)])
    named: str = scripted.calls("session/new")[-1]["mcpServers"][0]["command"]
    return named


@pytest.mark.rule(151)
async def test_the_command_of_a_server_is_named_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    server = tmp_path / "here" / "server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    scripted = ScriptedAgent()
    async with asyncio.timeout(60), connect(scripted) as agent:
        assert await _named(agent, scripted, tmp_path, "sh") == shutil.which("sh")
        assert await _named(agent, scripted, tmp_path, "here/server") == str(server)
        assert await _named(agent, scripted, tmp_path, "./here/server") == str(server)
        assert await _named(agent, scripted, tmp_path, "/elsewhere/server") == "/elsewhere/server"
        monkeypatch.setenv("PATH", str(server.parent))
        assert await _named(agent, scripted, tmp_path, "server") == str(server)


@pytest.mark.rule(151)
async def test_a_server_whose_command_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    scripted = ScriptedAgent()
    async with asyncio.timeout(60), connect(scripted) as agent:
        with pytest.raises(InvalidParams, match="the MCP server 'mine': no such command: 'no-such-server'"):
            await _named(agent, scripted, tmp_path, "no-such-server")
    assert scripted.calls("session/new") == []
