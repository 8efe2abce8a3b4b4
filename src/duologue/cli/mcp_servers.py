"""MCP servers as a command line names them: `NAME=COMMAND`, `NAME=URL`, a JSON file with `mcpServers`, or a name."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from duologue.cli.exit_codes import UsageError
from duologue.client.services.tool_server import with_absolute_command
from duologue.config.servers import ServerConfig, named_servers, read_servers
from duologue.conversation.session_setup import McpServer, StdioMcpServer

__all__ = ["mcp_servers"]

FORMS = "say NAME=COMMAND, NAME=URL, a name of the configuration, or a JSON file"


def mcp_servers(given: Sequence[str]) -> list[McpServer]:
    """The servers these arguments name, ready to be given to a session.

    Raises:
        UsageError: One of them names none, or a command that is not there.
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
        raise UsageError(f"--mcp {argument}: there is no such file, nor a server of that name; {FORMS}") from None
    except OSError as error:
        raise UsageError(f"--mcp {argument}: {error.strerror}") from None
    except ValueError as error:
        wrong = str(error) if what.strip() or not equals else FORMS
        raise UsageError(f"--mcp {argument}: {wrong}") from None
    return [ServerConfig(command=command, args=args).named(name)]


def _named(argument: str) -> list[McpServer]:
    """The server of the configuration file with that name; a file of the same name wins."""
    if "/" in argument or Path(argument).exists():
        return []
    server = named_servers().get(argument)
    return [] if server is None else [server]


def _found(server: McpServer) -> McpServer:
    if not isinstance(server, StdioMcpServer):
        return server
    if shutil.which(server.command) is None:
        raise UsageError(f"the MCP server {server.name!r}: there is no command {server.command!r}")
    return with_absolute_command(server)
