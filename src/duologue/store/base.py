"""The interface of a store. Another backend implements its abstract methods and a `SessionRecords`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self

from msgspec import UNSET, UnsetType

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import SessionInfo
from duologue.errors import StoreError
from duologue.store.pagination import PAGE, Archived, SessionPage
from duologue.store.records import SessionRecords
from duologue.store.replay import Damage, Replay
from duologue.store.session_log import SessionLog

__all__ = ["Archived", "Damage", "Replay", "SessionLog", "SessionPage", "Store"]


class Store(ABC):
    """Sessions that outlive the process they began in.

    Methods that name a session raise `ResourceNotFound` when there is none of that name, and every method raises
    `StoreError` when the store cannot be read or written.
    """

    def __init__(self) -> None:
        self._logs: dict[str, SessionLog] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- one session

    async def create(self, info: SessionInfo) -> SessionLog:
        """Begin a session and open it; `updated_at` is the store's to say.

        Raises:
            StoreError: There is a session of this name already.
        """
        return await self._open(info.session_id, await self.acquire(info.session_id, new=info))

    async def open(self, session_id: str) -> SessionLog:
        """Open a session to go on with it. It is open in one place at a time, until it is closed or its process ends.

        Raises:
            SessionInUse: It is open somewhere else, or already here.
        """
        return await self._open(session_id, await self.acquire(session_id))

    def replay(self, session_id: str) -> Replay:
        """Everything that was told in this session, from the beginning to this moment (see `folding`).

        A turn that was cut off by the end of its process is told with its unfinished tool calls failed.
        """
        return Replay(session_id, self._look_up, leave_out_refused=False)

    def context(self, session_id: str) -> Replay:
        """What the next prompt builds on: as `replay`, without the turns that were refused."""
        return Replay(session_id, self._look_up, leave_out_refused=True)

    @abstractmethod
    async def info(self, session_id: str) -> SessionInfo:
        """The session's entry in the list.

        Raises:
            StoreError: The entry is damaged.
        """

    @abstractmethod
    async def update_info(
        self,
        session_id: str,
        *,
        title: str | None | UnsetType = UNSET,
        archived: bool | UnsetType = UNSET,
        cwd: str | UnsetType = UNSET,
        additional_directories: list[str] | UnsetType = UNSET,
        meta: JsonObject | None | UnsetType = UNSET,
    ) -> SessionInfo:
        """Change the session's entry in the list, which does not make it newer; also while it is open."""

    @abstractmethod
    async def fork(self, session_id: str, info: SessionInfo) -> None:
        """Begin another session with all that was said and saved in this one so far; neither is opened.

        Raises:
            StoreError: There is a session of the new name already.
        """

    @abstractmethod
    async def delete(self, session_id: str) -> None:
        """Forget a session, wholly or not at all; one that does not exist is forgotten already.

        Raises:
            SessionInUse: It is open, here or somewhere else.
        """

    # --- all of them

    @abstractmethod
    async def list(
        self,
        *,
        cwd: str | None = None,
        cursor: str | None = None,
        archived: Archived = "exclude",
        limit: int = PAGE,
    ) -> SessionPage:
        """One page, those first in which something happened last. A session that is touched moves to the front.

        Raises:
            InvalidParams: The cursor is none of this list's.
        """

    async def aclose(self) -> None:
        """Close every session that is still open here, and then the store.

        Raises:
            StoreError: The last of a session could not be written.
        """
        failures: list[StoreError] = []
        for log in [*self._logs.values()]:
            try:
                await log.aclose()
            except StoreError as error:
                failures.append(error)
        await self.close_session()
        if failures:
            raise failures[0]

    # --- for those who write a store

    @abstractmethod
    async def acquire(self, session_id: str, *, new: SessionInfo | None = None) -> SessionRecords:
        """Take a session for this process alone, making it first if `new` is given, until its shelf is released."""

    @abstractmethod
    async def read_only(self, session_id: str) -> tuple[SessionRecords, bool]:
        """A session's shelf to read from, and whether somebody holds it."""

    @abstractmethod
    async def close_session(self) -> None:
        """Let go of files, threads and connections."""

    async def save_log(self, session_id: str) -> None:
        """Write what waits in a log that is open here.

        Raises:
            StoreError: It could not be written.
        """
        if (log := self._logs.get(session_id)) is not None:
            await log.commit()

    # --- within

    async def _open(self, session_id: str, shelf: SessionRecords) -> SessionLog:
        try:
            position = await shelf.position()
        except BaseException:
            await shelf.release()
            raise
        log = SessionLog(session_id, shelf, position, on_close=lambda: self._logs.pop(session_id, None))
        self._logs[session_id] = log
        return log

    async def _look_up(self, session_id: str) -> tuple[SessionRecords, int]:
        """A session's shelf and the turn that runs in it."""
        # A log that cannot be written has said so already; what is safe can be told all the same.
        with suppress(StoreError):
            await self.save_log(session_id)
        shelf, is_held = await self.read_only(session_id)
        if (log := self._logs.get(session_id)) is not None:
            return shelf, log.turn
        return shelf, (await shelf.position()).turn if is_held else 0
