"""Opening the new sessions of an agent, one of them in advance with `connect(warm=True)`.

The spare session receives its updates from the start. Its events are buffered until `new_session` hands it out, and the
agent's requests about it wait until then. It is never listed; an unused one is closed, and deleted if the agent can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from duologue.errors import DuologueError, ProtocolViolation
from duologue.runtime.unread_bytes import size_of

if TYPE_CHECKING:
    from duologue.client.agent import RemoteAgent
    from duologue.client.session import ClientSession
    from duologue.conversation.session_setup import SessionInfo, SessionParams
    from duologue.events import Event
    from duologue.protocol.values import SessionOpened

OPEN_SECONDS = 60.0
"""Time for the agent to open a spare session: as long as `new_session` may have to wait before it sends its own."""

FRESH_SECONDS = 3600.0
"""Age at which a spare is not used: many agents put the date and the state of the repository into a new session."""

CLOSE_SECONDS = 2.0
"""Time for the agent to close and delete an unused spare, when the user waits for the end of the program."""

MAX_EVENTS = 1_000
"""Events buffered for a spare: before its first prompt a session receives its commands and a greeting."""

MAX_BYTES = 1024 * 1024
"""The same limit in bytes of their messages."""

SendOpening: TypeAlias = (
    "Callable[[Callable[[SessionOpened], None], Callable[[SessionOpened], object]], Awaitable[SessionOpened]]"
)
"""Send a request that opens a session, with functions to call with its response, and with one that comes too late."""


class NewSessions:
    """Opens new sessions of one agent."""

    def __init__(self, agent: RemoteAgent) -> None:
        self._agent = agent
        self._is_warm = False
        self._spare: _Spare | None = None
        self._unused: set[str] = set()
        """Ids of all spares, except the ones that were handed out."""
        self._is_closed = False

    async def create(self, params: SessionParams) -> ClientSession:
        """Return the spare session if it has these parameters, or else a new one."""
        session = await self._take(params) if self._is_warm else None
        if session is None:
            request = self._agent._request
            session = await self.open(
                params, lambda arrived, late: request(lambda proxy: proxy.new_session(params, arrived, late))
            )
        if self._is_warm:
            self._prepare(params)
        return session

    async def open(self, params: SessionParams, send: SendOpening, *, is_spare: bool = False) -> ClientSession:
        """Open a session under the id that the agent gives it.

        Raises:
            ProtocolViolation: The id is empty or in use.
        """
        made: list[ClientSession] = []
        known = self._agent._request_handler.sessions

        def arrived(opened: SessionOpened) -> None:
            if opened.session_id and opened.session_id not in known:
                if is_spare:
                    self._unused.add(opened.session_id)
                made.append(self._agent._add(opened.session_id, params, opened, is_spare=is_spare))

        def late(opened: SessionOpened) -> None:
            self._agent._tasks.start(self._close_unwanted(opened.session_id, made))

        opened = await send(arrived, late)
        if not made:
            flaw = f"the id {opened.session_id!r} twice" if opened.session_id else "no id"
            raise ProtocolViolation(f"the agent opened a session and gave it {flaw}")
        return made[0]

    async def _close_unwanted(self, session_id: str, made: Sequence[ClientSession]) -> None:
        """Close a session that was opened after its caller was cancelled, unless its id is that of another session."""
        agent = self._agent
        with suppress(DuologueError):
            if made:
                await made[0].aclose()
            elif session_id not in agent._request_handler.sessions and agent.capabilities.close:
                await agent._proxy.close_session(session_id)

    # --- the spare

    async def without_unused(self, listed: list[SessionInfo]) -> list[SessionInfo]:
        """Return the sessions of a list except the ones that were opened in advance and not used."""
        if self._spare is not None:
            await asyncio.wait({self._spare.opening})  # the list may have the session before its response arrives
        return [each for each in listed if each.session_id not in self._unused]

    def keep_spare(self, params: SessionParams) -> None:
        """Keep a spare session ready from now on, the first one with these parameters."""
        self._is_warm = True
        self._prepare(params)

    def _prepare(self, params: SessionParams) -> None:
        """Open a spare session in the background, unless there is one."""
        if self._spare is None and not self._is_closed:
            self._spare = _Spare(params, self._agent._tasks.start, self._open_spare)

    async def aclose(self) -> None:
        """Close the spare at the agent, and open no other."""
        self._is_closed = True
        spare, self._spare = self._spare, None
        if spare is not None:
            await self._discard(spare)

    async def _take(self, params: SessionParams) -> ClientSession | None:
        """Return the spare if it has these parameters and is usable."""
        spare, self._spare = self._spare, None
        if spare is None:
            return None
        if spare.params == params:
            try:
                await asyncio.wait({spare.opening})
            except asyncio.CancelledError:
                self._restore(spare)
                raise
            if spare.is_usable and spare.session is not None:
                return self._hand_out(spare.session)
        self._agent._tasks.start(self._discard(spare))
        return None

    def _restore(self, spare: _Spare) -> None:
        """Keep a spare whose caller was cancelled, unless there is another one by now."""
        if self._spare is None and not self._is_closed:
            self._spare = spare
        else:
            self._agent._tasks.start(self._discard(spare))

    def _hand_out(self, session: ClientSession) -> ClientSession:
        buffered, session._buffered = session._buffered, None
        assert buffered is not None, "a spare is handed out once"
        self._unused.discard(session.id)
        if self._agent.on_session is not None:
            self._agent.on_session(session)
        buffered.release(session._subscribers.publish)
        return session

    async def _open_spare(self, params: SessionParams) -> ClientSession | None:
        """Open a session without logging in or starting a lost agent again; return None if the agent does not."""
        proxy = self._agent._proxy
        with suppress(DuologueError, TimeoutError):
            async with asyncio.timeout(OPEN_SECONDS):
                return await self.open(
                    params, lambda arrived, late: proxy.new_session(params, arrived, late), is_spare=True
                )
        return None

    async def _discard(self, spare: _Spare) -> None:
        """Close and delete an unused spare at the agent."""
        agent = self._agent
        if not spare.opening.done():
            spare.opening.cancel()
            await asyncio.wait({spare.opening})
        if (session := spare.session) is None:
            return
        with suppress(DuologueError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                is_current = session._is_current and not agent.is_closed
                await session.aclose()
                if is_current and agent.capabilities.delete:
                    await agent._proxy.delete_session(session.id)


class _Spare:
    """A session that was opened in advance, or is being opened."""

    def __init__(
        self,
        params: SessionParams,
        start: Callable[[Coroutine[Any, Any, ClientSession | None]], asyncio.Task[ClientSession | None]],
        open_spare: Callable[[SessionParams], Coroutine[Any, Any, ClientSession | None]],
    ) -> None:
        self.params = params
        self.opening = start(open_spare(params))
        self._began = asyncio.get_running_loop().time()

    @property
    def session(self) -> ClientSession | None:
        """The session, once it is open."""
        return self.opening.result() if self.opening.done() and not self.opening.cancelled() else None

    @property
    def is_usable(self) -> bool:
        """False if the session could not be opened, was lost, is old, or has missed an event."""
        session = self.session
        if session is None or session._buffered is None:
            return False
        age = asyncio.get_running_loop().time() - self._began
        return session._is_current and age < FRESH_SECONDS and not session._buffered.has_missed


class BufferedEvents:
    """The events of a spare session until it is used.

    Attributes:
        has_missed: More events arrived than are buffered.
    """

    def __init__(self, watch: Callable[[Callable[[Event], None]], Callable[[], None]]) -> None:
        self.has_missed = False
        self._events: list[Event] = []
        self._bytes = 0
        self._released = asyncio.Event()
        self._stop = watch(self._add)

    def _add(self, event: Event) -> None:
        self._bytes += size_of(event.raw)
        if len(self._events) < MAX_EVENTS and self._bytes <= MAX_BYTES:
            self._events.append(event)
        else:
            self.has_missed = True

    def release(self, publish: Callable[[Event], None] = lambda event: None) -> None:
        """Publish the events, and let the requests about the session continue."""
        self._stop()
        for event in self._events:
            publish(event)
        self._events.clear()
        self._released.set()

    async def wait_released(self) -> None:
        """Wait until the session is used or closed."""
        await self._released.wait()
