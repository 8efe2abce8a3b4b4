"""Parameters of a session (directories, MCP servers, system prompt), and the entry of a session in a list."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from duologue.conversation.content import Content, JsonObject


class Implementation(Struct, frozen=True, omit_defaults=True):
    """Name and version of an agent or client, as sent in `initialize`."""

    name: str
    version: str
    title: str | None = None
    meta: JsonObject | None = None


SECRET_FIELDS = {"env", "headers"}
"""Fields whose values are usually keys and tokens."""


class _ServerWithSecrets(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of servers with secrets: their `repr` shows the names of the secrets and not the values."""

    name: str

    def __repr__(self) -> str:
        shown = {field: getattr(self, field) for field in self.__struct_fields__}
        for field in SECRET_FIELDS & shown.keys():
            shown[field] = dict.fromkeys(shown[field], "…")
        return f"{type(self).__name__}({', '.join(f'{field}={value!r}' for field, value in shown.items())})"


class StdioMcpServer(_ServerWithSecrets, frozen=True, kw_only=True, omit_defaults=True, tag="stdio"):
    """An MCP server to start as a child process."""

    command: str
    args: list[str] = []
    env: dict[str, str] = {}
    meta: JsonObject | None = None


class HttpMcpServer(_ServerWithSecrets, frozen=True, kw_only=True, omit_defaults=True, tag="http"):
    """An MCP server reached by streamable HTTP."""

    url: str
    headers: dict[str, str] = {}
    meta: JsonObject | None = None


class SseMcpServer(_ServerWithSecrets, frozen=True, kw_only=True, omit_defaults=True, tag="sse"):
    """An MCP server reached by the older SSE transport."""

    url: str
    headers: dict[str, str] = {}
    meta: JsonObject | None = None


class AcpMcpServer(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="acp"):
    """An MCP server in the client, reached over the ACP connection itself."""

    name: str
    server_id: str
    meta: JsonObject | None = None


class UnknownMcpServer(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="?"):
    """An MCP server with a transport that this version does not know, unchanged."""

    name: str
    fields: JsonObject


McpServer: TypeAlias = StdioMcpServer | HttpMcpServer | SseMcpServer | AcpMcpServer | UnknownMcpServer


class SystemPrompt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Instructions for a session; `mode` is `append` (to the agent's own) or `override`."""

    mode: str
    content: list[Content]
    meta: JsonObject | None = None


class SessionParams(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parameters with which a client opens a session. Directories are absolute."""

    cwd: str
    additional_directories: list[str] = []
    mcp_servers: list[McpServer] = []
    system_prompt: SystemPrompt | None = None
    meta: JsonObject | None = None

    @property
    def roots(self) -> list[str]:
        """The directories in which the session works: `cwd` first."""
        return [self.cwd, *self.additional_directories]


class SessionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in the result of `session/list`."""

    session_id: str
    cwd: str
    additional_directories: list[str] = []
    title: str | None = None
    updated_at: str | None = None
    archived: bool = False
    meta: JsonObject | None = None
