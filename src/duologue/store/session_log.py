"""Write the updates of an open session, in groups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Self

from msgspec import UNSET, Struct, UnsetType

from duologue.conversation.content import Content, TextContent
from duologue.conversation.updates import InfoUpdate, MessageChunk, Role, Update
from duologue.conversation.work_state import TokenUsage
from duologue.errors import StoreError, StoreFull
from duologue.store.records import Batch, Kind, LogPosition, Record, SessionRecords, TurnBegan, TurnEnded, encode_body
from duologue.store.replay_merge import MERGED_CHARACTERS, entity_of

_log = logging.getLogger("duologue.store")

GROUP_SECONDS = 0.05
"""How long an update may wait for others: unnoticeable, and a stream of text costs 20 writes a second."""

GROUP_BYTES = 64 * 1024
"""Bytes that may wait for others; more are written immediately."""

RETRY_SECONDS = 1.0
"""Seconds until a failed write is retried without a `commit`."""

MAX_UNSAVED_BYTES = 64 * 1024 * 1024
"""Bytes kept in memory while they cannot be written: hours of conversation."""

_OVERHEAD = 64
"""Approximate size of a record without its body."""

_TEXT_OVERHEAD = 512
"""Approximate size of a record of text that still grows, without its text."""

_MAX_UTF8 = 4
"""Bytes that a character takes at most."""


class _TextRecord(Struct):
    """A record of text that grows until it is written."""

    number: int
    role: Role
    message_id: str
    text: StringIO

    def encoded(self) -> Record:
        text = TextContent(self.text.getvalue())
        chunk = MessageChunk(role=self.role, content=text, message_id=self.message_id)
        return Record(self.number, "update", entity_of(chunk), encode_body(chunk))


class SessionLog:
    """A session that is open in this process.

    Attributes:
        session_id: Id of the session.
        turn: Number of the first record of the running turn, or 0.
        is_interrupted: The last turn never ended, because its process did.
        write_error: Why the last write failed; nothing is lost yet, and it is retried. `None` after a success.
    """

    def __init__(
        self, session_id: str, records: SessionRecords, position: LogPosition, on_close: Callable[[], object]
    ) -> None:
        self.session_id = session_id
        self.turn = 0
        self.is_interrupted = position.turn != 0
        self.write_error: BaseException | None = None
        self._session_records = records
        self._on_close = on_close
        self._last = position.last
        self._records: list[Record | _TextRecord] = []
        self._text: _TextRecord | None = None
        """The last record, if more text can be added to it."""
        self._state: dict[str, bytes | None] = {}
        self._title: str | None | UnsetType = UNSET
        self._unsaved_bytes = 0
        self._accepted = 0
        self._written = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def append(self, update: Update) -> None:
        """Add an update; `commit` waits until it is written. Notices, states and background tasks are not stored.

        Raises:
            EncodeError: The update cannot be encoded as JSON.
            StoreFull: Too many bytes wait to be written; this update is not stored.
        """
        if not update.is_stored:
            return
        if isinstance(update, InfoUpdate) and update.title is not UNSET:
            self._title = update.title
        self._add("update", entity_of(update), encode_body(update))

    def append_text(self, role: Role, message_id: str, text: str) -> None:
        """Add a chunk of plain text; chunks of one message that are written together are one record.

        Raises:
            StoreFull: Too many bytes wait to be written; this chunk is not stored.
        """
        record = self._text
        size = len(text) if text.isascii() else _MAX_UTF8 * len(text)
        if record is not None and record.message_id == message_id and record.role == role:
            self._reserve(size)
        else:
            self._reserve(size + _TEXT_OVERHEAD)
            self._last += 1
            record = self._text = _TextRecord(self._last, role, message_id, StringIO(newline=""))
            self._records.append(record)
        record.text.write(text)
        if record.text.tell() >= MERGED_CHARACTERS:
            self._text = None
        self._accepted += 1
        if self._timer is None or self._unsaved_bytes >= GROUP_BYTES:
            self._write_soon()

    async def commit(self) -> None:
        """Wait until everything added so far would survive a crash of this process.

        Raises:
            StoreError: Writing failed. Everything is still in memory, in order; call this again to retry.
        """
        goal = self._accepted
        while self._written < goal:
            self._write()
            write = self._writing
            assert write is not None
            await asyncio.wait({write})
            if (error := write.exception()) is not None:
                raise error

    def begin_turn(self, prompt: Sequence[Content], message_id: str | None = None) -> None:
        """Record the user's prompt. A replay contains it as the user's message, so do not append it as well.

        Raises:
            RuntimeError: A turn is running already.
        """
        if self.turn:
            raise RuntimeError("a turn is running already")
        self._add("begin", f"turn {self._last + 1}", encode_body(TurnBegan(list(prompt), message_id)))
        self.turn = self._last
        self.is_interrupted = False

    async def end_turn(self, stop_reason: str, usage: TokenUsage | None = None) -> None:
        """Record how the turn ended, and commit. A turn that ends with `refusal` is removed from the context.

        Args:
            stop_reason: Why it ended.
            usage: Tokens of the turn, for `Store.usage`.

        Raises:
            RuntimeError: No turn is running.
            StoreError: As from `commit`; the turn has ended nevertheless.
        """
        if not self.turn:
            raise RuntimeError("no turn is running")
        self._add("end", f"turn {self.turn}", encode_body(TurnEnded(stop_reason, usage)))
        self.turn = 0
        await self.commit()

    async def load_state(self, name: str) -> bytes | None:
        """Return the state saved under this name, or None."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
        if name in self._state:
            return self._state[name]
        return await self._session_records.read_state(name)

    def save_state(self, name: str, value: bytes | None) -> None:
        """Save bytes under a name of your own, or delete them with `None`.

        They are written in one transaction with the pending updates: after a crash both are there, or neither.
        """
        self._reserve(len(value or b"") + _OVERHEAD)
        self._state[name] = value
        self._accepted += 1
        self._write_soon()

    async def aclose(self) -> None:
        """Write the pending records and unlock the session; closing twice does nothing.

        Raises:
            StoreError: The pending records could not be written and are lost. The session is unlocked nevertheless.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self.commit()
        finally:
            self._stop_timer()
            self._on_close()
            await self._session_records.release()

    def _add(self, kind: Kind, entity: str | None, body: bytes) -> None:
        self._reserve(len(body) + _OVERHEAD)
        self._text = None
        self._last += 1
        self._records.append(Record(self._last, kind, entity, body))
        self._accepted += 1
        self._write_soon()

    def _reserve(self, size: int) -> None:
        if self._is_closed:
            raise StoreError(f"the log of session {self.session_id} is closed")
        if self._unsaved_bytes > MAX_UNSAVED_BYTES:
            reason = self.write_error or "the disk is too slow"
            raise StoreFull(f"session {self.session_id}: {self._unsaved_bytes} bytes wait to be written: {reason}")
        self._unsaved_bytes += size

    def _write_soon(self) -> None:
        if self._writing is not None or self.write_error is not None:
            return
        if self._unsaved_bytes >= GROUP_BYTES:
            self._write()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GROUP_SECONDS, self._write)

    def _write(self) -> None:
        """Start writing the pending records, unless a write is in progress: its end starts the next."""
        self._stop_timer()
        if self._writing is not None or not (self._records or self._state):
            return
        records = [each.encoded() if isinstance(each, _TextRecord) else each for each in self._records]
        batch = Batch(records, self._state, self._title)
        accepted, size = self._accepted, self._unsaved_bytes
        self._records, self._text, self._state, self._title = [], None, {}, UNSET
        self._writing = self._session_records.write(batch)
        self._writing.add_done_callback(lambda write: self._written_or_failed(write, batch, accepted, size))

    def _written_or_failed(self, write: asyncio.Future[None], batch: Batch, accepted: int, size: int) -> None:
        self._writing = None
        error = StoreError("the write was cancelled") if write.cancelled() else write.exception()
        if error is not None:
            self._requeue(batch, error)
            return
        if self.write_error is not None:
            _log.warning("session %a can be saved again", self.session_id)
        self.write_error = None
        self._written = accepted
        self._unsaved_bytes -= size
        if self._accepted > accepted:
            self._write_soon()

    def _requeue(self, batch: Batch, error: BaseException) -> None:
        """Put a batch that was not written back in front of the newer records."""
        if self.write_error is None:
            _log.warning("session %a cannot be saved: %s", self.session_id, error)
        self.write_error = error
        self._records = [*batch.records, *self._records]
        self._state = {**batch.state, **self._state}
        self._title = batch.title if self._title is UNSET else self._title
        if self._timer is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._write)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
