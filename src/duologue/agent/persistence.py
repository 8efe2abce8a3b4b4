"""Store a session: its updates turn by turn, its settings and its state."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.updates import Role, Update
from duologue.conversation.work_state import TokenUsage
from duologue.errors import EncodeError

if TYPE_CHECKING:
    from duologue.store.base import Store
    from duologue.store.session_log import SessionLog

STATE_NAME = "duologue"
"""Key in the store of the session's own state."""

_log = logging.getLogger("duologue.agent")


class SavedState(msgspec.Struct):
    """State of a session that is stored with its updates; `title` is the last one that the agent itself set."""

    settings: dict[str, str | bool] = {}
    state: JsonObject = {}
    title: str | None = None


class SessionPersistence:
    """One session in its store; without a store, nothing is stored."""

    def __init__(self, session_id: str, store: Store | None = None, log: SessionLog | None = None) -> None:
        self._session_id = session_id
        self._store = store
        self._log = log
        self.is_stored = log is not None
        self.turn_usage: TokenUsage | None = None
        """Tokens of the running turn, to be stored with its end."""
        self._saved: bytes | None = None
        self._warned: set[str] = set()

    async def load(self) -> SavedState:
        """Return the stored state; the default state if it cannot be read."""
        self._saved = None if self._log is None else await self._log.load_state(STATE_NAME)
        try:
            return SavedState() if self._saved is None else msgspec.json.decode(self._saved, type=SavedState)
        except msgspec.MsgspecError:
            return SavedState()

    def begin_with(self, state: SavedState) -> None:
        """Set the initial state of a session, which is not stored until it changes."""
        if self._saved is None:
            self._saved = _encode(state)

    def save(self, state: SavedState) -> None:
        """Store this state if it has changed.

        Raises:
            EncodeError: A value of the state cannot be written as JSON.
        """
        encoded = _encode(state)
        if self._log is not None and encoded != self._saved:
            self._log.save_state(STATE_NAME, encoded)
            self._saved = encoded
            self._warn_of_changes(state.state, msgspec.json.decode(encoded, type=SavedState).state)

    def _warn_of_changes(self, state: JsonObject, loaded: JsonObject) -> None:
        """Warn once of each value that will be another one when the session is loaded."""
        for key, value in state.items():
            if key not in self._warned and (key not in loaded or loaded[key] != value):
                self._warned.add(key)
                _log.warning(
                    "session %s: `session.state[%r]` will be another value when the session is loaded: JSON keeps sets "
                    "and tuples as lists, keys as strings, and objects as dictionaries; store such values yourself",
                    self._session_id,
                    key,
                )

    def append(self, update: Update) -> None:
        """Store an update."""
        if self._log is not None:
            self._log.append(update)

    def append_text(self, role: Role, message_id: str, text: str) -> None:
        """Store a chunk of plain text."""
        if self._log is not None:
            self._log.append_text(role, message_id, text)

    async def commit(self) -> None:
        """Wait until every update so far is stored."""
        if self._log is not None:
            await self._log.commit()

    def begin_turn(self, prompt: list[Content], message_id: str) -> None:
        """Store the beginning of a turn: the user's message."""
        if self._log is not None:
            self._log.begin_turn(prompt, message_id)

    async def end_turn(self, reason: str | None) -> None:
        """Store the end of the turn; without a reason it stays marked as interrupted."""
        usage, self.turn_usage = self.turn_usage, None
        if self._log is None or not self._log.turn:
            return
        if reason is None:
            await self._log.commit()
        else:
            await self._log.end_turn(reason, usage)

    async def replay(self) -> AsyncIterator[Update]:
        """Yield all stored updates."""
        if self._store is not None:
            async for update in self._store.replay(self._session_id):
                yield update

    async def history(self) -> AsyncIterator[Update]:
        """Yield the updates that the next prompt builds on: all except those of refused turns."""
        if self._store is not None:
            async for update in self._store.context(self._session_id):
                yield update

    async def aclose(self) -> None:
        """Release the session for others to open."""
        if self._log is not None:
            await self._log.aclose()


def _encode(state: SavedState) -> bytes:
    try:
        return msgspec.json.encode(state)
    except Exception as error:
        for key, value in state.state.items():
            try:
                msgspec.json.encode({key: value})
            except Exception as cause:
                raise EncodeError(f"`session.state[{key!r}]` cannot be stored as JSON: {cause}") from cause
        raise EncodeError(f"the state of the session cannot be stored as JSON: {error}") from error
