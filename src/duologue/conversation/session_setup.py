"""What a session is opened with, and what is known of it from outside: directories, servers, titles, login state."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from duologue.conversation.content import Content, JsonObject

__all__ = [
    "AcpMcpServer",
    "HttpMcpServer",
    "Implementation",
    "McpServer",
    "SessionInfo",
    "SessionParams",
    "SseMcpServer",
    "StdioMcpServer",
    "SystemPrompt",
    "UnknownMcpServer",
]


class Implementation(Struct, frozen=True, omit_defaults=True):
    """One of the two ends, as it introduces itself."""

    name: str
    version: str
    title: str | None = None
    meta: JsonObject | None = None


SECRET_FIELDS = {"env", "headers"}
"""Their values are keys and tokens more often than not."""


class _Configured(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to reach a server: a log, a traceback and a debugger show the names of its secrets and not the values."""

    name: str

    def __repr__(self) -> str:
        shown = {field: getattr(self, field) for field in self.__struct_fields__}
        for field in SECRET_FIELDS & shown.keys():
            shown[field] = dict.fromkeys(shown[field], "…")
        return f"{type(self).__name__}({', '.join(f'{field}={value!r}' for field, value in shown.items())})"


class StdioMcpServer(_Configured, frozen=True, kw_only=True, omit_defaults=True, tag="stdio"):
    """An MCP server to start as a child process."""

    command: str
    args: list[str] = []
    env: dict[str, str] = {}
    meta: JsonObject | None = None


class HttpMcpServer(_Configured, frozen=True, kw_only=True, omit_defaults=True, tag="http"):
    """An MCP server behind streamable HTTP."""

    url: str
    headers: dict[str, str] = {}
    meta: JsonObject | None = None


class SseMcpServer(_Configured, frozen=True, kw_only=True, omit_defaults=True, tag="sse"):
    """An MCP server behind the older SSE transport."""

    url: str
    headers: dict[str, str] = {}
    meta: JsonObject | None = None


class AcpMcpServer(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="acp"):
    """An MCP server that lives in the client and is reached over this very connection."""

    name: str
    server_id: str
    meta: JsonObject | None = None


class UnknownMcpServer(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="?"):
    """A way to reach an MCP server that this version does not know, as it came."""

    name: str
    fields: JsonObject


McpServer: TypeAlias = StdioMcpServer | HttpMcpServer | SseMcpServer | AcpMcpServer | UnknownMcpServer


class SystemPrompt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Instructions for a session: `append` to the agent's own, or `override` them."""

    mode: str
    content: list[Content]
    meta: JsonObject | None = None


class SessionParams(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client gives a session to work with. Directories are absolute."""

    cwd: str
    additional_directories: list[str] = []
    mcp_servers: list[McpServer] = []
    system_prompt: SystemPrompt | None = None
    meta: JsonObject | None = None

    @property
    def roots(self) -> list[str]:
        """Where the session may work: `cwd` first."""
        return [self.cwd, *self.additional_directories]


class SessionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as a list shows it."""

    session_id: str
    cwd: str
    additional_directories: list[str] = []
    title: str | None = None
    updated_at: str | None = None
    archived: bool = False
    meta: JsonObject | None = None
