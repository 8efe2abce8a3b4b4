"""The example agent, a real process, with a client that names MCP servers: the whole way there and back."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duologue.errors import McpServerUnavailable
from duologue.mcp.tool_server.server import OfferedServers, ToolServer
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1
from duologue.transports.process.transport import ProcessTransport
from tests.mcp.server_processes import is_gone, small

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent_with_mcp.py"


class OfferingClient:
    """A client of a few lines: shows what comes, says yes for always, and lends one function."""

    def __init__(self) -> None:
        self.updates: list[object] = []
        self.questions = 0
        self.handlers = Handlers()
        self.offered = OfferedServers()
        self.handlers.on(v1.SESSION_UPDATE)(self._update)
        self.handlers.on(v1.SESSION_REQUEST_PERMISSION)(self._permit)
        self.handlers.on(v1.MCP_MESSAGE)(self._mcp)

    async def _update(self, context: Context, params: v1.SessionNotification) -> None:
        self.updates.append(params.update)

    async def _permit(self, context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
        self.questions += 1
        always = next(option for option in params.options if option.kind == "allow_always")
        return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=always.option_id))

    async def _mcp(self, context: Context, params: v1.MessageMcpRequest) -> v1.MessageMcpResponse:
        answer = await self.offered.answer(params.server_id, params.request_id, params.method, params.params)
        return v1.MessageMcpResult(result=answer["result"])

    @property
    def text(self) -> str:
        chunks = [update.content for update in self.updates if isinstance(update, v1.AgentMessageChunk)]
        return "".join(block.text for block in chunks if isinstance(block, v1.TextContent))

    @property
    def answer(self) -> Any:
        """The unchanged result of the tool."""
        return self.last.raw_output

    @property
    def last(self) -> v1.ToolCallUpdate:
        update = self.updates[-1]
        assert isinstance(update, v1.ToolCallUpdate)
        return update


async def double(number: int) -> int:
    """Twice as much."""
    return 2 * number


@asynccontextmanager
async def _session(tmp_path: Path) -> AsyncGenerator[tuple[OfferingClient, Connection, str]]:
    client = OfferingClient()
    inside = client.offered.offer(ToolServer([double], name="inside"))
    config = small()
    servers: list[v1.McpServer] = [
        v1.McpServerStdio(name="small", command=config.command, args=config.args, env=[]),
        v1.McpServerStdio(name="broken", command="/no/such/file", args=[], env=[]),
        v1.McpServerAcp(name="inside", server_id=inside.server_id),
    ]
    agent = ProcessTransport([sys.executable, str(EXAMPLE)])
    async with asyncio.timeout(60), Connection(agent, client.handlers) as connection:
        await connection.request(v1.INITIALIZE, v1.InitializeRequest(protocol_version=1))
        new = v1.NewSessionRequest(cwd=str(tmp_path), mcp_servers=servers)
        yield client, connection, (await connection.request(v1.SESSION_NEW, new)).session_id


async def _prompt(connection: Connection, session_id: str, text: str) -> None:
    prompt = v1.PromptRequest(session_id=session_id, prompt=[v1.TextContent(text=text)])
    await connection.request(v1.SESSION_PROMPT, prompt)


@pytest.mark.fault("MCP-01", "MCP-05")
async def test_an_agent_uses_the_servers_its_client_names_and_takes_them_along(tmp_path: Path) -> None:
    async with _session(tmp_path) as (client, connection, session_id):
        await _prompt(connection, session_id, "list")
        assert "small echo: repeats its input" in client.text
        assert "inside double: Twice as much." in client.text
        assert "broken does not work: no such file: '/no/such/file'" in client.text

        await _prompt(connection, session_id, 'small echo {"a": 1}')
        assert client.last.status == "completed"
        assert client.answer == {"content": [{"type": "text", "text": '{"a": 1}'}]}
        await _prompt(connection, session_id, 'inside double {"number": 21}')
        assert client.answer["structuredContent"] == {"result": 42}

        await _prompt(connection, session_id, 'small echo {"a": 2}')
        assert client.questions == 2
        with pytest.raises(McpServerUnavailable, match="ended before it answered"):
            await _prompt(connection, session_id, "small die")
        await _prompt(connection, session_id, "small environment")
        server = int(json.loads(client.answer["content"][0]["text"])["PID"])
        assert not is_gone(server)

        await connection.request(v1.SESSION_CLOSE, v1.CloseSessionRequest(session_id=session_id))
        assert is_gone(server)
