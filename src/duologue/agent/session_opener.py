"""How sessions are opened: new ones, earlier ones with or without telling what was said, and copies.

A session that cannot be opened leaves nothing behind: no server, no lock, no entry in the list.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from duologue.agent.persistence import SessionPersistence
from duologue.agent.session import Session
from duologue.conversation.session_setup import SessionInfo, SessionParams
from duologue.conversation.updates import CommandsUpdate, InfoUpdate, ModeUpdate, SettingsUpdate
from duologue.errors import InvalidRequest, SessionInUse, StoreError
from duologue.protocol.interfaces import ClientProxy
from duologue.protocol.values import SessionOpened

if TYPE_CHECKING:
    from duologue.agent.agent import Agent
    from duologue.store.base import SessionLog, Store

__all__ = ["SessionOpener", "normal_path"]

_SAID_IN_THE_ANSWER = (ModeUpdate, SettingsUpdate, CommandsUpdate)
"""What a replay leaves out: the answer that opens the session says it as it is now."""

MISSING_EXTRA = "the MCP SDK is not installed where it runs: pip install 'duologue[mcp]'"


class SessionOpener:
    """Opens sessions for one client.

    Args:
        agent: Whose sessions.
        editor: The client.
        sessions: Where they are entered once they are open.
    """

    def __init__(self, agent: Agent[Any], editor: ClientProxy, sessions: dict[str, Session[Any]]) -> None:
        self._agent = agent
        self._editor = editor
        self._sessions = sessions
        self.is_over = False
        """The sessions of this client have been ended, and one that is still being opened must end with them."""

    async def new(self, setup: SessionParams) -> SessionOpened:
        """A session without a past."""
        info = _info_of(_new_id(), setup)
        store = self._agent.store
        if store is None:
            return await self._open(SessionPersistence(info.session_id), setup, info, replay=False)
        log = await store.create(info)
        try:
            return await self._open(SessionPersistence(info.session_id, store, log), setup, info, replay=False)
        except BaseException:
            await _forget(store, info.session_id)
            raise

    async def reopen(self, session_id: str, setup: SessionParams, store: Store, *, replay: bool) -> SessionOpened:
        """A session of the past.

        Raises:
            InvalidRequest: It is open, and its client is still there.
        """
        log = await self._take(session_id, store)
        return await self._reopen(session_id, setup, store, log, replay=replay)

    async def fork(self, session_id: str, setup: SessionParams, store: Store) -> SessionOpened:
        """A new session with the past of another."""
        source = await store.info(session_id)
        info = msgspec.structs.replace(_info_of(_new_id(), setup), title=source.title)
        await store.fork(session_id, info)
        try:
            log = await store.open(info.session_id)
            return await self._reopen(info.session_id, setup, store, log, replay=False)
        except BaseException:
            await _forget(store, info.session_id)
            raise

    async def delete(self, session_id: str, store: Store) -> None:
        """Forget a session that is not open.

        Raises:
            InvalidRequest: It is.
        """
        try:
            await store.delete(session_id)
        except SessionInUse:
            raise _in_use(session_id) from None

    def ensure_not_open(self, session_id: str) -> None:
        """Leave alone what another client has open.

        Raises:
            InvalidRequest: One has.
        """
        session = self._agent.open_sessions.get(session_id)
        if session is not None and not session.editor.is_gone:
            raise _in_use(session_id)

    async def _take(self, session_id: str, store: Store) -> SessionLog:
        self.ensure_not_open(session_id)
        left_behind = self._agent.open_sessions.get(session_id)
        if left_behind is not None:
            await left_behind.aclose()
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
        except StoreError:  # the entry is damaged: what was said can be told all the same
            pass
        except BaseException:
            await log.aclose()
            raise
        return await self._open(SessionPersistence(session_id, store, log), setup, info, replay=replay)

    async def _open(
        self, keeping: SessionPersistence, setup: SessionParams, info: SessionInfo, *, replay: bool
    ) -> SessionOpened:
        session: Session[Any] | None = None
        try:
            kept = await keeping.load()
            session = Session(info.session_id, setup, self._agent, self._editor, keeping, kept)
            session.restore_title(info.title)
            if replay:
                await self._replay(session, keeping)
            await self._start(session)
        except BaseException:
            await (keeping.aclose() if session is None else session.aclose())
            raise
        settings = session.settings
        return SessionOpened(
            session_id=session.id,
            settings=settings.describe(),
            modes=settings.modes(),
            models=settings.models() if self._agent.legacy_models else None,
            commands=session.available_commands,
        )

    async def _replay(self, session: Session[Any], keeping: SessionPersistence) -> None:
        """Tell all that was said. The title is the one in the list, which the user may have changed since."""
        is_titled = session.title is None
        async for update in self._editor.replayed(keeping.replay()):
            if isinstance(update, _SAID_IN_THE_ANSWER):
                continue
            if isinstance(update, InfoUpdate):
                update = msgspec.structs.replace(update, title=session.title)
                is_titled = True
            await self._editor.update(session.id, update)
        if not is_titled:
            await self._editor.update(session.id, InfoUpdate(title=session.title))

    async def _start(self, session: Session[Any]) -> None:
        self._agent.open_sessions[session.id] = session
        if self._agent.uses_mcp:
            await session.start_mcp(self._agent.info)
        elif session.setup.mcp_servers:
            await session.leave_mcp("it does not use them" if not self._agent.mcp else MISSING_EXTRA)
        for hook in self._agent._open_hooks:
            await hook(session)
        if self.is_over:
            raise InvalidRequest("the client is gone")
        self._sessions[session.id] = session


def _new_id() -> str:
    return f"sess_{secrets.token_hex(16)}"


def normal_path(path: str) -> str:
    """A directory as the list names it: `/a/b/` and `/a/./b` are `/a/b`."""
    return os.path.normpath(path)


def _info_of(session_id: str, setup: SessionParams) -> SessionInfo:
    return SessionInfo(
        session_id=session_id,
        cwd=normal_path(setup.cwd),
        additional_directories=setup.additional_directories,
    )


def _in_use(session_id: str) -> InvalidRequest:
    return InvalidRequest("the session is in use", data={"sessionId": session_id})


async def _forget(store: Store, session_id: str) -> None:
    """Take back a session that could not be opened."""
    with suppress(StoreError):
        await store.delete(session_id)
