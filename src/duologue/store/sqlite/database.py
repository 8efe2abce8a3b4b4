"""Read and write the SQLite file of a store, in one thread.

Every event and every session has a checksum; an event that does not match it is treated as missing and leaves a gap in
the numbers. Each method is one transaction; errors of SQLite are not caught here.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import UNSET

from duologue.conversation.session_setup import SessionInfo
from duologue.errors import ResourceNotFound, StoreError
from duologue.private_files import make_private_directory
from duologue.store.pagination import MAX_PAGE, Archived, SessionPage, decode_cursor, encode_cursor
from duologue.store.records import Batch, LogPosition, Record, RecordEntry, RecordPage
from duologue.store.sqlite.connection import connect, is_corrupt, is_failed_sync, tolerate_corruption
from duologue.store.sqlite.journal_check import lost_transactions
from duologue.store.sqlite.queries import (
    COPY_STATE,
    COUNT,
    FIND,
    FIND_WITHOUT_INDEX,
    NEW_KEY,
    PAGE,
    READ,
    READ_ENTITY,
    READ_ONE,
)
from duologue.store.sqlite.rows import MAX_NUMBER, SessionRow, checksum, event_key, info_of, seed_of

_log = logging.getLogger("duologue.store")

FILE_NAME = "sessions.sqlite3"

PAGE_BYTES = 256 * 1024
"""Bytes of bodies read at once: enough to be fast, little enough for memory."""

PAGE_RECORDS = 512
"""Records read at once, so that a write waits only milliseconds for a replay."""

SMALLEST_EVENT = 16
"""Bytes that an event takes in the file at least."""

DAMAGED_PAGE_RECORDS = 64
"""Records read one by one where the file is damaged."""


class Database:
    """The sessions of one directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._failure: str | None = None
        make_private_directory(directory)
        # Before SQLite overwrites the part of the journal that it could not read.
        self._lost = lost_transactions(self._path)
        if self._lost:
            _log.warning(
                "the journal of %s is damaged, perhaps by a power failure: %d transactions cannot be read, and the "
                "newest records of some sessions are lost",
                self._path,
                self._lost,
            )
        self._db = connect(self._path)
        self._db.create_function("checksum", 5, checksum, deterministic=True)
        self._file = self._path.stat()

    def close(self) -> None:
        """Close the file; the last process that closes it removes the journal."""
        self._db.close()

    # --- sessions

    def create(self, info: SessionInfo) -> None:
        """Make a session without events."""
        with self._writing():
            self._insert(info, last=0, turn=0)

    def find(self, session_id: str) -> SessionRow:
        """Return a session's row, intact or not."""
        return self._row(session_id)

    def info(self, session_id: str) -> SessionInfo:
        """Return a session's list entry."""
        return info_of(_validated(self.find(session_id)))

    def change_info(self, session_id: str, changes: Mapping[str, object]) -> SessionInfo:
        """Change these fields; return the new entry."""
        with self._writing():
            row = _validated(self._row(session_id))
            info = msgspec.structs.replace(info_of(row), **changes)
            self._replace(row, _with_info(row, info))
            return info

    def page(self, cwd: str | None, cursor: str | None, archived: Archived, limit: int) -> SessionPage:
        """Return one page of the list, newest first."""
        touched, key = decode_cursor(cursor)
        limit = max(1, min(limit, MAX_PAGE))
        values = {
            "touched": touched,
            "key": key,
            "cwd": cwd,
            "archived": {"exclude": 0, "include": None, "only": 1}[archived],
            "limit": limit + 1,
        }
        rows = [SessionRow(*row) for row in self._db.execute(PAGE, values)]
        shown = rows[:limit]
        # A damaged time may not be a number; then the next page starts after the session before it.
        intact = [(row.touched, row.key) for row in shown if type(row.touched) is int]
        return SessionPage(
            [info_of(row) for row in shown],
            encode_cursor(*intact[-1]) if len(rows) > limit and intact else None,
            frozenset(str(row.id) for row in shown if not row.is_valid),
        )

    def delete(self, session_id: str) -> None:
        """Delete a session with its events and state."""
        with self._writing():
            row = self._find(session_id)
            if row is None:
                return
            events = (event_key(row.key, 0), event_key(row.key, MAX_NUMBER))
            self._db.execute("DELETE FROM events WHERE rowid > ? AND rowid <= ?", events)
            self._db.execute("DELETE FROM state WHERE session = ?", (row.key,))
            self._db.execute("DELETE FROM sessions WHERE key = ?", (row.key,))

    def fork(self, session_id: str, info: SessionInfo) -> None:
        """Make a session as a copy of another's intact events and state; gaps remain."""
        with self._writing():
            row = self._row(session_id)
            position = self._position(row)
            key, seed = self._insert(info, last=position.last, turn=position.turn), seed_of(info.session_id)
            reached = 0
            while reached < position.last:
                page = self.read(session_id, reached, position.last)
                self._add_events(key, seed, [entry.record for entry in page.entries])
                reached = page.reached
            values = {"key": row.key, "new_key": key, "seed": seed_of(session_id), "new_seed": seed}
            self._db.execute(COPY_STATE, values)

    # --- one session

    def write(self, writes: Sequence[tuple[str, Batch]]) -> None:
        """Add events and change state of these sessions, in one transaction."""
        with self._writing():
            for session_id, batch in writes:
                seed, row = seed_of(session_id), self._row(session_id)
                self._add_events(row.key, seed, batch.records)
                for name, value in batch.state.items():
                    self._write_state(row.key, seed, name, value)
                self._replace(row, _advanced(row, batch))

    def position(self, session_id: str) -> LogPosition:
        """Return the state of the session."""
        return msgspec.structs.replace(self._position(self._row(session_id)), lost_transactions=self._lost)

    def read(self, session_id: str, after: int, upto: int) -> RecordPage:
        """Return the next intact events after `after`."""
        row = self._row(session_id)
        with tolerate_corruption():
            page = self._scan(READ, session_id, row.key, after, upto, upto)
            if page.reached > after or not row.is_valid:
                return page
        # The damage stops the query: read the events one by one, up to the last that was written.
        end = min(upto, row.last, after + DAMAGED_PAGE_RECORDS)
        picked = [self._pick(session_id, row.key, number, upto) for number in range(after + 1, end + 1)]
        return RecordPage([entry for entries in picked for entry in entries], end if end > after else upto)

    def read_entity(self, session_id: str, entity: str, after: int, upto: int) -> list[Record]:
        """Return the next intact events of one entity; none if the index is damaged."""
        start = event_key(self._row(session_id).key, 0)
        values = {"seed": seed_of(session_id), "entity": entity, "after": start + after, "end": start + upto}
        records: list[Record] = []
        size = 0
        with tolerate_corruption(), closing(self._db.execute(READ_ENTITY, values)) as cursor:
            for at, kind, name, body in cursor:
                records.append(Record(at - start, kind, name, body))
                size += len(body)
                if size >= PAGE_BYTES:
                    break
        return records

    def read_state(self, session_id: str, name: str) -> bytes | None:
        """Return the state saved under this name; None if there is none, or if it is damaged."""
        row = self._row(session_id)
        query = "SELECT value, checksum FROM state WHERE session = ? AND name = ?"
        found = self._db.execute(query, (row.key, name)).fetchone()
        if found is None:
            return None
        value, expected = found
        if expected is None or expected != checksum(seed_of(session_id), 0, "state", name, value):
            _log.warning("session %a: the state saved as %a is damaged", session_id, name)
            return None
        return bytes(value)

    # --- internal

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Run the block in one transaction, which is on the disk at its end."""
        if self._failure is not None:
            raise StoreError(self._failure)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if isinstance(error, sqlite3.Error) and is_failed_sync(error):
                # The system may drop data that it could not write; a retry would seem to succeed.
                self._failure = f"{self._path}: the disk failed ({error}); open the store again"
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise
        self._check_file_exists()

    def _check_file_exists(self) -> None:
        """Raise `StoreError` if the file was removed or replaced: writes to it would be lost when it is closed."""
        journal = self._path.with_name(f"{FILE_NAME}-wal")
        try:
            exists = os.path.samestat(self._file, self._path.stat()) and journal.exists()
        except OSError:
            exists = False
        if not exists:
            self._failure = f"{self._path} was removed or replaced while it was open; open the store again"
            raise StoreError(self._failure)

    def _row(self, session_id: str) -> SessionRow:
        row = self._find(session_id)
        if row is None:
            raise ResourceNotFound(f"no such session: {session_id}", data={"sessionId": session_id})
        return row

    def _find(self, session_id: str) -> SessionRow | None:
        # The second query is for a damaged index; it takes longer if there is no such session.
        for query in (FIND, FIND_WITHOUT_INDEX):
            row = self._db.execute(query, (session_id,)).fetchone()
            if row is not None:
                return SessionRow(*row)
        return None

    def _insert(self, info: SessionInfo, *, last: int, turn: int) -> int:
        if self._find(info.session_id) is not None:
            raise StoreError(f"a session with this id exists already: {info.session_id}")
        key = self._db.execute(NEW_KEY).fetchone()[0]
        row = _with_info(SessionRow(key, info.session_id, "", 0, time.time_ns(), last, turn, b"", 0), info)
        row = row._replace(checksum=row.expected_checksum)
        self._db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return row.key

    def _replace(self, old: SessionRow, new: SessionRow) -> None:
        # A damaged row stays damaged.
        right = new.expected_checksum if old.is_valid else ~new.expected_checksum
        self._db.execute(
            "UPDATE sessions SET cwd = ?, archived = ?, touched = ?, last = ?, turn = ?, info = ?, checksum = ?"
            " WHERE key = ?",
            (new.cwd, new.archived, new.touched, new.last, new.turn, new.info, right, old.key),
        )

    def _add_events(self, key: int, seed: int, records: Sequence[Record]) -> None:
        """Write events and check that they can be read: in a damaged file they may be lost immediately."""
        if records:
            self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", _event_rows(key, seed, records))
            after, end = event_key(key, records[0].number - 1), event_key(key, records[-1].number)
            if self._db.execute(COUNT, {"seed": seed, "after": after, "end": end}).fetchone()[0] != len(records):
                raise StoreError(f"{self._path} is damaged at this session; fork it to continue in the copy")

    def _write_state(self, key: int, seed: int, name: str, value: bytes | None) -> None:
        if value is None:
            self._db.execute("DELETE FROM state WHERE session = ? AND name = ?", (key, name))
        else:
            values = (key, name, value, checksum(seed, 0, "state", name, value))
            self._db.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?)", values)

    def _position(self, row: SessionRow) -> LogPosition:
        start, most = event_key(row.key, 0), self._most_events()
        query = "SELECT rowid FROM events WHERE rowid > ? AND rowid <= ? ORDER BY rowid DESC LIMIT 1"
        try:
            found = self._db.execute(query, (start, start + most)).fetchone()
        except sqlite3.DatabaseError as error:
            if not (is_corrupt(error) and row.is_valid):
                raise
            found = None
        # In a damaged tree, the row may be one that was not asked for.
        highest = 0 if found is None else min(found[0] - start, most)
        if not row.is_valid:
            return LogPosition(highest, 0)
        return LogPosition(row.last if highest == most else max(highest, row.last), row.turn)

    def _most_events(self) -> int:
        """Return the number of events that fit into the file; an event with a higher number has a damaged key."""
        (pages,), (size,) = (self._db.execute(f"PRAGMA page_{what}").fetchone() for what in ("count", "size"))
        return min(int(pages) * int(size) // SMALLEST_EVENT, MAX_NUMBER)

    def _scan(self, query: str, session_id: str, key: int, after: int, end: int, upto: int) -> RecordPage:
        start, seed = event_key(key, 0), seed_of(session_id)
        values = {"seed": seed, "start": start, "after": start + after, "end": start + end, "upto": start + upto}
        entries: list[RecordEntry] = []
        size, reached = 0, after
        with closing(self._db.execute(query, values)) as cursor:
            for at, kind, entity, body, expected, first, last in cursor:
                # In a damaged tree, rows may come twice or out of order.
                if at - start <= reached:
                    continue
                reached = at - start
                if expected is not None and expected == checksum(seed, at, kind, entity, body):
                    record = Record(reached, kind, entity, body)
                    entries.append(RecordEntry(record, (first or at) - start, (last or at) - start))
                    size += len(body)
                if size >= PAGE_BYTES or len(entries) >= PAGE_RECORDS:
                    return RecordPage(entries, reached)
        return RecordPage(entries, reached)

    def _pick(self, session_id: str, key: int, number: int, upto: int) -> list[RecordEntry]:
        """Read one event from a damaged file, if possible; without its entity's other events, if only those fail."""
        for query in (READ, READ_ONE):
            with tolerate_corruption():
                return self._scan(query, session_id, key, number - 1, number, upto).entries
        return []


def _validated(row: SessionRow) -> SessionRow:
    if not row.is_valid:
        raise StoreError(f"the entry of session {row.id} is damaged")
    return row


def _with_info(row: SessionRow, info: SessionInfo) -> SessionRow:
    stored = msgspec.structs.replace(info, updated_at=None)
    return row._replace(cwd=info.cwd, archived=int(info.archived), info=msgspec.json.encode(stored))


def _advanced(row: SessionRow, batch: Batch) -> SessionRow:
    """Return the row as it is after a batch."""
    if batch.title is not UNSET and row.is_valid:
        row = _with_info(row, msgspec.structs.replace(info_of(row), title=batch.title))
    for record in batch.records:
        if record.kind in ("begin", "end"):
            row = row._replace(turn=record.number if record.kind == "begin" else 0)
    if batch.records:
        row = row._replace(last=batch.records[-1].number, touched=time.time_ns())
    return row


def _event_rows(
    key: int, seed: int, records: Sequence[Record]
) -> Iterator[tuple[int, str, str | None, bytes, int | None]]:
    for record in records:
        at = event_key(key, record.number)
        found = checksum(seed, at, record.kind, record.entity, record.body)
        yield at, record.kind, record.entity, record.body, found
