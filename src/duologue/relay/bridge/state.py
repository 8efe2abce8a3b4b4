"""Both ends of one bridge and what lies between them: the sessions, what runs, and how it ends."""

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
from duologue.protocol.feature_filter import EVERYTHING
from duologue.protocol.interfaces import AgentProxy, ClientHandler, ClientProxy
from duologue.protocol.meta import attach_meta, current_request
from duologue.protocol.negotiation import initialize
from duologue.protocol.values import AgentCapabilities, ClientCapabilities, InitializeResult
from duologue.relay.bridge.loss_report import LossReporter
from duologue.relay.bridge.passthrough import pass_extensions, passing_on
from duologue.relay.bridge.request_ids import RequestIdMap
from duologue.relay.bridge.session import BridgedSession
from duologue.relay.pump import OpenProcess, describe_failure
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Handlers
from duologue.runtime.tasks import TaskScope

__all__ = ["BridgeState"]

T = TypeVar("T")

LAST_ANSWERS = 1.5
"""Seconds for the editor to hear that nothing will come of what it asked: each call on a lost agent ends in one."""


class BridgeState:
    """What the two sides of a bridge share.

    Args:
        open_agent: The way to the agent.
        agent_version: What it speaks.

    Attributes:
        near: The connection to the editor, once there is one.
        sessions: Those that were opened here, or that the agent told of.
        closed: Those that were closed here and that the agent could not be told of.
        losses: What could not be passed on.
        numbers: Which request of the editor is which at the agent.
        is_over: The agent is gone, or never came.
        failure: Why.
    """

    def __init__(self, open_agent: OpenProcess, agent_version: int) -> None:
        self.agent_version = agent_version
        self.near: Connection | None = None
        self.sessions: dict[str, BridgedSession] = {}
        self.closed: set[str] = set()
        self.losses = LossReporter()
        self.numbers = RequestIdMap()
        self.features = AgentCapabilities()
        self.tasks = TaskScope()
        self.is_over = asyncio.Event()
        self.failure: DuologueError | None = None
        self._open_agent = open_agent
        self._editor: ClientProxy | None = None
        self._proxy: AgentProxy | None = None
        self._far: Connection | None = None
        self._asking = 0
        self._all_answered = asyncio.Event()

    @property
    def editor(self) -> ClientProxy:
        """The editor, as it is spoken to."""
        assert self._editor is not None, "nothing comes before initialize"
        return self._editor

    @property
    def proxy(self) -> AgentProxy:
        """The agent, as it is spoken to."""
        assert self._proxy is not None, "nothing comes before initialize"
        return self._proxy

    @property
    def far(self) -> Connection | None:
        """The connection to the agent, once there is one."""
        return self._far

    # --- the agent comes and goes

    async def dial(
        self, core: ClientHandler, client: Implementation | None, features: ClientCapabilities, editor: ClientProxy
    ) -> InitializeResult:
        """Reach the agent and exchange first words with it, as the editor has done here.

        Raises:
            InternalError: There is no agent, or none that speaks the version that was promised.
        """
        await self._hang_up()
        self._editor = editor
        request = current_request()
        # What the agent says later has nothing to do with the request that is being answered here.
        dialing = Variables().run(self.tasks.start, self._dial(core, client, features, request.received or {}))
        try:
            welcome, received = await dialing
        except (StartError, ConnectionLost, ProtocolViolation) as error:
            self.failure = error
            self.is_over.set()
            raise InternalError(f"no agent: {describe_failure(error)}") from error
        finally:
            dialing.cancel()
        request.answer.update(received or {})
        self.features = welcome.capabilities
        return welcome

    async def _dial(
        self, core: ClientHandler, client: Implementation | None, features: ClientCapabilities, meta: JsonObject
    ) -> tuple[InitializeResult, JsonObject | None]:
        handlers = Handlers()
        pass_extensions(handlers, lambda: self.near)
        observers = (self.numbers,) if features.forms or features.urls else ()
        connection = Connection(self._open_agent(), handlers, ignore_stray_output=True, observers=observers)
        await connection.__aenter__()
        self._far = connection
        us = client or Implementation("duologue", importlib.metadata.version("duologue"))
        try:
            with attach_meta(meta) as attached:
                self._proxy, welcome = await initialize(
                    connection, core, us, features, (self.agent_version,), EVERYTHING, can_start_over=True
                )
        except BaseException:
            await connection.aclose()
            raise
        self.tasks.start(self._watch(connection))
        return welcome, attached.received

    async def _watch(self, connection: Connection) -> None:
        """An agent that ends by itself ends everything, once the editor has heard that nothing more will come."""
        await connection.wait_closed()
        if connection is not self._far or self.near is None or self.near.is_closed:
            return
        self.failure = connection._connection_lost()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_ANSWERS):
                while self._asking:
                    self._all_answered.clear()
                    await self._all_answered.wait()
        self.is_over.set()

    async def _hang_up(self) -> None:
        far, self._far = self._far, None
        self.sessions.clear()
        if far is not None:
            await far.aclose()

    async def aclose(self) -> None:
        """End the agent, and what was done between the two."""
        await self._hang_up()
        await self.tasks.cancel(1.0)

    # --- calls of the agent

    async def ask(self, answer: Awaitable[T]) -> T:
        """What the agent answers.

        Raises:
            RequestError: The agent's error, as it is; or that it is gone.
        """
        self._asking += 1
        try:
            with passing_on():
                return await answer
        except ConnectionLost as lost:
            raise InternalError(f"the agent is gone: {describe_failure(lost)}") from lost
        except ProtocolViolation as bad:
            raise InternalError(f"the agent's answer makes no sense: {bad}") from bad
        finally:
            self._asking -= 1
            if not self._asking:
                self._all_answered.set()

    async def stop(self, session_id: str) -> None:
        """Ask the agent to end what runs in a session."""
        with suppress(ConnectionLost), passing_on():
            await self.proxy.cancel(session_id)

    async def close_unwanted(self, session_id: str) -> None:
        """A session was opened although nobody waits for it any more."""
        self.sessions.pop(session_id, None)
        if self.features.close:
            with suppress(DuologueError):
                await self.proxy.close_session(session_id)

    # --- sessions

    def session(self, session_id: str) -> BridgedSession:
        """The session of this name; agents also tell of sessions that they start themselves."""
        session = self.sessions.get(session_id)
        return self.opening(session_id, None) if session is None else session

    def opening(self, session_id: str, setup: SessionParams | None) -> BridgedSession:
        """A session is being opened; nothing is known of it yet."""
        self.closed.discard(session_id)
        session = self.sessions[session_id] = BridgedSession(session_id, self, setup)
        return session

    def forget(self, session_id: str) -> None:
        """A session is no more."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.turns.abandon()
