"""The user's MCP servers: `[mcp_servers.NAME]` of the configuration file, or a JSON file as editors use it.

[mcp_servers.git]
command = "mcp-server-git"
args = ["--repository", "."]
env = { LOG = "1" }

[mcp_servers.docs]
url = "https://docs.example.com/mcp"
headers = { Authorization = "Bearer …" }
type = "http"
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from duologue.config.agents import config_file, read_config
from duologue.conversation.session_setup import HttpMcpServer, McpServer, SseMcpServer, StdioMcpServer


class ServerConfig(msgspec.Struct, kw_only=True):
    """One server of a file: a command, or a URL (`type = "sse"` for the older transport)."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    type: str | None = None

    def named(self, name: str) -> McpServer:
        """Return the server with a name, as sessions accept it.

        Raises:
            ValueError: It has neither a command nor a URL.
        """
        if self.url is not None:
            kind = SseMcpServer if self.type == "sse" else HttpMcpServer
            return kind(name=name, url=self.url, headers=self.headers)
        if self.command is None:
            raise ValueError(f"MCP server {name!r} needs a `command` or a `url`")
        return StdioMcpServer(name=name, command=self.command, args=self.args, env=self.env)


class _Shared(msgspec.Struct, rename={"servers": "mcpServers"}):
    servers: dict[str, ServerConfig]


class _Own(msgspec.Struct):
    mcp_servers: dict[str, ServerConfig] = {}


def read_servers(path: str | Path) -> list[McpServer]:
    """Return the servers of a JSON file with `mcpServers`.

    Raises:
        ValueError: The file is invalid; the message says where.
        OSError: It cannot be read.
    """
    try:
        found = msgspec.json.decode(Path(path).read_bytes(), type=_Shared).servers
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    return [server.named(name) for name, server in found.items()]


def named_servers() -> dict[str, McpServer]:
    """Return the servers of the configuration file by name; none if there is no file.

    Raises:
        ValueError: The file is invalid; the message says where.
    """
    try:
        found = msgspec.convert(read_config(), _Own).mcp_servers
        return {name: server.named(name) for name, server in found.items()}
    except ValueError as error:
        message, path = str(error), str(config_file())
        raise ValueError(message if path in message else f"{path}: {message}") from None
