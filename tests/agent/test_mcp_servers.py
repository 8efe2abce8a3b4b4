"""The MCP servers that a client names: what is advertised is taken, and the rest is refused or said, never started."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.schema import v1
from duologue.store.memory import MemoryStore
from tests.agent.v2.wire_client import both, wire_client
from tests.agent.wire_client import EVERYTHING, agent_with, client_for, raw_client
from tests.mcp.server_processes import small

WITHOUT_THE_EXTRA = pytest.param(True, id="without the extra")


def touching(marker: Path, name: str = "files") -> v1.McpServerStdio:
    """Return a server that creates a file when it is started."""
    return v1.McpServerStdio(name=name, command="/bin/sh", args=["-c", f"echo > {marker}"], env=[])


@pytest.mark.fault("MCP-11")
@pytest.mark.parametrize("takes_notices", [True, False])
@pytest.mark.parametrize("uses_mcp", [False, WITHOUT_THE_EXTRA])
async def test_an_agent_that_cannot_use_mcp_starts_nothing_and_says_so_once(
    tmp_path: Path,
    uses_mcp: bool,
    takes_notices: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if uses_mcp:
        monkeypatch.setitem(sys.modules, "mcp", None)
    marker = tmp_path / "started"
    capabilities = EVERYTHING if takes_notices else {}
    with caplog.at_level(logging.WARNING, "duologue.agent"):
        agent = agent_with(mcp=uses_mcp)
        agent.persist_sessions(MemoryStore())
        async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True, **capabilities) as client:
            mcp = client.hello.agent_capabilities.mcp_capabilities
            assert (mcp.http, mcp.sse, mcp.acp) == (False, False, False)
            session = await client.new(mcp_servers=[touching(marker), touching(marker, "more")])
            await client.prompt(session, "hi")
            assert client.text == "hi"
            notices = client.of(v1.Notice)
            await client.close(session)
            await client.load(session)
            assert client.of(v1.Notice) == notices  # it was no part of the conversation
    logged = [record.message for record in caplog.records if "MCP servers are not connected" in record.message]
    notified = [notice.description or "" for notice in notices] if takes_notices else logged
    assert (len(notices), len(logged)) == ((1, 0) if takes_notices else (0, 1))
    assert "files, more" in notified[0]
    assert ("pip install 'duologue[mcp]'" if uses_mcp else "this agent does not use them") in notified[0]
    assert not marker.exists()


async def test_the_built_in_agent_opens_sessions_without_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with asyncio.timeout(60), client_for(builtin_agent(), tmp_path, validate=True, **EVERYTHING) as client:
        session = await client.new(mcp_servers=[touching(tmp_path / "started")])
        await client.prompt(session, "/mcp")
        assert "install `duologue[mcp]`" in client.text


@pytest.mark.fault("MCP-10")
@pytest.mark.parametrize("is_mcp", [True, False])
@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume", "session/fork"])
async def test_an_entry_of_unknown_type_without_a_command_is_refused(tmp_path: Path, is_mcp: bool, method: str) -> None:
    agent = agent_with(mcp=is_mcp, unstable={"fork"})
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), raw_client(agent) as client:
        await client.ask(1, "initialize", {"protocolVersion": 1})
        setup: dict[str, Any] = {"cwd": str(tmp_path), "mcpServers": []}
        opened = (await client.ask(2, "session/new", setup))["result"]
        for number, entry in enumerate(({"type": "pigeon", "name": "p"}, {"type": "pigeon", "name": "p", "url": "x"})):
            servers = {**setup, **opened, "mcpServers": [entry]}
            error = (await client.ask(3 + number, method, servers))["error"]
            assert error["code"] == -32602
            assert "$.mcpServers[0]: 'pigeon' is not a type of MCP server" in error["message"]
        assert "result" in await client.ask(9, "session/new", setup)


# --- version 2


async def _offered(client: Any) -> dict[str, Any]:
    hello = await client.initialize()
    found: dict[str, Any] = hello["capabilities"]["session"].get("mcp", {})
    return found


SERVERS: dict[str, dict[str, Any]] = {
    "stdio": {"type": "stdio", "name": "s", "command": "/bin/true", "args": [], "env": []},
    "http": {"type": "http", "name": "h", "url": "http://127.0.0.1:9", "headers": []},
    "acp": {"type": "acp", "name": "a", "serverId": "1"},
    "sse": {"type": "sse", "name": "e", "url": "http://127.0.0.1:9", "headers": []},
    "pigeon": {"type": "pigeon", "name": "p"},
}


@pytest.mark.fault("MCP-10")
@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ({"mcp": False}, set[str]()),
        ({"mcp": True}, {"stdio", "http"}),
        ({"mcp": True, "unstable": {"mcp_over_acp"}}, {"stdio", "http", "acp"}),
        (None, set[str]()),
    ],
    ids=["no MCP", "MCP", "MCP over ACP", "without the extra"],
)
async def test_version_2_takes_the_transports_it_advertises_and_refuses_all_others(
    tmp_path: Path, options: dict[str, Any] | None, taken: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if options is None:
        monkeypatch.setitem(sys.modules, "mcp", None)
    agent = both(**({"mcp": True} if options is None else options))
    async with wire_client(agent, is_initialized=False, seconds=20) as client:
        assert set(await _offered(client)) == taken
        session = await client.new(tmp_path)
        for method, more in (("session/new", {}), ("session/resume", {"sessionId": session})):
            for kind, server in SERVERS.items():
                setup = {"cwd": str(tmp_path), "mcpServers": [server], **more}
                if kind in taken:
                    await client.ask(method, **setup)
                    continue
                error = await client.refused(method, **setup)
                assert error["code"] == -32602
                assert f"$.mcpServers[0]: this agent does not support MCP servers of type '{kind}'" in error["message"]


async def test_the_servers_named_in_session_new_are_connected(tmp_path: Path) -> None:
    async def list_tools(turn: Any) -> None:
        await turn.mcp.ready()
        await turn.say(json.dumps(sorted(tool.name for tool in turn.mcp.tools)))

    server = small()
    entry = {"type": "stdio", "name": server.name, "command": server.command, "args": server.args, "env": []}
    async with wire_client(both(list_tools, mcp=True), seconds=30) as client:
        opened = await client.ask("session/new", cwd=str(tmp_path), mcpServers=[entry])
        await client.turn(opened["sessionId"], "list")
        assert "echo" in json.loads(client.text)
        # The same words in version 1, which has no type for a command.
    async with asyncio.timeout(60), client_for(agent_with(list_tools, mcp=True), tmp_path, validate=True) as v1_client:
        stdio = v1.McpServerStdio(name=server.name, command=server.command, args=server.args, env=[])
        await v1_client.prompt(await v1_client.new(mcp_servers=[stdio]), "list")
        assert "echo" in json.loads(v1_client.text)


@pytest.mark.parametrize("method", [v1.SESSION_LOAD, v1.SESSION_RESUME], ids=lambda method: method.name)
async def test_the_servers_named_when_a_session_is_opened_again_are_connected(tmp_path: Path, method: Any) -> None:
    async def list_servers(turn: Any) -> None:
        await turn.mcp.ready()
        await turn.say(json.dumps(sorted({tool.server for tool in turn.mcp.tools})))

    agent = agent_with(list_servers, mcp=True)
    agent.persist_sessions(MemoryStore())
    first, second = (
        v1.McpServerStdio(name=each.name, command=each.command, args=each.args, env=[])
        for each in (small(name="first"), small(name="second"))
    )
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        mcp = client.hello.agent_capabilities.mcp_capabilities
        assert (mcp.http, mcp.sse) == (True, True)
        session = await client.new(mcp_servers=[first])
        await client.prompt(session, "list")
        await client.close(session)
        await client.ask(method, session_id=session, cwd=str(tmp_path), mcp_servers=[second])
        client.updates.clear()
        await client.prompt(session, "list")
        assert json.loads(client.text) == ["second"]


async def test_a_server_that_the_client_carries_cannot_be_used_where_that_is_switched_off(tmp_path: Path) -> None:
    async def report_failures(turn: Any) -> None:
        await turn.mcp.ready()
        await turn.say(turn.mcp.errors["tools"])

    async with (
        asyncio.timeout(60),
        client_for(agent_with(report_failures, mcp=True), tmp_path, validate=True) as client,
    ):
        session = await client.new(mcp_servers=[v1.McpServerAcp(name="tools", server_id="1")])
        await client.prompt(session, "why?")
        assert "does not support MCP over ACP" in client.text
