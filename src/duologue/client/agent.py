"""A connected agent: its sessions, authentication, providers and custom methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from duologue.client.agent_sessions import AgentSessions
from duologue.client.auth import Authenticator, AuthOptions
from duologue.client.new_sessions import BufferedEvents, NewSessions
from duologue.client.request_handler import ClientRequestHandler
from duologue.client.session import ClientSession
from duologue.client.supervisor import AgentSupervisor, LiveConnection, Restart
from duologue.client.target import AgentTarget
from duologue.client.watchdog import Watchdog
from duologue.conversation.session_setup import Implementation, McpServer, SessionParams
from duologue.errors import MethodNotFound
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.steering import Spelling
from duologue.protocol.values import AgentCapabilities, AuthMethod, AuthStatus, Provider, SessionOpened
from duologue.runtime.connection import Connection
from duologue.runtime.tasks import TaskScope

T = TypeVar("T")

CANCEL_SECONDS = 10.0
"""Time for the agent to end a cancelled turn, after which the turn ends without it: users wait no longer."""


class RemoteAgent(AgentSessions):
    """A connected agent, as `connect(…)` yields it.

    Attributes:
        info: Name and version of the agent, if it sent them.
        capabilities: What the agent can do.
        login_methods: Login methods that the agent offers.
        on_session: Called with each session before it receives its first update, which may be part of a replay.
        on_subagent: Called with the session of each subagent before it receives its first update (unstable).
    """

    def __init__(
        self,
        request_handler: ClientRequestHandler,
        connect: Callable[[], Awaitable[LiveConnection]],
        target: AgentTarget,
        restart: Restart | None,
        login: AuthOptions | None,
        stall_timeout: float | None,
        cancel_timeout: float,
        max_transcript_bytes: int | None,
    ) -> None:
        self.info: Implementation | None = None
        self.capabilities = AgentCapabilities()
        self.login_methods: list[AuthMethod] = []
        self.on_session: Callable[[ClientSession], None] | None = None
        self.on_subagent: Callable[[ClientSession], None] | None = None
        self._request_handler, self._target = request_handler, target
        self._authenticator = Authenticator(self, target, login)
        self._supervisor = AgentSupervisor(
            connect, request_handler, self._authenticator, restart, self._on_connected, target.add_stderr_to
        )
        self._tasks = TaskScope()
        self._new_sessions = NewSessions(self)
        self._cancel_timeout, self._max_transcript_bytes = cancel_timeout, max_transcript_bytes
        self._tool_servers: list[McpServer] = []
        self._steering: Spelling | None = None
        self._watchdog: Watchdog | None = None
        if stall_timeout is not None:
            self._watchdog = Watchdog(stall_timeout, request_handler.activity, request_handler.terminals)

    def _on_connected(self, live: LiveConnection) -> None:
        result = live.initialize_result
        self.info, self.login_methods = result.info, result.auth_methods
        self._steering = result.steering
        self.capabilities = replace(result.capabilities, steering=self._steering is not None)
        self._request_handler.on_initialized(self.info)

    @property
    def version(self) -> int:
        """The protocol version that was negotiated with the agent."""
        return self._proxy.version

    def __repr__(self) -> str:
        name = "an agent without a name" if self.info is None else f"{self.info.name} {self.info.version}"
        return f"<RemoteAgent {name}, {'closed' if self.is_closed else f'protocol version {self.version}'}>"

    @property
    def _proxy(self) -> AgentProxy:
        return self._supervisor.last_live.proxy

    @property
    def connection(self) -> Connection:
        """The current connection; another one after a lost agent was started again."""
        return self._supervisor.last_live.connection

    @property
    def is_closed(self) -> bool:
        """True if the connection is closed; with `connect(restart=…)` the next request opens another one."""
        return self.connection.is_closed

    def _request(
        self,
        send: Callable[[AgentProxy], Awaitable[T]],
        session: ClientSession | None = None,
        *,
        authenticates: bool = True,
    ) -> Coroutine[Any, Any, T]:
        return self._supervisor.request(send, session, authenticates=authenticates)

    def _require(self, capability: str, action: str) -> None:
        """Check that the agent has advertised a capability.

        Raises:
            MethodNotFound: It has not.
        """
        if not getattr(self.capabilities, capability):
            name = self.info.name if self.info is not None else "this agent"
            raise MethodNotFound(f"{name} cannot {action}")

    def _add(
        self, session_id: str, params: SessionParams, opened: SessionOpened | None, *, is_spare: bool = False
    ) -> ClientSession:
        session = ClientSession(self, session_id, params)
        if opened is not None:
            session._apply_opened(opened)
        if is_spare:
            session._buffered = BufferedEvents(session.watch)
        elif self.on_session is not None:
            self.on_session(session)
        self._request_handler.add(session)
        return session

    # --- authentication

    async def login(self, method_id: str) -> None:
        """Log in with one of `login_methods`.

        Raises:
            InvalidParams: The agent has no such method, or this client cannot run it.
            AuthenticationRequired: The login failed.
        """
        await self._supervisor.ensure_connected()
        await self._authenticator.authenticate_by(method_id)

    async def logout(self) -> None:
        """Log out.

        Raises:
            MethodNotFound: The agent does not support it.
        """
        self._require("logout", "log out")
        await self._request(lambda proxy: proxy.logout(), authenticates=False)

    async def login_status(self) -> AuthStatus:
        """Return whether a user is logged in, and which one (unstable).

        Raises:
            MethodNotFound: The agent does not report it.
        """
        self._require("login_status", "report who is logged in")
        return await self._request(lambda proxy: proxy.auth_status(), authenticates=False)

    # --- providers and custom methods

    async def providers(self) -> list[Provider]:
        """Return the model providers that the agent can use (unstable)."""
        self._require("providers", "let others choose its providers")
        return await self._request(lambda proxy: proxy.list_providers())

    async def set_provider(
        self, provider_id: str, *, api_type: str, base_url: str, headers: dict[str, str] | None = None
    ) -> None:
        """Set the API, URL and headers of a model provider (unstable)."""
        self._require("providers", "let others choose its providers")
        await self._request(lambda proxy: proxy.set_provider(provider_id, api_type, base_url, headers or {}))

    async def disable_provider(self, provider_id: str) -> None:
        """Disable a model provider (unstable)."""
        self._require("providers", "let others choose its providers")
        await self._request(lambda proxy: proxy.disable_provider(provider_id))

    async def call(self, name: str, params: Any, result: Any = dict[str, Any]) -> Any:
        """Call a custom method (`_…`) of the agent; its response is read as the type `result`."""
        return await self._request(lambda proxy: proxy.call_extension(name, params, result))

    async def notify(self, name: str, params: Any) -> None:
        """Send a custom notification (`_…`) to the agent."""
        await self._request(lambda proxy: proxy.notify_extension(name, params))
