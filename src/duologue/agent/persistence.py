"""How a session is kept: what was told in it, turn by turn, and what belongs to it beside that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.updates import Update

if TYPE_CHECKING:
    from duologue.store.base import SessionLog, Store

__all__ = ["SavedState", "SessionPersistence"]

STATE_NAME = "duologue"
"""Under which name a store keeps what belongs to the session itself."""


class SavedState(msgspec.Struct):
    """What is kept of a session beside its updates; `title` is the last one the agent itself gave it."""

    settings: dict[str, str | bool] = {}
    state: JsonObject = {}
    title: str | None = None


class SessionPersistence:
    """One session in its store; where there is no store, nothing is kept."""

    def __init__(self, session_id: str, store: Store | None = None, log: SessionLog | None = None) -> None:
        self._session_id = session_id
        self._store = store
        self._log = log
        self._saved: bytes | None = None

    async def load(self) -> SavedState:
        """What was kept; nothing, if it cannot be read any more."""
        self._saved = None if self._log is None else await self._log.load_state(STATE_NAME)
        try:
            return SavedState() if self._saved is None else msgspec.json.decode(self._saved, type=SavedState)
        except msgspec.MsgspecError:
            return SavedState()

    def begin_with(self, kept: SavedState) -> None:
        """What a session has from the start needs no keeping, unless it changes."""
        if self._saved is None:
            self._saved = msgspec.json.encode(kept)

    def save(self, kept: SavedState) -> None:
        """Keep this instead of what was kept before."""
        encoded = msgspec.json.encode(kept)
        if self._log is not None and encoded != self._saved:
            self._log.save_state(STATE_NAME, encoded)
            self._saved = encoded

    def append(self, update: Update) -> None:
        """Keep an update that is being told."""
        if self._log is not None:
            self._log.append(update)

    async def commit(self) -> None:
        """Until everything told so far is kept."""
        if self._log is not None:
            await self._log.commit()

    def begin_turn(self, prompt: list[Content], message_id: str) -> None:
        """A turn begins with this message of the user."""
        if self._log is not None:
            self._log.begin_turn(prompt, message_id)

    async def end_turn(self, reason: str | None) -> None:
        """The turn has ended, and all of it is kept; without a reason it was cut off, and stays marked so."""
        if self._log is None or not self._log.turn:
            return
        if reason is None:
            await self._log.commit()
        else:
            await self._log.end_turn(reason)

    async def replay(self) -> AsyncIterator[Update]:
        """Everything that was told."""
        if self._store is not None:
            async for update in self._store.replay(self._session_id):
                yield update

    async def history(self) -> AsyncIterator[Update]:
        """What the next prompt builds on: everything that was told, less the turns that were refused."""
        if self._store is not None:
            async for update in self._store.context(self._session_id):
                yield update

    async def aclose(self) -> None:
        """Let others open the session."""
        if self._log is not None:
            await self._log.aclose()
