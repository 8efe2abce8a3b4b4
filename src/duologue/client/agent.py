"""An agent somewhere else, and the sessions we have with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar

from duologue.client.auth import Authenticator
from duologue.client.late_replay import wait_for_late_replay
from duologue.client.request_handler import ClientRequestHandler
from duologue.client.services.tool_server import with_absolute_command
from duologue.client.session import ClientSession
from duologue.client.supervisor import AgentSupervisor, LiveConnection, RecoveryOptions
from duologue.client.watchdog import Watchdog
from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import (
    AcpMcpServer,
    HttpMcpServer,
    Implementation,
    McpServer,
    SessionInfo,
    SessionParams,
    SseMcpServer,
    StdioMcpServer,
    SystemPrompt,
)
from duologue.errors import (
    AuthenticationRequired,
    DuologueError,
    InvalidParams,
    MethodNotFound,
    ProtocolViolation,
    ResourceNotFound,
)
from duologue.protocol.interfaces import AgentProxy
from duologue.protocol.values import AgentCapabilities, AuthMethod, AuthStatus, Provider, SessionOpened
from duologue.runtime.connection import Connection
from duologue.runtime.tasks import TaskScope

__all__ = ["RemoteAgent"]

T = TypeVar("T")

CANCEL_SECONDS = 10.0
"""How long a cancelled turn waits for the agent to end it; longer, and people press the key again."""

MAX_PAGES = 10_000
"""Pages of one list of sessions: at ten to a page more than anybody has, and an end for agents that know none."""


class RemoteAgent:
    """What `connect(…)` gives.

    Attributes:
        info: Who the agent says it is, if it does.
        features: What it can do.
        login_methods: The ways to log in that it offers.
    """

    def __init__(
        self,
        request_handler: ClientRequestHandler,
        connect: Callable[[], Awaitable[LiveConnection]],
        recovery: RecoveryOptions,
    ) -> None:
        self._request_handler = request_handler
        self._supervisor = AgentSupervisor(connect, request_handler, recovery.restart, self._on_connected)
        self._generation = 0
        self._tasks = TaskScope()
        self.info: Implementation | None = None
        self.capabilities = AgentCapabilities()
        self.login_methods: list[AuthMethod] = []
        self._cancel_timeout, self.max_transcript_bytes = CANCEL_SECONDS, recovery.max_transcript_bytes
        self._tool_servers: list[McpServer] = []
        self._on_session: Callable[[ClientSession], None] | None = None
        self._line: LiveConnection | None = None
        self._logins = Authenticator(recovery.target, recovery.login)
        self._watchdog: Watchdog | None = None
        if recovery.stall_timeout is not None:
            self._watchdog = Watchdog(recovery.stall_timeout, request_handler.signs, request_handler.terminals)

    def _on_connected(self, line: LiveConnection) -> None:
        self._line = line
        self._generation += 1
        self.info = line.initialize_result.info
        self.capabilities = line.initialize_result.capabilities
        self.login_methods = line.initialize_result.login_methods
        self._request_handler.met(self.info)

    @property
    def version(self) -> int:
        """The version of the protocol that is spoken with it."""
        return self._proxy.version

    @property
    def _proxy(self) -> AgentProxy:
        """The agent as it is reached now."""
        assert self._line is not None, "nobody has an agent that was never reached"
        return self._line.proxy

    @property
    def connection(self) -> Connection:
        """How it is reached now; another one after it was lost and came back."""
        assert self._line is not None, "nobody has an agent that was never reached"
        return self._line.connection

    @property
    def is_closed(self) -> bool:
        """The agent is gone; where that was wished for, its next use brings it back."""
        return self.connection.is_closed

    async def _request(
        self, ask: Callable[[AgentProxy], Awaitable[T]], session: ClientSession | None = None, *, logs_in: bool = True
    ) -> T:
        """Ask the agent, which may have to be started again before, and to get a login once.

        Args:
            ask: The request.
            session: The session it is about, which may have to be opened again.
            logs_in: Whether a login is tried where the agent wants one.
        """
        since = self._logins.count
        try:
            return await self._attempt(ask, session)
        except AuthenticationRequired as refusal:
            if not logs_in:
                raise
            await self._logins.settle(self, refusal, since, session)
        return await self._attempt(ask, session)

    async def _attempt(self, ask: Callable[[AgentProxy], Awaitable[T]], session: ClientSession | None) -> T:
        await self._supervisor.ensure_connected()
        if session is not None:
            await session._ensure_open()
        return await ask(self._proxy)

    def _require(self, feature: str, what: str) -> None:
        """Refuse to ask for what the agent never offered.

        Raises:
            MethodNotFound: It cannot do that.
        """
        if not getattr(self.capabilities, feature):
            name = self.info.name if self.info is not None else "this agent"
            raise MethodNotFound(f"{name} cannot {what}")

    # --- sessions

    @asynccontextmanager
    async def session(
        self,
        cwd: str | Path = ".",
        *,
        additional_directories: Sequence[str | Path] = (),
        mcp_servers: Sequence[McpServer] = (),
        system_prompt: SystemPrompt | None = None,
        meta: JsonObject | None = None,
    ) -> AsyncGenerator[ClientSession]:
        """A new session in this directory, closed at the end of the block."""
        session = await self.new_session(
            cwd,
            additional_directories=additional_directories,
            mcp_servers=mcp_servers,
            system_prompt=system_prompt,
            meta=meta,
        )
        async with session:
            yield session

    async def new_session(self, cwd: str | Path = ".", **options: Any) -> ClientSession:
        """A new session; close it yourself."""
        setup = self._session_params(cwd, **options)
        return await self._open_session(
            setup, lambda arrived, late: self._request(lambda proxy: proxy.new_session(setup, arrived, late))
        )

    async def load_session(self, session_id: str, cwd: str | Path = ".", **options: Any) -> ClientSession:
        """An earlier session with all that was said in it."""
        self._require("load", "load earlier sessions")
        setup = self._session_params(cwd, **options)
        return await self._reopen_session(session_id, setup, lambda proxy: proxy.load_session(session_id, setup), True)

    async def resume_session(self, session_id: str, cwd: str | Path = ".", **options: Any) -> ClientSession:
        """An earlier session, without hearing again what was said in it."""
        self._require("resume", "resume earlier sessions")
        setup = self._session_params(cwd, **options)
        return await self._reopen_session(
            session_id, setup, lambda proxy: proxy.resume_session(session_id, setup), False
        )

    async def _reopen_session(
        self,
        session_id: str,
        setup: SessionParams,
        ask: Callable[[AgentProxy], Awaitable[SessionOpened]],
        is_loaded: bool,
    ) -> ClientSession:
        """A session whose replay is heard before it is open; if that fails half-way, nothing of it is kept."""
        # Two would hear the same updates, and the failure of one would end the other.
        if session_id in self._request_handler.sessions:
            raise InvalidParams(f"session {session_id!r} is open already; close it first")
        session = self._add(session_id, setup, None)
        try:
            session._apply_opened(await self._request(ask))
            if is_loaded:
                await wait_for_late_replay(session)
        except BaseException:
            session.is_open = False
            session._close_subscribers()
            await self._request_handler.remove(session_id)
            raise
        return session

    async def fork_session(self, session_id: str, setup: SessionParams) -> ClientSession:
        """A new session that begins with all that was said in another."""
        self._require("fork", "fork sessions")
        forked = self._request_handler.sessions.get(session_id)
        return await self._open_session(
            setup,
            lambda arrived, late: self._request(
                lambda proxy: proxy.fork_session(session_id, setup, arrived, late), forked
            ),
        )

    async def _open_session(
        self,
        setup: SessionParams,
        ask: Callable[[Callable[[SessionOpened], None], Callable[[SessionOpened], object]], Awaitable[SessionOpened]],
    ) -> ClientSession:
        """A session under the id the agent gives it; one that could be mistaken for another is refused."""
        made: list[ClientSession] = []

        def arrived(opened: SessionOpened) -> None:
            if opened.session_id and opened.session_id not in self._request_handler.sessions:
                made.append(self._add(opened.session_id, setup, opened))

        def late(opened: SessionOpened) -> None:
            self._tasks.start(self._close_unwanted(opened.session_id, made))

        opened = await ask(arrived, late)
        if not made:
            flaw = f"the id {opened.session_id!r} twice" if opened.session_id else "no id"
            raise ProtocolViolation(f"the agent opened a session and gave it {flaw}")
        return made[0]

    async def _close_unwanted(self, session_id: str, made: Sequence[ClientSession]) -> None:
        """A session was opened although nobody waits for it any more; an id of another one means that other one."""
        with suppress(DuologueError):
            if made:
                await made[0].aclose()
            elif session_id not in self._request_handler.sessions and self.capabilities.close:
                await self._proxy.close_session(session_id)

    async def list_sessions(self, *, cwd: str | Path | None = None, archived: str | None = None) -> list[SessionInfo]:
        """The sessions the agent keeps, all pages of them.

        Raises:
            ProtocolViolation: There is no end to them.
        """
        self._require("list", "list its sessions")
        found: list[SessionInfo] = []
        cursor: str | None = None
        where = None if cwd is None else _absolute(cwd)
        seen: set[str] = set()
        while len(seen) < MAX_PAGES:
            page, cursor = await self._request(methodcaller("list_sessions", where, cursor, archived))
            found += page
            if cursor is None or cursor in seen:
                return found
            seen.add(cursor)
        raise ProtocolViolation(f"the agent's list of sessions has no end: {MAX_PAGES:,} pages, and more to come")

    async def delete_session(self, session_id: str) -> None:
        """Forget a session for good; one that is gone already is as good as deleted."""
        self._require("delete", "delete sessions")
        if session_id in self._request_handler.sessions:
            await self._request_handler.sessions[session_id].aclose()
        try:
            await self._request(lambda proxy: proxy.delete_session(session_id))
        except ResourceNotFound:
            return

    async def archive_session(self, session_id: str) -> None:
        """Put a session away; `sessions()` leaves it out from now on."""
        self._require("archive", "archive sessions")
        await self._request(lambda proxy: proxy.archive_session(session_id, True))

    async def unarchive_session(self, session_id: str) -> None:
        """Bring an archived session back."""
        self._require("archive", "archive sessions")
        await self._request(lambda proxy: proxy.archive_session(session_id, False))

    async def _forget(self, session: ClientSession) -> None:
        """A session was closed."""
        await self._request_handler.remove(session.id)

    def _add(self, session_id: str, setup: SessionParams, opened: SessionOpened | None) -> ClientSession:
        session = ClientSession(self, session_id, setup)
        if opened is not None:
            session._apply_opened(opened)
        if self._on_session is not None:
            self._on_session(session)
        self._request_handler.add(session)
        return session

    def _session_params(
        self,
        cwd: str | Path,
        *,
        additional_directories: Sequence[str | Path] = (),
        mcp_servers: Sequence[McpServer] = (),
        system_prompt: SystemPrompt | None = None,
        meta: JsonObject | None = None,
    ) -> SessionParams:
        """What to open a session with, checked against what the agent can do.

        Raises:
            MethodNotFound: It asks for something the agent never offered.
            InvalidParams: The command of an MCP server is not there.
        """
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
            return with_absolute_command(server)
        if isinstance(server, HttpMcpServer):
            self._require("mcp_http", f"reach the MCP server {server.name!r} over HTTP")
        elif isinstance(server, SseMcpServer):
            self._require("mcp_sse", f"reach the MCP server {server.name!r} over SSE")
        elif isinstance(server, AcpMcpServer):
            self._require("mcp_acp", f"reach the MCP server {server.name!r} over this connection")
        return server

    # --- login

    async def login(self, method_id: str) -> None:
        """Log in by one of `login_methods`.

        Raises:
            InvalidParams: There is no such method, or it cannot be run here.
            AuthenticationRequired: It did not succeed.
        """
        await self._supervisor.ensure_connected()
        await self._logins.log_in(self, method_id)

    async def logout(self) -> None:
        """Log out, where the agent can do that."""
        self._require("logout", "log out")
        await self._request(lambda proxy: proxy.logout(), logs_in=False)

    async def login_status(self) -> AuthStatus:
        """Who is logged in, where the agent tells."""
        self._require("login_status", "tell who is logged in")
        return await self._request(lambda proxy: proxy.login_status(), logs_in=False)

    # --- providers and extensions

    async def providers(self) -> list[Provider]:
        """Where the agent's model requests go (unstable)."""
        self._require("providers", "let others choose its providers")
        return await self._request(lambda proxy: proxy.list_providers())

    async def set_provider(
        self, provider_id: str, *, api_type: str, base_url: str, headers: dict[str, str] | None = None
    ) -> None:
        """Point a provider elsewhere (unstable)."""
        self._require("providers", "let others choose its providers")
        await self._request(lambda proxy: proxy.set_provider(provider_id, api_type, base_url, headers or {}))

    async def disable_provider(self, provider_id: str) -> None:
        """Switch a provider off (unstable)."""
        self._require("providers", "let others choose its providers")
        await self._request(lambda proxy: proxy.disable_provider(provider_id))

    async def call(self, name: str, params: Any, result: Any = dict[str, Any]) -> Any:
        """Call a custom method (`_…`) of the agent; `result` is the type its answer is read as."""
        return await self._request(lambda proxy: proxy.call_extension(name, params, result))

    async def notify(self, name: str, params: Any) -> None:
        """Send a custom notification (`_…`)."""
        await self._request(lambda proxy: proxy.notify_extension(name, params))


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())
