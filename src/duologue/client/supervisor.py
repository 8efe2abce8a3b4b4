"""Restarting a lost agent: connect again after a crash or a login, and reopen its sessions.

Requests that were running when the agent was lost have failed and are never sent again; the next request reconnects.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from duologue.client.auth import Authenticator
from duologue.client.quirks import wait_for_late_replay
from duologue.client.request_handler import ClientRequestHandler
from duologue.conversation.updates import SettingsUpdate
from duologue.errors import (
    AgentExited,
    AuthenticationRequired,
    ConnectionLost,
    CrashLoop,
    DuologueError,
    InitializeTimeout,
    InternalError,
    InvalidParams,
    MethodNotFound,
    ProtocolViolation,
    RequestError,
    SessionLost,
)
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.values import InitializeResult
from duologue.runtime.connection import Connection
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import quote

if TYPE_CHECKING:
    from duologue.client.session import ClientSession

_log = logging.getLogger("duologue.client")

T = TypeVar("T")


class Restart(Struct, frozen=True):
    """Policy for starting a lost agent again: the first time at once, then after pauses that double.

    Attributes:
        limit: Restarts within `within` seconds; needing more of them is an error, `CrashLoop`.
        within: Seconds for which a restart counts.
        pause: Seconds before the second restart.
    """

    limit: int = 3
    within: float = 60.0
    pause: float = 0.5


class LiveConnection(Struct, frozen=True, eq=False):
    """One connection to an agent that has answered `initialize`."""

    connection: Connection
    proxy: AgentProxy
    initialize_result: InitializeResult


class AgentSupervisor:
    """The connection to one agent, which is replaced after the agent was lost.

    Args:
        connect: Opens a new connection to the agent.
        request_handler: Handler of the agent's requests, whose work ends with each connection.
        authenticator: Authenticates when the agent requires it.
        restart: Policy for starting a lost agent again; `None`: never.
        on_connected: Called with each connection before it is used.
        on_failure: Called with the error of a request that the agent failed to handle.

    Attributes:
        generation: Number of connections so far.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[LiveConnection]],
        request_handler: ClientRequestHandler,
        authenticator: Authenticator,
        restart: Restart | None,
        on_connected: Callable[[LiveConnection], None],
        on_failure: Callable[[DuologueError], None],
    ) -> None:
        self.generation = 0
        self._connect = connect
        self._request_handler = request_handler
        self._authenticator = authenticator
        self._restart = restart
        self._on_connected, self._on_failure = on_connected, on_failure
        self._live: LiveConnection | None = None
        self._last_live: LiveConnection | None = None
        self._restarts: deque[float] = deque()
        self._lock = asyncio.Lock()
        self._tasks = TaskScope()
        self._cleanup_task: asyncio.Task[None] | None = None
        self._is_reconnecting = False
        self._cause: DuologueError | None = None
        self._closed = asyncio.Event()

    async def open(self) -> None:
        """Connect for the first time."""
        await self._open()

    @property
    def last_live(self) -> LiveConnection:
        """The current connection, or the last one while there is none."""
        assert self._last_live is not None, "`connect` yields agents that are connected"
        return self._last_live

    async def request(
        self,
        send: Callable[[AgentProxy], Awaitable[T]],
        session: ClientSession | None = None,
        *,
        authenticates: bool = True,
    ) -> T:
        """Send a request, after starting a lost agent again and reopening the session; log in and retry once.

        Args:
            send: Sends the request.
            session: The session of the request, which is reopened first if the agent was started again.
            authenticates: Authenticate if the agent requires it.
        """
        since, live = self._authenticator.count, self._live
        is_current = session is None or (session.is_open and session._generation == self.generation)
        try:
            try:
                if live is None or not is_current or (self._restart is not None and self._is_lost):
                    return await send(await self._ready(session))
                return await send(live.proxy)
            except AuthenticationRequired as error:
                if not authenticates:
                    raise
                await self._authenticator.authenticate(error, since, session)
            return await send(await self._ready(session))
        except (InternalError, ProtocolViolation) as error:
            self._on_failure(error)
            raise

    async def _ready(self, session: ClientSession | None) -> AgentProxy:
        """Return the agent once it and the session can receive a request."""
        if session is not None:
            session._must_be_open()
        await self.ensure_connected()
        if session is not None:
            await session._ensure_open()
        return self.last_live.proxy

    async def ensure_connected(self) -> None:
        """Start a lost agent again if there is a restart policy.

        Raises:
            CrashLoop: The agent was lost more often than the policy permits.
            StartError: The agent can no longer be started.
        """
        if self._restart is None or not self._is_lost:
            return
        async with self._lock:
            if self._is_lost:
                await self._restart_agent(self._restart)

    async def reconnect(self) -> None:
        """Close the connection and open another one, as after a login in a terminal; forget earlier crashes."""
        async with self._lock:
            self._restarts.clear()
            await self._leave()
            await self._open()

    async def aclose(self) -> None:
        """Close the connection and never reconnect."""
        self._restart = None
        self._closed.set()
        await self._leave()
        await self._tasks.cancel(1.0)

    @property
    def _is_lost(self) -> bool:
        return self._live is None or self._live.connection.is_closed

    async def _restart_agent(self, restart: Restart) -> None:
        if self._live is not None:
            self._cause = self._live.connection.cause
        while True:
            await self._backoff(self._pause(restart))
            try:
                await self._leave()
                await self._open()
            except (ConnectionLost, InitializeTimeout) as error:
                self._cause = error
                continue
            _log.warning(
                "the agent was lost and has been started again: %s", quote(self._cause or "it closed the connection")
            )
            return

    async def _backoff(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()
            raise ConnectionLost("the connection was closed")

    def _pause(self, restart: Restart) -> float:
        """Count a restart and return the seconds to wait before it.

        Raises:
            CrashLoop: The policy permits no further one now.
        """
        now = asyncio.get_running_loop().time()
        while self._restarts and self._restarts[0] <= now - restart.within:
            self._restarts.popleft()
        count = len(self._restarts)
        if count >= restart.limit:
            raise _crash_loop(restart, self._cause)
        self._restarts.append(now)
        return 0.0 if count == 0 else restart.pause * 2.0 ** (count - 1)

    async def _open(self) -> None:
        live = await self._connect()
        if self._closed.is_set():
            await live.connection.aclose()
            raise ConnectionLost("the connection was closed")
        self._live = self._last_live = live
        self.generation += 1
        self._is_reconnecting = False
        self._on_connected(live)
        self._cleanup_task = self._tasks.start(self._cleanup(live.connection))

    async def _leave(self) -> None:
        """Close the connection and wait until the work done for the agent has ended."""
        live, self._live = self._live, None
        if live is None:
            return
        self._is_reconnecting = True
        await live.connection.aclose()
        if self._cleanup_task is not None:
            await asyncio.wait({self._cleanup_task})

    async def _cleanup(self, connection: Connection) -> None:
        """End what the agent started through this client once its connection is closed."""
        await connection.wait_closed()
        await self._request_handler.end_agent_work()
        if self._restart is None and not self._is_reconnecting:
            self._request_handler.close_subscribers()


def _crash_loop(restart: Restart, cause: Exception | None) -> CrashLoop:
    message = f"the agent was started again {restart.limit} times in {restart.within:g} s, and was lost each time"
    if not isinstance(cause, AgentExited):
        return CrashLoop(message if cause is None else f"{message}: {cause}")
    loop = CrashLoop(f"{message}: {cause}", exit_code=cause.exit_code, signal=cause.signal)
    loop.stderr = cause.stderr  # the message of the cause quotes it already
    return loop


MODE, MODEL = "\0mode", "\0model"
"""Keys of the mode and the model among the config options, none of which has such an id."""


class UserSettings:
    """Values that the user has set in a session, to restore them after the agent was started again."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._keys: set[str] = set()

    def add(self, key: str) -> None:
        """Remember that the user has set this."""
        self._keys.add(key)

    def values(self) -> dict[str, str | bool]:
        """Return what the user has set, with the current values: the agent may have changed them since."""
        session = self._session
        current: dict[str, str | bool | None] = {each.setting_id: each.value for each in session.settings}
        current[MODE] = None if session.modes is None else session.modes.current
        current[MODEL] = None if session.models is None else session.models.value
        return {key: value for key in self._keys if (value := current.get(key)) is not None}

    async def set(self, values: Mapping[str, str | bool]) -> None:
        """Set config options by id, and `mode` and `model`, and check what the agent then reports.

        Raises:
            InvalidParams: The agent has no such option, or reports another value than was set.
        """
        session = self._session
        for key, value in values.items():
            named = {each.setting_id for each in session.settings}
            if key == "mode" and key not in named:
                await session.set_mode(str(value))
            elif key == "model" and key not in named:
                await session.set_model(str(value))
            else:
                await session.set_option(key, value)
                self._check(key, value)

    def _check(self, key: str, value: str | bool) -> None:
        """Check that the agent reports the value that was set.

        Raises:
            InvalidParams: It reports another one, or has no such option.
        """
        found = next((each.value for each in self._session.settings if each.setting_id == key), None)
        if found != value:
            raise InvalidParams(f"the agent did not accept {key!r}: {value!r} was set, it reports {found!r}")

    async def restore(self, values: Mapping[str, str | bool]) -> None:
        """Set what no longer has these values."""
        session, proxy = self._session, self._session.agent._proxy
        for key, value in values.items():
            if self.values().get(key) == value:
                continue
            if key == MODE:
                await proxy.set_mode(session.id, str(value))
                session.transcript.set_mode(str(value))
            elif key == MODEL:
                await proxy.set_model(session.id, str(value))
                session._apply_model(str(value))
            else:
                settings = await proxy.set_setting(session.id, key, value)
                session.transcript.apply(SettingsUpdate(settings=settings))
                self._check(key, value)


async def reopen(session: ClientSession) -> None:
    """Reopen a session after the agent was started again, and ignore the replay of earlier turns.

    Raises:
        SessionLost: The agent cannot reopen it, no longer has it, or rejects what the user has set.
        AuthenticationRequired: The agent requires a login first.
    """
    wanted = session._user_settings.values()  # before the agent reports its defaults
    session._is_replaying, session._has_replayed = True, False
    session._usage_counter.restart()
    try:
        if not await _open_again(session):
            raise SessionLost("the agent was started again, and it can neither resume nor load sessions")
        await session._user_settings.restore(wanted)
    except AuthenticationRequired:
        raise
    except RequestError as error:
        raise SessionLost(f"the agent was started again, and the session is lost: {error}") from error


async def _open_again(session: ClientSession) -> bool:
    """Resume the session, or else load it; return False if the agent can do neither."""
    agent = session.agent
    offered = (
        (agent.capabilities.resume, agent._proxy.resume_session),
        (agent.capabilities.load, agent._proxy.load_session),
    )
    for is_offered, send in offered:
        if not is_offered:
            continue
        try:
            session._apply_opened(await send(session.id, session._params))
        except MethodNotFound:
            continue  # there are agents that advertise what they do not support
        if send == agent._proxy.load_session:
            await wait_for_late_replay(session)
        return True
    return False
