"""Open sessions: new ones, stored ones with or without a replay, and forks.

A session that cannot be opened leaves nothing behind: no server, no lock, no entry in the list.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from duologue.agent.persistence import SessionPersistence
from duologue.agent.session import Session
from duologue.conversation.session_setup import SessionInfo, SessionParams
from duologue.conversation.updates import CommandsUpdate, InfoUpdate, ModeUpdate, SettingsUpdate
from duologue.errors import InvalidRequest, SessionInUse, StoreError
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.values import SessionOpened

if TYPE_CHECKING:
    from duologue.agent.agent import Agent
    from duologue.store.base import Store
    from duologue.store.session_log import SessionLog

_IN_RESPONSE = (ModeUpdate, SettingsUpdate, CommandsUpdate)
"""Updates that a replay leaves out: the response that opens the session has their current values."""

MISSING_EXTRA = "the MCP SDK is not installed with the agent: pip install 'duologue[mcp]'"


class SessionOpener:
    """Opens sessions for one client.

    Args:
        agent: The agent.
        client: The client.
        sessions: The open sessions of the client, by id; new ones are added.

    Attributes:
        is_closed: True once the client is gone; a session that is still being opened then is closed again.
    """

    def __init__(self, agent: Agent[Any], client: ClientProxy, sessions: dict[str, Session[Any]]) -> None:
        self._agent = agent
        self._client = client
        self._sessions = sessions
        self.is_closed = False

    async def new(self, setup: SessionParams) -> SessionOpened:
        """Open a new session."""
        info = _info_of(_new_id(), setup)
        store = self._agent.store
        if store is None:
            return await self._open(SessionPersistence(info.session_id), setup, info, replay=False)
        log = await store.create(info)
        try:
            return await self._open(SessionPersistence(info.session_id, store, log), setup, info, replay=False)
        except BaseException:
            await _discard(store, info.session_id)
            raise

    async def reopen(self, session_id: str, setup: SessionParams, store: Store, *, replay: bool) -> SessionOpened:
        """Open a stored session; send what it holds if `replay` is true.

        Raises:
            InvalidRequest: The session is open, and its client is connected.
        """
        log = await self._acquire(session_id, store)
        return await self._reopen(session_id, setup, store, log, replay=replay)

    async def fork(self, session_id: str, setup: SessionParams, store: Store) -> SessionOpened:
        """Open a new session with a copy of a stored session's history."""
        source = await store.info(session_id)
        info = msgspec.structs.replace(_info_of(_new_id(), setup), title=source.title)
        await store.fork(session_id, info)
        try:
            log = await store.open(info.session_id)
            return await self._reopen(info.session_id, setup, store, log, replay=False)
        except BaseException:
            await _discard(store, info.session_id)
            raise

    async def delete(self, session_id: str, store: Store) -> None:
        """Delete a stored session that is not open.

        Raises:
            InvalidRequest: The session is open.
        """
        try:
            await store.delete(session_id)
        except SessionInUse:
            raise _in_use(session_id) from None

    def ensure_not_open(self, session_id: str) -> None:
        """Check that no connected client has the session open.

        Raises:
            InvalidRequest: A client has it open.
        """
        session = self._agent._open_sessions.get(session_id)
        if session is not None and not session._client.is_gone:
            raise _in_use(session_id)

    async def _acquire(self, session_id: str, store: Store) -> SessionLog:
        self.ensure_not_open(session_id)
        abandoned = self._agent._open_sessions.get(session_id)
        if abandoned is not None:
            await abandoned._aclose()
        try:
            return await store.open(session_id)
        except SessionInUse:
            raise _in_use(session_id) from None

    async def _reopen(
        self, session_id: str, setup: SessionParams, store: Store, log: SessionLog, *, replay: bool
    ) -> SessionOpened:
        info = _info_of(session_id, setup)
        try:
            before = await store.info(session_id)
            if (before.cwd, before.additional_directories) != (info.cwd, info.additional_directories):
                dirs = info.additional_directories
                await store.update_info(session_id, cwd=info.cwd, additional_directories=dirs)
            info = msgspec.structs.replace(info, title=before.title)
        except StoreError:  # the entry is damaged, but the updates may be readable
            pass
        except BaseException:
            await log.aclose()
            raise
        return await self._open(SessionPersistence(session_id, store, log), setup, info, replay=replay)

    async def _open(
        self, persistence: SessionPersistence, setup: SessionParams, info: SessionInfo, *, replay: bool
    ) -> SessionOpened:
        session: Session[Any] | None = None
        try:
            saved = await persistence.load()
            session = Session(info.session_id, setup, self._agent, self._client, persistence, saved)
            session._title.restore(info.title)
            if replay:
                await self._replay(session, persistence)
            await self._start(session)
        except BaseException:
            await (persistence.aclose() if session is None else session._aclose())
            raise
        settings = session.settings
        return SessionOpened(
            session_id=session.id,
            settings=settings.describe(),
            modes=settings.modes(),
            models=settings.models() if self._agent._legacy_models else None,
            commands=session.available_commands,
        )

    async def _replay(self, session: Session[Any], persistence: SessionPersistence) -> None:
        """Send all stored updates, with the title from the list: the user may have changed it since."""
        is_titled = session.title is None
        async for update in self._client.replayed(persistence.replay()):
            if isinstance(update, _IN_RESPONSE):
                continue
            if isinstance(update, InfoUpdate):
                update = msgspec.structs.replace(update, title=session.title)
                is_titled = True
            await self._client.update(session.id, update)
        if not is_titled:
            await self._client.update(session.id, InfoUpdate(title=session.title))

    async def _start(self, session: Session[Any]) -> None:
        self._agent._open_sessions[session.id] = session
        if uses_mcp(self._agent):
            await session._start_mcp(self._agent.info, self._agent._mcp_servers)
        elif session.setup.mcp_servers:
            await session._report_unused_mcp(MISSING_EXTRA if self._agent._mcp else "this agent does not use them")
        for hook in self._agent._open_hooks:
            await hook(session)
        if self.is_closed:
            raise InvalidRequest("the client has disconnected")
        self._sessions[session.id] = session


def uses_mcp(agent: Agent[Any]) -> bool:
    """Return True if the agent connects MCP servers and the extra `mcp` is installed."""
    if not agent._mcp:
        return False
    from importlib.util import find_spec

    return find_spec("mcp") is not None


def _new_id() -> str:
    return f"sess_{os.urandom(16).hex()}"


def normal_path(path: str) -> str:
    """Return a directory as the session list names it: `/a/b/` and `/a/./b` become `/a/b`."""
    return os.path.normpath(path)


def _info_of(session_id: str, setup: SessionParams) -> SessionInfo:
    return SessionInfo(
        session_id=session_id,
        cwd=normal_path(setup.cwd),
        additional_directories=setup.additional_directories,
    )


def _in_use(session_id: str) -> InvalidRequest:
    return InvalidRequest("the session is in use", data={"sessionId": session_id})


async def _discard(store: Store, session_id: str) -> None:
    """Delete a session that could not be opened."""
    with suppress(StoreError):
        await store.delete(session_id)
