"""A store in memory, for tests and for agents that do not persist sessions."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from duologue.conversation.session_setup import SessionInfo
from duologue.errors import ResourceNotFound, SessionInUse, StoreError
from duologue.store.base import Store
from duologue.store.pagination import MAX_PAGE, PAGE, Archived, SessionPage, decode_cursor, encode_cursor, timestamp
from duologue.store.records import Batch, LogPosition, Record, RecordEntry, RecordPage, SessionRecords

PAGE_RECORDS = 512
"""Records read at once, so that a long replay does not block the event loop."""


class MemoryStore(Store):
    """Keeps sessions in memory, with the locks, replays and lists of a store on disk."""

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[str, _Session] = {}
        self._made = 0

    async def info(self, session_id: str) -> SessionInfo:
        return self._session(session_id).shown()

    async def change_info(self, session_id: str, changes: Mapping[str, object]) -> SessionInfo:
        session = self._session(session_id)
        session.info = msgspec.structs.replace(session.info, **changes)
        return session.shown()

    async def fork(self, session_id: str, info: SessionInfo) -> None:
        await self.save_log(session_id)
        source, copy = self._session(session_id), self._make(info)
        copy.records = source.records.copy()
        copy.by_entity = {entity: numbers.copy() for entity, numbers in source.by_entity.items()}
        copy.state = source.state.copy()
        copy.turn = source.turn

    async def delete(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.is_held:
            raise SessionInUse(session_id)
        self._sessions.pop(session_id, None)

    async def list(
        self,
        *,
        cwd: str | None = None,
        cursor: str | None = None,
        archived: Archived = "exclude",
        limit: int = PAGE,
    ) -> SessionPage:
        before = decode_cursor(cursor)
        limit = max(1, min(limit, MAX_PAGE))
        wanted = [
            session
            for session in self._sessions.values()
            if (session.touched, session.key) < before
            and cwd in (None, session.info.cwd)
            and (archived == "include" or session.info.archived == (archived == "only"))
        ]
        wanted.sort(key=lambda session: (session.touched, session.key), reverse=True)
        shown = wanted[:limit]
        next_cursor = encode_cursor(shown[-1].touched, shown[-1].key) if len(wanted) > limit else None
        return SessionPage([session.shown() for session in shown], next_cursor)

    async def acquire(self, session_id: str, *, new: SessionInfo | None = None) -> SessionRecords:
        session = self._session(session_id) if new is None else self._make(new)
        if session.is_held:
            raise SessionInUse(session_id)
        session.is_held = True
        return _MemoryRecords(session)

    async def read_only(self, session_id: str) -> tuple[SessionRecords, bool]:
        session = self._session(session_id)
        return _MemoryRecords(session), session.is_held

    async def close(self) -> None:
        """Do nothing: the sessions stay in memory and can be opened again."""

    def _session(self, session_id: str) -> _Session:
        try:
            return self._sessions[session_id]
        except KeyError:
            raise ResourceNotFound(f"no such session: {session_id}", data={"sessionId": session_id}) from None

    def _make(self, info: SessionInfo) -> _Session:
        if info.session_id in self._sessions:
            raise StoreError(f"a session with this id exists already: {info.session_id}")
        self._made += 1
        session = self._sessions[info.session_id] = _Session(self._made, info)
        return session


class _Session:
    """One session."""

    def __init__(self, key: int, info: SessionInfo) -> None:
        self.key = key
        self.info = info
        self.touched = time.time_ns()
        self.turn = 0
        self.records: list[Record] = []
        self.by_entity: dict[str, list[int]] = {}
        self.state: dict[str, bytes] = {}
        self.is_held = False

    def shown(self) -> SessionInfo:
        return msgspec.structs.replace(self.info, updated_at=timestamp(self.touched))

    def add(self, record: Record) -> None:
        self.records.append(record)
        if record.entity is not None:
            self.by_entity.setdefault(record.entity, []).append(record.number)
        if record.kind in ("begin", "end"):
            self.turn = record.number if record.kind == "begin" else 0
        self.touched = time.time_ns()


class _MemoryRecords(SessionRecords):
    """The records of one session in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    def write(self, batch: Batch) -> asyncio.Future[None]:
        for record in batch.records:
            self._session.add(record)
        for name, value in batch.state.items():
            self._session.state.pop(name, None)
            if value is not None:
                self._session.state[name] = value
        if batch.title is not UNSET:
            self._session.info = msgspec.structs.replace(self._session.info, title=batch.title)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def position(self) -> LogPosition:
        return LogPosition(len(self._session.records), self._session.turn)

    async def read(self, after: int, upto: int) -> RecordPage:
        reached = min(upto, after + PAGE_RECORDS)
        entries = [self._entry(record, upto) for record in self._session.records[after:reached]]
        return RecordPage(entries, reached)

    async def read_entity(self, entity: str, after: int, upto: int) -> list[Record]:
        numbers = self._session.by_entity.get(entity, [])
        return [self._session.records[number - 1] for number in numbers if after < number <= upto]

    async def read_state(self, name: str) -> bytes | None:
        return self._session.state.get(name)

    async def release(self) -> None:
        self._session.is_held = False

    def _entry(self, record: Record, upto: int) -> RecordEntry:
        if record.entity is None:
            return RecordEntry(record, record.number, record.number)
        numbers = self._session.by_entity[record.entity]
        return RecordEntry(record, numbers[0], numbers[bisect_right(numbers, upto) - 1])
