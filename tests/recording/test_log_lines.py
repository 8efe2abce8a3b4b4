"""No peer can write a line of its own into our log."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest

from duologue.client.connect import connect
from duologue.conversation.session_setup import StdioMcpServer
from duologue.errors import AgentExited
from duologue.mcp.servers import McpServers

FORGED = "oh\nERROR duologue: forged \x1b[2J\u2028\u202e"
DYING_AGENT = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "session/prompt":
        sys.stderr.write(sys.argv[1])
        sys.exit(3)
    result = {"protocolVersion": 1, "sessionId": "s", "agentCapabilities": {"sessionCapabilities": {"resume": {}}}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
FICKLE_SERVER = """
import json, sys
lists = 0
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    match message["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "f", "version": "1"}}
            say(id=message["id"], result={"protocolVersion": message["params"]["protocolVersion"], **about})
        case "tools/list" if not lists:
            lists += 1
            say(id=message["id"], result={"tools": []})
            say(method="notifications/tools/list_changed")
        case _ if "id" in message:
            say(id=message["id"], error={"code": -32000, "message": sys.argv[1]})
"""


class _LogRecorder(logging.Handler):
    """Waits for a line."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.event = asyncio.Event()
        self._text = text

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self.event.set()


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("duologue")]


@pytest.mark.fault("LOG-07")
async def test_the_last_stderr_line_of_an_agent_is_logged_as_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    command = [sys.executable, "-c", DYING_AGENT, FORGED]
    async with asyncio.timeout(60), connect(command, restart=True) as agent, agent.new_session(tmp_path) as session:
        for _ in range(2):
            with pytest.raises(AgentExited, match="forged"):
                await session.prompt("hello")

    (line,) = _lines(caplog)
    assert "forged" in line
    assert line.isprintable()


@pytest.mark.fault("LOG-07")
async def test_an_error_of_an_mcp_server_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    server = StdioMcpServer(name="odd\nname", command=sys.executable, args=["-c", FICKLE_SERVER, FORGED])
    refused = _LogRecorder("failed to list its tools again")
    logging.getLogger("duologue").addHandler(refused)
    try:
        async with asyncio.timeout(60), McpServers([server]) as servers:
            await servers.ready()
            await refused.event.wait()
    finally:
        logging.getLogger("duologue").removeHandler(refused)

    assert any("forged" in line for line in _lines(caplog))
    assert [line for line in _lines(caplog) if not line.isprintable()] == []
