"""Parse `--mcp`: `NAME=COMMAND`, `NAME=URL`, a JSON file with `mcpServers`, or a name of the configuration."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from duologue.cli.exit_codes import UsageError
from duologue.client.services.tool_server import with_absolute_command
from duologue.config.servers import ServerConfig, named_servers, read_servers
from duologue.conversation.session_setup import McpServer, StdioMcpServer

FORMS = "expected NAME=COMMAND, NAME=URL, a name of the configuration, or a JSON file"


def mcp_servers(given: Sequence[str]) -> list[McpServer]:
    """Return the servers these arguments name, with absolute commands.

    Raises:
        UsageError: An argument is malformed, or a command does not exist.
    """
    return [_found(server) for argument in given for server in _servers_of(argument)]


def _servers_of(argument: str) -> list[McpServer]:
    name, equals, what = argument.partition("=")
    try:
        if not equals or "/" in name:
            return _named(argument) or read_servers(argument)
        if what.startswith(("http://", "https://")):
            return [ServerConfig(url=what).named(name)]
        command, *args = shlex.split(what)
    except FileNotFoundError:
        raise UsageError(f"--mcp {argument}: no file and no configured server has this name; {FORMS}") from None
    except OSError as error:
        raise UsageError(f"--mcp {argument}: {error.strerror}") from None
    except ValueError as error:
        wrong = str(error) if what.strip() or not equals else FORMS
        raise UsageError(f"--mcp {argument}: {wrong}") from None
    return [ServerConfig(command=command, args=args).named(name)]


def _named(argument: str) -> list[McpServer]:
    """Return the configured server of this name; an existing file of the same name takes precedence."""
    if "/" in argument or Path(argument).exists():
        return []
    server = named_servers().get(argument)
    return [] if server is None else [server]


def _found(server: McpServer) -> McpServer:
    if not isinstance(server, StdioMcpServer):
        return server
    if shutil.which(server.command) is None:
        raise UsageError(f"MCP server {server.name!r}: command {server.command!r} was not found")
    return with_absolute_command(server)
