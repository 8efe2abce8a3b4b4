"""Queries of the SQLite store, built from constants only; SQLite binds all values.

The primary key of events is `rowid`, SQLite's own name for it: the column is called `key`, and `place` in version 1.
"""
# ruff: noqa: S608

from __future__ import annotations

_COLUMNS = "key, id, cwd, archived, touched, last, turn, info, checksum"
"""In the order of `SessionRow`."""

FIND = f"SELECT {_COLUMNS} FROM sessions WHERE id = ?"
FIND_WITHOUT_INDEX = f"SELECT {_COLUMNS} FROM sessions NOT INDEXED WHERE id = ?"

_INTACT = "checksum = checksum(:seed, rowid, kind, entity, body)"
_SIBLING = f"(SELECT rowid FROM events WHERE entity = event.entity AND rowid > :start AND rowid <= :upto AND {_INTACT}"
READ = f"""
SELECT rowid, kind, entity, body, checksum,
    CASE WHEN entity IS NULL THEN rowid ELSE {_SIBLING} ORDER BY rowid LIMIT 1) END,
    CASE WHEN entity IS NULL THEN rowid ELSE {_SIBLING} ORDER BY rowid DESC LIMIT 1) END
FROM events AS event WHERE rowid > :after AND rowid <= :end ORDER BY rowid"""
READ_ONE = "SELECT rowid, kind, entity, body, checksum, rowid, rowid FROM events WHERE rowid > :after AND rowid <= :end"
READ_ENTITY = f"""
SELECT rowid, kind, entity, body FROM events
WHERE entity = :entity AND rowid > :after AND rowid <= :end AND {_INTACT} ORDER BY rowid"""
COUNT = f"SELECT count(*) FROM events WHERE rowid > :after AND rowid <= :end AND {_INTACT}"
NEW_KEY = """
SELECT 1 + max(ifnull((SELECT max(key) FROM sessions), 0), ifnull((SELECT max(rowid) >> 32 FROM events), 0))"""
"""Greater than the keys of events without a session, which exist only after damage."""
COPY_STATE = """
INSERT INTO state SELECT :new_key, name, value, checksum(:new_seed, 0, 'state', name, value)
FROM state WHERE session = :key AND checksum = checksum(:seed, 0, 'state', name, value)"""
PAGE = f"""
SELECT {_COLUMNS} FROM sessions
WHERE (touched, key) < (:touched, :key) AND (:cwd IS NULL OR cwd = :cwd) AND (:archived IS NULL OR archived = :archived)
ORDER BY touched DESC, key DESC LIMIT :limit"""
