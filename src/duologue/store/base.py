"""The interface of a store. Another backend implements its abstract methods and a `SessionRecords`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from msgspec import UNSET, UnsetType

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import SessionInfo
from duologue.errors import StoreError
from duologue.store.pagination import PAGE, Archived, SessionPage
from duologue.store.records import SessionRecords
from duologue.store.replay import Replay
from duologue.store.session_log import SessionLog
from duologue.store.usage_reader import stored_usage
from duologue.usage.amounts import SessionUsage


class Store(ABC):
    """Saves sessions, so that they outlive the process that opened them.

    Methods that take a session id raise `ResourceNotFound` if there is no such session, and every method raises
    `StoreError` if the store cannot be read or written.
    """

    def __init__(self) -> None:
        self._logs: dict[str, SessionLog] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    # --- one session

    async def create(self, info: SessionInfo) -> SessionLog:
        """Make a session and open it; the store sets `updated_at`.

        Raises:
            StoreError: A session with this id exists already.
        """
        return await self._open(info.session_id, await self.acquire(info.session_id, new=info))

    async def open(self, session_id: str) -> SessionLog:
        """Open a session to continue it. Only one process can have it open, until it is closed or that process ends.

        Raises:
            SessionInUse: It is open already, in this process or another.
        """
        return await self._open(session_id, await self.acquire(session_id))

    def replay(self, session_id: str) -> Replay:
        """Return all updates of this session from the beginning until now, merged as `replay_merge` describes.

        In a turn that was interrupted by the end of its process, unfinished tool calls have failed.
        """
        return Replay(session_id, self._find_records, skip_refused=False)

    def context(self, session_id: str) -> Replay:
        """Return the updates the next prompt builds on: those of `replay` without the turns that were refused."""
        return Replay(session_id, self._find_records, skip_refused=True)

    async def usage(self, session_id: str) -> SessionUsage:
        """Return the tokens and cost of this session's turns; those of files of earlier versions are not known."""
        records, _ = await self._find_records(session_id)
        return await stored_usage(records)

    @abstractmethod
    async def info(self, session_id: str) -> SessionInfo:
        """Return the session's entry in the list.

        Raises:
            StoreError: The entry is damaged.
        """

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
        """Change the session's entry in the list, even while it is open; its time of change stays the same."""
        fields = {
            "title": title,
            "archived": archived,
            "cwd": cwd,
            "additional_directories": additional_directories,
            "meta": meta,
        }
        return await self.change_info(session_id, {name: value for name, value in fields.items() if value is not UNSET})

    @abstractmethod
    async def fork(self, session_id: str, info: SessionInfo) -> None:
        """Make another session with the updates and state of this one so far; neither is opened.

        Raises:
            StoreError: A session with the new id exists already.
        """

    @abstractmethod
    async def delete(self, session_id: str) -> None:
        """Delete a session, completely or not at all; a session that does not exist is no error.

        Raises:
            SessionInUse: It is open, in this process or another.
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
        """Return one page of sessions, most recently changed first.

        Raises:
            InvalidParams: The cursor is not one of this list.
        """

    async def aclose(self) -> None:
        """Close every session that is open in this process, then the store.

        Raises:
            StoreError: The last records of a session could not be written.
        """
        failures: list[StoreError] = []
        for log in [*self._logs.values()]:
            try:
                await log.aclose()
            except StoreError as error:
                failures.append(error)
        await self.close()
        if failures:
            raise failures[0]

    # --- for implementations of a store

    @abstractmethod
    async def change_info(self, session_id: str, changes: Mapping[str, object]) -> SessionInfo:
        """Change these fields of the session's entry in the list; return the new entry."""

    @abstractmethod
    async def acquire(self, session_id: str, *, new: SessionInfo | None = None) -> SessionRecords:
        """Lock a session for this process until its records are released; make it first if `new` is given."""

    @abstractmethod
    async def read_only(self, session_id: str) -> tuple[SessionRecords, bool]:
        """Return a session's records to read from, and whether a process has it open."""

    @abstractmethod
    async def close(self) -> None:
        """Close files, threads and connections."""

    async def save_log(self, session_id: str) -> None:
        """Write the pending records of a session that is open in this process.

        Raises:
            StoreError: It could not be written.
        """
        if (log := self._logs.get(session_id)) is not None:
            await log.commit()

    # --- internal

    async def _open(self, session_id: str, records: SessionRecords) -> SessionLog:
        try:
            position = await records.position()
        except BaseException:
            await records.release()
            raise
        log = SessionLog(session_id, records, position, on_close=lambda: self._logs.pop(session_id, None))
        self._logs[session_id] = log
        return log

    async def _find_records(self, session_id: str) -> tuple[SessionRecords, int]:
        """Return a session's records and its running turn."""
        # A failed write was reported already; records that are written can be replayed anyway.
        with suppress(StoreError):
            await self.save_log(session_id)
        records, is_held = await self.read_only(session_id)
        if (log := self._logs.get(session_id)) is not None:
            return records, log.turn
        return records, (await records.position()).turn if is_held else 0
