"""An agent that comes back: lost in a crash, or left after a login, it is reached again and its sessions go on.

What ran when it was lost has failed, and is never sent again behind its user's back; the next use finds an agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duologue.client.auth import AuthOptions
from duologue.client.late_replay import wait_for_late_replay
from duologue.client.request_handler import ClientRequestHandler
from duologue.client.target import AgentTarget
from duologue.conversation.transcript import MAX_TRANSCRIPT_BYTES
from duologue.conversation.updates import (
    CommandsUpdate,
    InfoUpdate,
    ModeUpdate,
    NoticeUpdate,
    SettingsUpdate,
    StateUpdate,
    UsageUpdate,
)
from duologue.errors import (
    AgentExited,
    AuthenticationRequired,
    ConnectionLost,
    CrashLoop,
    DuologueError,
    InitializeTimeout,
    MethodNotFound,
    RequestError,
    SessionLost,
)
from duologue.protocol.interfaces import AgentProxy
from duologue.protocol.values import InitializeResult
from duologue.runtime.connection import Connection
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import quote

if TYPE_CHECKING:
    from duologue.client.session import ClientSession

__all__ = [
    "MODE",
    "MODEL",
    "STATES",
    "AgentSupervisor",
    "LiveConnection",
    "RecoveryOptions",
    "Restart",
    "UserSettings",
    "reopen",
]

_log = logging.getLogger("duologue.client")


@dataclass(frozen=True)
class Restart:
    """How often a lost agent is started again: the first time at once, then after pauses that double.

    Attributes:
        limit: Starts, beside the first one, within `within` seconds; one that needs more is in a crash loop.
        within: Seconds after which a start counts no more.
        pause: Seconds before the second of them.
    """

    limit: int = 3
    within: float = 60.0
    pause: float = 0.5


@dataclass(frozen=True)
class RecoveryOptions:
    """Recovery options: restart, login and stall timeout.

    Attributes:
        target: The agent to connect to.
        restart: Policy for starting a lost agent again when it is next needed; `None`: never.
        login: How to authenticate when the agent requires it; `None`: that is an error.
        stall_timeout: Seconds without activity after which a turn reports `StallDetected`; after as many again it is
            cancelled. `None`: never.
        max_transcript_bytes: Memory limit of one session's transcript; `None`: no limit.
    """

    target: AgentTarget
    restart: Restart | None = None
    login: AuthOptions | None = None
    stall_timeout: float | None = None
    max_transcript_bytes: int | None = MAX_TRANSCRIPT_BYTES


@dataclass(frozen=True)
class LiveConnection:
    """One connection to an agent that has answered."""

    connection: Connection
    proxy: AgentProxy
    initialize_result: InitializeResult


class AgentSupervisor:
    """The connection to one agent, and the next one where that is lost.

    Args:
        dial: Reaches the agent; each call starts from nothing.
        desk: What is done for the agent.
        restart: Whether and how often a lost agent is started again.
        taken: Is told of each connection before anybody uses it.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[LiveConnection]],
        desk: ClientRequestHandler,
        restart: Restart | None,
        taken: Callable[[LiveConnection], None],
    ) -> None:
        self._dial = dial
        self._request_handler = desk
        self._restart = restart
        self._taken = taken
        self._line: LiveConnection | None = None
        self._restarts: deque[float] = deque()
        self._order = asyncio.Lock()
        self._tasks = TaskScope()
        self._tidying: asyncio.Task[None] | None = None
        self._is_coming_back = False
        self._cause: DuologueError | None = None
        self._left = asyncio.Event()

    async def open(self) -> None:
        """Reach the agent for the first time."""
        await self._take()

    async def ensure_connected(self) -> None:
        """Start a lost agent again, where that was wished for.

        Raises:
            CrashLoop: It is lost again and again.
            StartError: It cannot be started any more.
        """
        if self._restart is None or not self._is_lost:
            return
        async with self._order:
            if self._is_lost:
                await self._restart_agent(self._restart)

    async def reconnect(self) -> None:
        """Leave the agent and reach it again, as after a login in a terminal."""
        async with self._order:
            await self._leave()
            await self._take()

    async def aclose(self) -> None:
        """Leave for good."""
        self._restart = None
        self._left.set()
        await self._leave()
        await self._tasks.cancel(1.0)

    @property
    def _is_lost(self) -> bool:
        return self._line is None or self._line.connection.is_closed

    async def _restart_agent(self, restart: Restart) -> None:
        if self._line is not None:
            self._cause = self._line.connection.cause
        while True:
            await self._backoff(self._pause(restart))
            try:
                await self._leave()
                await self._take()
            except (ConnectionLost, InitializeTimeout) as error:
                self._cause = error
                continue
            _log.warning("the agent was lost and is there again: %s", quote(self._cause or "it closed the connection"))
            return

    async def _backoff(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._left.wait()
            raise ConnectionLost("the connection was closed")

    def _pause(self, restart: Restart) -> float:
        """Seconds to wait before the next start, which is counted herewith.

        Raises:
            CrashLoop: There were enough of them.
        """
        now = asyncio.get_running_loop().time()
        while self._restarts and self._restarts[0] <= now - restart.within:
            self._restarts.popleft()
        count = len(self._restarts)
        if count >= restart.limit:
            raise _crash_loop(restart, self._cause)
        self._restarts.append(now)
        return 0.0 if count == 0 else restart.pause * 2.0 ** (count - 1)

    async def _take(self) -> None:
        line = await self._dial()
        if self._left.is_set():
            await line.connection.aclose()
            raise ConnectionLost("the connection was closed")
        self._line = line
        self._is_coming_back = False
        self._taken(line)
        self._tidying = self._tasks.start(self._cleanup(line.connection))

    async def _leave(self) -> None:
        """End the connection; what was done for the agent ends with it."""
        line, self._line = self._line, None
        if line is None:
            return
        self._is_coming_back = True
        await line.connection.aclose()
        if self._tidying is not None:
            await asyncio.wait({self._tidying})

    async def _cleanup(self, connection: Connection) -> None:
        """What the agent started through us does not outlive it, however long its user stays."""
        await connection.wait_closed()
        await self._request_handler.hang_up()
        if self._restart is None and not self._is_coming_back:
            self._request_handler.fall_silent()


def _crash_loop(restart: Restart, cause: Exception | None) -> CrashLoop:
    told = f"the agent was started again {restart.limit} times in {restart.within:g} s, and was lost each time"
    if not isinstance(cause, AgentExited):
        return CrashLoop(told if cause is None else f"{told}: {cause}")
    loop = CrashLoop(f"{told}: {cause}", exit_code=cause.exit_code, signal=cause.signal)
    loop.stderr = cause.stderr  # the message of the cause quotes it already
    return loop


MODE, MODEL = "\0mode", "\0model"
"""What can be set and is no setting; no agent has settings of these names."""

STATES = (CommandsUpdate, ModeUpdate, SettingsUpdate, InfoUpdate, UsageUpdate, StateUpdate, NoticeUpdate)
"""What replaces what was there; all else would be there twice if it were heard twice."""


class UserSettings:
    """What the user of a session has set, for an agent that came back and has forgotten it."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._keys: set[str] = set()

    def add(self, key: str) -> None:
        """The user has set this."""
        self._keys.add(key)

    def values(self) -> dict[str, str | bool]:
        """What was set, with the values that hold now: the agent may have changed them since."""
        session = self._session
        held: dict[str, str | bool | None] = {each.setting_id: each.value for each in session.settings}
        held[MODE] = None if session.modes is None else session.modes.current
        held[MODEL] = None if session.models is None else session.models.value
        return {key: value for key in self._keys if (value := held.get(key)) is not None}

    async def restore(self, values: Mapping[str, str | bool]) -> None:
        """Set what does not have these values any more."""
        session, proxy = self._session, self._session.agent._proxy
        for key, value in values.items():
            if self.values().get(key) == value:
                continue
            if key == MODE:
                await proxy.set_mode(session.id, str(value))
                session.transcript.set_mode(str(value))
            elif key == MODEL:
                await proxy.set_model(session.id, str(value))
                session.model_was_set(str(value))
            else:
                settings = await proxy.set_setting(session.id, key, value)
                session.transcript.apply(SettingsUpdate(settings=settings))


async def reopen(session: ClientSession) -> None:
    """Open a session again at an agent that came back; what it repeats of earlier turns is not heard twice.

    Raises:
        SessionLost: The agent cannot, or does not know the session any more, or refuses what was set in it.
        AuthenticationRequired: Not before a login.
    """
    wanted = session._user_settings.values()  # before the agent tells its defaults
    session._is_replaying, session._has_replayed = True, False
    try:
        if not await _open_again(session):
            raise SessionLost("the agent was started again, and cannot resume or load the session it had")
        await session._user_settings.restore(wanted)
    except AuthenticationRequired:
        raise
    except RequestError as error:
        raise SessionLost(f"the agent was started again, and the session is lost: {error}") from error


async def _open_again(session: ClientSession) -> bool:
    """Whether the agent offers a way that leads back."""
    agent = session.agent
    offered = (
        (agent.capabilities.resume, agent._proxy.resume_session),
        (agent.capabilities.load, agent._proxy.load_session),
    )
    for is_offered, ask in offered:
        if not is_offered:
            continue
        try:
            session._apply_opened(await ask(session.id, session.setup))
        except MethodNotFound:
            continue  # there are agents that offer what they do not have
        if ask == agent._proxy.load_session:
            await wait_for_late_replay(session)
        return True
    return False
