"""Queries of the SQLite store, built from constants only; SQLite binds all values."""
# ruff: noqa: S608

from __future__ import annotations

_COLUMNS = "key, id, cwd, archived, touched, last, turn, info, checksum"
"""In the order of `SessionRow`."""

FIND = f"SELECT {_COLUMNS} FROM sessions WHERE id = ?"
FIND_WITHOUT_INDEX = f"SELECT {_COLUMNS} FROM sessions NOT INDEXED WHERE id = ?"

_INTACT = "checksum = checksum(:seed, place, kind, entity, body)"
_SIBLING = f"(SELECT place FROM events WHERE entity = event.entity AND place > :start AND place <= :upto AND {_INTACT}"
READ = f"""
SELECT place, kind, entity, body, checksum,
    CASE WHEN entity IS NULL THEN place ELSE {_SIBLING} ORDER BY place LIMIT 1) END,
    CASE WHEN entity IS NULL THEN place ELSE {_SIBLING} ORDER BY place DESC LIMIT 1) END
FROM events AS event WHERE place > :after AND place <= :end ORDER BY place"""
READ_ONE = "SELECT place, kind, entity, body, checksum, place, place FROM events WHERE place > :after AND place <= :end"
READ_ENTITY = f"""
SELECT place, kind, entity, body FROM events
WHERE entity = :entity AND place > :after AND place <= :end AND {_INTACT} ORDER BY place"""
COUNT = f"SELECT count(*) FROM events WHERE place > :after AND place <= :end AND {_INTACT}"
NEW_KEY = """
SELECT 1 + max(ifnull((SELECT max(key) FROM sessions), 0), ifnull((SELECT max(place) >> 32 FROM events), 0))"""
"""Greater than the keys of events without a session, which exist only after damage."""
COPY_STATE = """
INSERT INTO state SELECT :new_key, name, value, checksum(:new_seed, 0, 'state', name, value)
FROM state WHERE session = :key AND checksum = checksum(:seed, 0, 'state', name, value)"""
PAGE = f"""
SELECT {_COLUMNS} FROM sessions
WHERE (touched, key) < (:touched, :key) AND (:cwd IS NULL OR cwd = :cwd) AND (:archived IS NULL OR archived = :archived)
ORDER BY touched DESC, key DESC LIMIT :limit"""
