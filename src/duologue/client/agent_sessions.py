"""Opening, listing and deleting the sessions of a connected agent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack

from duologue.client.new_sessions import NewSessions
from duologue.client.quirks import wait_for_late_replay
from duologue.client.request_handler import ClientRequestHandler
from duologue.client.session import ClientSession
from duologue.client.session_controls import SessionOptions
from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import (
    AcpMcpServer,
    HttpMcpServer,
    McpServer,
    SessionInfo,
    SessionParams,
    SseMcpServer,
    StdioMcpServer,
    SystemPrompt,
)
from duologue.errors import InvalidParams, ProtocolViolation, ResourceNotFound
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.values import AgentCapabilities, SessionOpened

T = TypeVar("T")

MAX_PAGES = 10_000
"""Pages of one list of sessions: at ten to a page more than any user has, and an end for agents that repeat cursors."""


class AwaitableSession(Coroutine[Any, Any, ClientSession]):
    """A session that is being opened: `await` it to get the open session, or let `async with` close it at the end."""

    def __init__(self, opening: Coroutine[Any, Any, ClientSession]) -> None:
        self._opening = opening
        self._session: ClientSession | None = None

    def __await__(self) -> Generator[Any, None, ClientSession]:
        return self._opening.__await__()

    async def __aenter__(self) -> ClientSession:
        self._session = await self._opening
        return self._session

    async def __aexit__(self, *error: object) -> None:
        if self._session is not None:
            await self._session.aclose()

    # A coroutine can be given to `asyncio.create_task` and its like.

    def send(self, value: Any) -> Any:
        return self._opening.send(value)

    def throw(self, kind: Any, value: Any = None, trace: Any = None) -> Any:
        return self._opening.throw(kind if value is None else value)

    def close(self) -> None:
        """Drop the request if it was never awaited."""
        self._opening.close()

    if not TYPE_CHECKING:  # type checkers report these uses themselves

        def __enter__(self) -> NoReturn:
            raise TypeError(f"a session needs `async with` instead of `with`: {_HOW_TO_OPEN}")

        def __exit__(self, *error: object) -> None: ...

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"the session is not open yet and has no `{name}`; {_HOW_TO_OPEN}")


_HOW_TO_OPEN = "write `session = await agent.new_session(…)` or `async with agent.new_session(…) as session:`"


class AgentSessions:
    """The sessions of one agent.

    Attributes:
        capabilities: What the agent can do.
        on_session: Called with each session before it receives its first update, which may be part of a replay.
    """

    capabilities: AgentCapabilities
    on_session: Callable[[ClientSession], None] | None
    _request_handler: ClientRequestHandler
    _new_sessions: NewSessions
    _tool_servers: list[McpServer]

    @property
    @abstractmethod
    def _proxy(self) -> AgentProxy:
        """Return the agent as the current connection reaches it."""

    @abstractmethod
    def _request(
        self, send: Callable[[AgentProxy], Awaitable[T]], session: ClientSession | None = None
    ) -> Coroutine[Any, Any, T]:
        """Send a request to the agent."""

    @abstractmethod
    def _add(
        self, session_id: str, params: SessionParams, opened: SessionOpened | None, *, is_spare: bool = False
    ) -> ClientSession:
        """Make a session that receives updates from now on."""

    @abstractmethod
    def _require(self, capability: str, action: str) -> None:
        """Check that the agent has advertised a capability."""

    # --- opening

    def new_session(self, cwd: str | Path = ".", **options: Unpack[SessionOptions]) -> AwaitableSession:
        """Open a new session: `async with` closes it at the end of the block, `await` leaves that to you.

        Args:
            cwd: Working directory of the session.
            additional_directories: Further directories that the agent may work in.
            mcp_servers: MCP servers for the agent to connect to.
            system_prompt: Instructions for the agent (unstable).
            meta: Sent to the agent in `_meta`.
            settings: Config options by id, and `mode` and `model`, to set; also after the agent was started again.

        Raises:
            MethodNotFound: The agent does not support one of the options.
            InvalidParams: The command of an MCP server does not exist, or the agent did not accept a setting.
        """
        settings = options.get("settings", {})
        opening = self._new_sessions.create(self._session_params(cwd, **options))
        return AwaitableSession(_with_settings(opening, settings) if settings else opening)

    def load_session(
        self, session_id: str, cwd: str | Path = ".", **options: Unpack[SessionOptions]
    ) -> AwaitableSession:
        """Open an earlier session and receive its history, which `session.transcript` then has.

        Args:
            session_id: Id of the session, as in `list_sessions`.
            cwd: Working directory of the session.
            additional_directories: Further directories that the agent may work in.
            mcp_servers: MCP servers for the agent to connect to.
            system_prompt: Instructions for the agent (unstable).
            meta: Sent to the agent in `_meta`.
            settings: Config options by id, and `mode` and `model`, to set; also after the agent was started again.

        Raises:
            MethodNotFound: The agent does not support loading, or one of the options.
            InvalidParams: The session is open already, the command of an MCP server does not exist, or the agent did
                not accept a setting.
        """
        self._require("load", "load earlier sessions")
        settings = options.get("settings", {})
        params = self._session_params(cwd, **options)
        opening = self._reopen_session(session_id, params, lambda proxy: proxy.load_session(session_id, params), True)
        return AwaitableSession(_with_settings(opening, settings) if settings else opening)

    def resume_session(
        self, session_id: str, cwd: str | Path = ".", **options: Unpack[SessionOptions]
    ) -> AwaitableSession:
        """Open an earlier session without receiving its history.

        Args:
            session_id: Id of the session, as in `list_sessions`.
            cwd: Working directory of the session.
            additional_directories: Further directories that the agent may work in.
            mcp_servers: MCP servers for the agent to connect to.
            system_prompt: Instructions for the agent (unstable).
            meta: Sent to the agent in `_meta`.
            settings: Config options by id, and `mode` and `model`, to set; also after the agent was started again.

        Raises:
            MethodNotFound: The agent does not support resuming, or one of the options.
            InvalidParams: The session is open already, the command of an MCP server does not exist, or the agent did
                not accept a setting.
        """
        self._require("resume", "resume earlier sessions")
        settings = options.get("settings", {})
        params = self._session_params(cwd, **options)
        opening = self._reopen_session(
            session_id, params, lambda proxy: proxy.resume_session(session_id, params), False
        )
        return AwaitableSession(_with_settings(opening, settings) if settings else opening)

    def fork_session(
        self, session_id: str, cwd: str | Path = ".", **options: Unpack[SessionOptions]
    ) -> AwaitableSession:
        """Open a new session that begins with the history of another one (unstable).

        Args:
            session_id: Id of the session to copy.
            cwd: Working directory of the new session.
            additional_directories: Further directories that the agent may work in.
            mcp_servers: MCP servers for the agent to connect to.
            system_prompt: Instructions for the agent (unstable).
            meta: Sent to the agent in `_meta`.
            settings: Config options by id, and `mode` and `model`, to set; also after the agent was started again.

        Raises:
            MethodNotFound: The agent does not support forking, or one of the options.
            InvalidParams: The command of an MCP server does not exist, or the agent did not accept a setting.
        """
        settings = options.get("settings", {})
        return self._fork_session(session_id, self._session_params(cwd, **options), settings)

    def _fork_session(
        self, session_id: str, params: SessionParams, settings: Mapping[str, str | bool] | None = None
    ) -> AwaitableSession:
        self._require("fork", "fork sessions")
        forked = self._request_handler.sessions.get(session_id)

        async def open_fork() -> ClientSession:
            session = await self._new_sessions.open(
                params,
                lambda arrived, late: self._request(
                    lambda proxy: proxy.fork_session(session_id, params, arrived, late), forked
                ),
            )
            session._usage_counter.add_history()
            return session

        opening = open_fork()
        return AwaitableSession(_with_settings(opening, settings) if settings else opening)

    async def _reopen_session(
        self,
        session_id: str,
        params: SessionParams,
        send: Callable[[AgentProxy], Awaitable[SessionOpened]],
        is_loaded: bool,
    ) -> ClientSession:
        """Open a session that receives its replay before it is open; if that fails, remove it again."""
        # Two would receive the same updates, and the failure of one would end the other.
        if session_id in self._request_handler.sessions:
            raise InvalidParams(f"session {session_id!r} is open already; close it first")
        session = self._add(session_id, params, None)
        session._usage_counter.add_history()
        try:
            session._apply_opened(await self._request(send))
            if is_loaded:
                await wait_for_late_replay(session)
        except BaseException:
            session.is_open = False
            session._close_subscribers()
            await self._request_handler.remove(session_id)
            raise
        return session

    def _session_params(
        self,
        cwd: str | Path,
        *,
        additional_directories: Sequence[str | Path] = (),
        mcp_servers: Sequence[McpServer] = (),
        system_prompt: SystemPrompt | None = None,
        meta: JsonObject | None = None,
        settings: object = None,  # set once the session is open
    ) -> SessionParams:
        if additional_directories:
            self._require("additional_directories", "work in more than one directory")
        if system_prompt is not None:
            self._require("system_prompt", "take instructions")
        return SessionParams(
            cwd=_absolute(cwd),
            additional_directories=[_absolute(directory) for directory in additional_directories],
            mcp_servers=[*map(self._usable, mcp_servers), *self._tool_servers],
            system_prompt=system_prompt,
            meta=meta,
        )

    def _usable(self, server: McpServer) -> McpServer:
        if isinstance(server, StdioMcpServer):
            self._require("mcp_stdio", f"start the MCP server {server.name!r}")
            from duologue.client.services.tool_server import with_absolute_command

            return with_absolute_command(server)
        if isinstance(server, HttpMcpServer):
            self._require("mcp_http", f"reach the MCP server {server.name!r} over HTTP")
        elif isinstance(server, SseMcpServer):
            self._require("mcp_sse", f"reach the MCP server {server.name!r} over SSE")
        elif isinstance(server, AcpMcpServer):
            self._require("mcp_acp", f"reach the MCP server {server.name!r} over this connection")
        return server

    # --- listing and deleting

    async def list_sessions(self, *, cwd: str | Path | None = None, archived: str | None = None) -> list[SessionInfo]:
        """Return the sessions that the agent has stored, from all pages of its list.

        Args:
            cwd: Only sessions of this directory.
            archived: `exclude`, `include` or `only` archived sessions. Default: the agent decides.

        Raises:
            MethodNotFound: The agent does not support listing.
            ProtocolViolation: The list has more than 10,000 pages.
        """
        self._require("list", "list its sessions")
        found: list[SessionInfo] = []
        cursor: str | None = None
        directory = None if cwd is None else _absolute(cwd)
        seen: set[str] = set()
        while len(seen) < MAX_PAGES:
            page, cursor = await self._request(methodcaller("list_sessions", directory, cursor, archived))
            found += page
            if cursor is None or cursor in seen:
                return await self._new_sessions.without_unused(found)
            seen.add(cursor)
        raise ProtocolViolation(f"the agent's list of sessions has no end: {MAX_PAGES:,} pages, and more to come")

    async def delete_session(self, session_id: str) -> None:
        """Delete a session at the agent; do nothing if it does not exist.

        Raises:
            MethodNotFound: The agent does not support deleting.
        """
        self._require("delete", "delete sessions")
        if session_id in self._request_handler.sessions:
            await self._request_handler.sessions[session_id].aclose()
        try:
            await self._request(lambda proxy: proxy.delete_session(session_id))
        except ResourceNotFound:
            return

    async def archive_session(self, session_id: str) -> None:
        """Archive a session (unstable).

        Raises:
            MethodNotFound: The agent does not support archiving.
        """
        self._require("archive", "archive sessions")
        await self._request(lambda proxy: proxy.archive_session(session_id, True))

    async def unarchive_session(self, session_id: str) -> None:
        """Undo `archive_session` (unstable).

        Raises:
            MethodNotFound: The agent does not support archiving.
        """
        self._require("archive", "archive sessions")
        await self._request(lambda proxy: proxy.archive_session(session_id, False))


async def _with_settings(
    opening: Coroutine[Any, Any, ClientSession], settings: Mapping[str, str | bool]
) -> ClientSession:
    """Set the settings of a session that is being opened; close it again if the agent does not accept them."""
    session = await opening
    try:
        await session._user_settings.set(settings)
    except BaseException:
        await session.aclose()
        raise
    return session


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())
