"""Open the SQLite database durably, and translate its errors."""

from __future__ import annotations

import errno
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from duologue.errors import InvalidParams, StoreError, StoreFull
from duologue.private_files import make_private_file

VERSION = 2
"""Version of the tables of new files. A file of a newer version is rejected and left unchanged."""

APPLICATION_ID = 0x64756F6C
"""Marks the file as a store of duologue: `duol`."""

BUSY_SECONDS = 30.0
"""How long a write waits for another process; writes take milliseconds, a fork of a huge session takes seconds."""

WAL_BYTES = 16 * 1024 * 1024
"""Size to which the journal is truncated after a large write."""

_TABLES = """\
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    cwd TEXT NOT NULL,
    archived INTEGER NOT NULL,
    touched INTEGER NOT NULL,   -- nanoseconds since 1970
    last INTEGER NOT NULL,      -- number of the last event
    turn INTEGER NOT NULL,      -- number of the event that began the turn now running, or 0
    info BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX sessions_by_time ON sessions (touched);
CREATE TABLE events (
    key INTEGER PRIMARY KEY,  -- key of the session * 2^32 + number
    kind TEXT NOT NULL,
    entity TEXT,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX events_by_entity ON events (entity) WHERE entity IS NOT NULL;
CREATE TABLE state (
    session INTEGER NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (session, name)
);
"""

_STATEMENTS = _TABLES.rstrip(";\n").split(";\n")
_STATEMENTS_BY_VERSION = {
    1: [each.replace("    key INTEGER PRIMARY KEY,  --", "    place INTEGER PRIMARY KEY,  --") for each in _STATEMENTS],
    VERSION: _STATEMENTS,
}
"""Version 1 calls the key of an event `place`. Its files keep that version, as a program of it may be using them."""

_FAILED_SYNCS = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def connect(path: Path) -> sqlite3.Connection:
    """Open the file; make it if it does not exist.

    Raises:
        StoreError: It is not a store, or of a newer version.
    """
    make_private_file(path)
    until = time.monotonic() + BUSY_SECONDS
    while True:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            _prepare(connection, path)
            return connection
        except sqlite3.OperationalError as error:
            connection.close()
            # Two processes that make the file at the same time may meet a lock that SQLite does not wait for.
            if not _is(error, sqlite3.SQLITE_BUSY) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        except BaseException:
            connection.close()
            raise


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # Damaged text is detected by its checksum, not by an exception in the middle of a row.
    connection.text_factory = _decode_text
    if not _has_tables(connection, path):
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("BEGIN IMMEDIATE")
        if not _has_tables(connection, path):
            for statement in _STATEMENTS:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    # FULL: a committed transaction is on the disk and survives a power failure.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
    connection.execute("PRAGMA cell_size_check = ON")
    # Overwrite deleted data in the file.
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")


def _decode_text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True if the tables of a supported version exist; an empty file has none yet."""
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application_id not in (0, APPLICATION_ID):
        raise StoreError(f"{path} is not a store of sessions")
    if version > VERSION:
        raise StoreError(f"{path} has version {version}; this program supports versions up to {VERSION}")
    statements = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    if version == 0 and statements:
        raise StoreError(f"{path} is not a store of sessions")
    if version != 0 and sorted(statements) != sorted(_STATEMENTS_BY_VERSION.get(version, [""])):
        raise StoreError(f"{path} is damaged: its tables are not those of version {version}")
    return version != 0


@contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Convert errors of SQLite and the system to `StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        kind = StoreFull if _is(error, sqlite3.SQLITE_FULL) else StoreError
        raise kind(f"{path}: {error}") from error
    except OSError as error:
        kind = StoreFull if error.errno in _FULL else StoreError
        raise kind(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise StoreError(f"{path} is damaged: {error}") from error
    except UnicodeEncodeError as error:
        raise InvalidParams(f"not valid Unicode text: {error.object!a}") from error


@contextmanager
def tolerate_corruption() -> Generator[None]:
    """Ignore damage of the file inside the block."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise


def is_failed_sync(error: sqlite3.Error) -> bool:
    """Return True if the system could not confirm that written data is on the disk."""
    return _code(error) in _FAILED_SYNCS


def is_corrupt(error: sqlite3.Error) -> bool:
    """Return True if the file is damaged where it was read."""
    return _is(error, sqlite3.SQLITE_CORRUPT)


def _is(error: sqlite3.Error, primary_code: int) -> bool:
    return _code(error) & 0xFF == primary_code


def _code(error: sqlite3.Error) -> int:
    # Errors raised by the `sqlite3` module itself have no code.
    return getattr(error, "sqlite_errorcode", 0)
