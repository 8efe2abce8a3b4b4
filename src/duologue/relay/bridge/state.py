"""The state that both sides of a bridge share: the two connections, the sessions and the request ids."""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import Awaitable
from contextlib import suppress
from contextvars import Context as Variables
from typing import TypeVar

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation, SessionParams
from duologue.errors import ConnectionLost, DuologueError, InternalError, ProtocolViolation, StartError
from duologue.jsonrpc.envelope import read_envelope
from duologue.jsonrpc.messages import Id
from duologue.protocol.feature_filter import EVERYTHING
from duologue.protocol.interfaces import ClientHandler
from duologue.protocol.meta import attach_meta, current_request
from duologue.protocol.negotiation import initialize
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.values import AgentCapabilities, ClientCapabilities, InitializeResult
from duologue.relay.bridge.loss_report import LossReporter
from duologue.relay.bridge.passthrough import forwarded_meta, pass_extensions
from duologue.relay.bridge.session import BridgedSession
from duologue.relay.pump import OpenProcess, describe_failure
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Handlers
from duologue.runtime.tasks import TaskScope

T = TypeVar("T")

LAST_RESPONSES_SECONDS = 1.5
"""Seconds for the client to get the errors of its open requests after the agent was lost."""


MAX_REQUEST_IDS = 1000
"""Requests to remember; an elicitation names one that is not answered yet."""


class RequestIdMap:
    """Observe the connection to the agent, and map its request ids to those of the client.

    An elicitation may name the request that it belongs to, and each connection has its own ids.
    """

    def __init__(self) -> None:
        self._client_ids: dict[Id, Id] = {}

    def __call__(self, direction: str, frame: bytes) -> None:
        envelope = read_envelope(frame) if direction == "out" else None
        if envelope is None or (id := envelope.request_id) is None:
            return
        try:
            client_id = current_request().id
        except LookupError:
            return  # not caused by a request of the client
        if client_id is not None:
            self._client_ids[id] = client_id
        if len(self._client_ids) > MAX_REQUEST_IDS:
            del self._client_ids[next(iter(self._client_ids))]

    def of_client(self, id: Id | None) -> Id | None:
        """Return the client's id for a request that has this id at the agent; the same id if it is unknown."""
        return None if id is None else self._client_ids.get(id, id)


class BridgeState:
    """The state that both sides of a bridge share.

    Args:
        open_agent: Creates the transport to the agent.
        agent_version: The version that it speaks.

    Attributes:
        client_connection: The connection to the client, once there is one.
        sessions: Sessions that were opened here, or that the agent has sent updates of.
        closed: Sessions that were closed here, but not at the agent, which does not support it.
        losses: Reports what could not be passed on.
        request_ids: Maps the agent's request ids to those of the client.
        is_over: Set when the agent has ended or could not be reached.
        failure: Why.
    """

    def __init__(self, open_agent: OpenProcess, agent_version: int) -> None:
        self.agent_version = agent_version
        self.client_connection: Connection | None = None
        self.sessions: dict[str, BridgedSession] = {}
        self.closed: set[str] = set()
        self.losses = LossReporter()
        self.request_ids = RequestIdMap()
        self.features = AgentCapabilities()
        self.tasks = TaskScope()
        self.is_over = asyncio.Event()
        self.failure: DuologueError | None = None
        self._open_agent = open_agent
        self._client: ClientProxy | None = None
        self._proxy: AgentProxy | None = None
        self._agent_connection: Connection | None = None
        self._asking = 0
        self._all_answered = asyncio.Event()

    @property
    def client(self) -> ClientProxy:
        """The client; requests to it are in its own version."""
        assert self._client is not None, "`initialize` is always first"
        return self._client

    @property
    def proxy(self) -> AgentProxy:
        """The agent; requests to it are in its own version."""
        assert self._proxy is not None, "`initialize` is always first"
        return self._proxy

    @property
    def agent_connection(self) -> Connection | None:
        """The connection to the agent, once there is one."""
        return self._agent_connection

    # --- start and end of the agent

    async def connect(
        self, handler: ClientHandler, info: Implementation | None, features: ClientCapabilities, client: ClientProxy
    ) -> InitializeResult:
        """Connect to the agent and initialize it for the client.

        Raises:
            InternalError: The agent could not be started, or does not speak the expected version.
        """
        await self._disconnect()
        self._client = client
        request = current_request()
        # Later messages of the agent do not belong to the request that is being answered here.
        connecting = Variables().run(self.tasks.start, self._connect(handler, info, features, request.received or {}))
        try:
            result, received = await connecting
        except (StartError, ConnectionLost, ProtocolViolation) as error:
            self.failure = error
            self.is_over.set()
            raise InternalError(f"no agent: {describe_failure(error)}") from error
        finally:
            connecting.cancel()
        request.answer.update(received or {})
        self.features = result.capabilities
        return result

    async def _connect(
        self, handler: ClientHandler, info: Implementation | None, features: ClientCapabilities, meta: JsonObject
    ) -> tuple[InitializeResult, JsonObject | None]:
        handlers = Handlers()
        pass_extensions(handlers, lambda: self.client_connection)
        observers = (self.request_ids,) if features.forms or features.urls else ()
        connection = Connection(self._open_agent(), handlers, ignore_stray_output=True, observers=observers)
        await connection.__aenter__()
        self._agent_connection = connection
        info = info or Implementation("duologue", importlib.metadata.version("duologue"))
        try:
            with attach_meta(meta) as attached:
                self._proxy, result = await initialize(
                    connection, handler, info, features, (self.agent_version,), EVERYTHING, can_start_over=True
                )
        except BaseException:
            await connection.aclose()
            raise
        self.tasks.start(self._watch(connection))
        return result, attached.received

    async def _watch(self, connection: Connection) -> None:
        """End the bridge when the agent ends, after the client has got the errors of its open requests."""
        await connection.wait_closed()
        if (
            connection is not self._agent_connection
            or self.client_connection is None
            or self.client_connection.is_closed
        ):
            return
        self.failure = connection._connection_lost()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_RESPONSES_SECONDS):
                while self._asking:
                    self._all_answered.clear()
                    await self._all_answered.wait()
        self.is_over.set()

    async def _disconnect(self) -> None:
        connection, self._agent_connection = self._agent_connection, None
        self.sessions.clear()
        if connection is not None:
            await connection.aclose()

    async def aclose(self) -> None:
        """End the agent and all tasks of the bridge."""
        await self._disconnect()
        await self.tasks.cancel(1.0)

    # --- requests to the agent

    async def ask(self, answer: Awaitable[T]) -> T:
        """Wait for a response of the agent.

        Raises:
            RequestError: The agent's own error, or that it is gone.
        """
        self._asking += 1
        try:
            with forwarded_meta():
                return await answer
        except ConnectionLost as lost:
            raise InternalError(f"the agent is gone: {describe_failure(lost)}") from lost
        except ProtocolViolation as bad:
            raise InternalError(f"the agent sent an invalid response: {bad}") from bad
        finally:
            self._asking -= 1
            if not self._asking:
                self._all_answered.set()

    async def stop(self, session_id: str) -> None:
        """Cancel the running turn of a session."""
        with suppress(ConnectionLost), forwarded_meta():
            await self.proxy.cancel(session_id)

    async def close_unwanted(self, session_id: str) -> None:
        """Close a session that was opened after its request had been cancelled."""
        self.sessions.pop(session_id, None)
        if self.features.close:
            with suppress(DuologueError):
                await self.proxy.close_session(session_id)

    # --- sessions

    def session(self, session_id: str) -> BridgedSession:
        """Return a session; agents also send updates of sessions that they start themselves."""
        session = self.sessions.get(session_id)
        return self.opening(session_id, None) if session is None else session

    def opening(self, session_id: str, setup: SessionParams | None) -> BridgedSession:
        """Add a session that is being opened."""
        self.closed.discard(session_id)
        session = self.sessions[session_id] = BridgedSession(session_id, self, setup)
        return session

    def forget(self, session_id: str) -> None:
        """Remove a session that was closed."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.turns.abandon()
