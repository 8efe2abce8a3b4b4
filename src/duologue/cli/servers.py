"""MCP servers as a command line names them: `NAME=COMMAND`, `NAME=URL`, or a JSON file with `mcpServers`."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from duologue.cli.codes import UsageError
from duologue.conversation.setup import HttpMcpServer, McpServer, SseMcpServer, StdioMcpServer

__all__ = ["mcp_servers"]


class _Named(msgspec.Struct):
    """One server of the file that editors and agents share."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    type: str | None = None


class _File(msgspec.Struct, rename={"servers": "mcpServers"}):
    servers: dict[str, _Named]


def mcp_servers(given: Sequence[str]) -> list[McpServer]:
    """The servers these arguments name.

    Raises:
        UsageError: One of them names none.
    """
    return [server for argument in given for server in _servers_of(argument)]


def _servers_of(argument: str) -> list[McpServer]:
    name, equals, what = argument.partition("=")
    if not equals or "/" in name:
        return _from_file(Path(argument))
    if what.startswith(("http://", "https://")):
        return [_server(name, _Named(url=what))]
    words = shlex.split(what)
    if not words:
        raise UsageError(f"--mcp {argument}: say NAME=COMMAND, NAME=URL, or a JSON file with `mcpServers`")
    return [_server(name, _Named(command=words[0], args=words[1:]))]


def _from_file(path: Path) -> list[McpServer]:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File).servers
    except OSError as error:
        raise UsageError(f"--mcp {path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise UsageError(f"--mcp {path}: {error}") from None
    return [_server(name, server) for name, server in found.items()]


def _server(name: str, server: _Named) -> McpServer:
    if server.url is not None:
        kind: type[Any] = SseMcpServer if server.type == "sse" else HttpMcpServer
        made: McpServer = kind(name=name, url=server.url, headers=server.headers)
        return made
    if server.command is None:
        raise UsageError(f"the MCP server {name!r} has neither a command nor an address")
    # protocol/v1/session-setup: the path of the command is absolute.
    command = shutil.which(server.command)
    if command is None:
        raise UsageError(f"the MCP server {name!r}: there is no command {server.command!r}")
    return StdioMcpServer(name=name, command=str(Path(command).absolute()), args=server.args, env=server.env)
