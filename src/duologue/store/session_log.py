"""One session while it is open: what happens is gathered for a moment and written together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from msgspec import UNSET, UnsetType

from duologue.conversation.content import Content
from duologue.conversation.updates import InfoUpdate, NoticeUpdate, StateUpdate, Update
from duologue.errors import StoreError, StoreFull
from duologue.store.records import Batch, Kind, LogPosition, Record, SessionRecords, TurnBegan, TurnEnded, encode_body
from duologue.store.replay_merge import entity_of

__all__ = ["GROUP_BYTES", "GROUP_SECONDS", "MAX_UNSAVED_BYTES", "RETRY_SECONDS", "SessionLog"]

_log = logging.getLogger("duologue.store")

GROUP_SECONDS = 0.05
"""How long an update may wait for others: nobody notices, and a stream of words costs 20 writes a second."""

GROUP_BYTES = 64 * 1024
"""How much may wait for company; beyond it the write starts at once."""

RETRY_SECONDS = 1.0
"""How soon a failed write is tried again when nobody asks for it."""

MAX_UNSAVED_BYTES = 64 * 1024 * 1024
"""How much is kept in memory while it cannot be written: hours of talk, or one careless program."""

_OVERHEAD = 64
"""Bytes that a record takes beside its body, roughly."""


class SessionLog:
    """A session that is open here and nowhere else.

    Attributes:
        session_id: Whose it is.
        turn: The turn that runs, by the number of its first record, or 0.
        is_interrupted: The last turn never ended: the process that ran it did.
        trouble: Why the last write failed; nothing is lost yet, and the write is tried again. `None` when all is well.
    """

    def __init__(
        self, session_id: str, shelf: SessionRecords, position: LogPosition, on_close: Callable[[], object]
    ) -> None:
        self.session_id = session_id
        self.turn = 0
        self.is_interrupted = position.turn != 0
        self.write_error: BaseException | None = None
        self._shelf = shelf
        self._on_close = on_close
        self._last = position.last
        self._records: list[Record] = []
        self._state: dict[str, bytes | None] = {}
        self._title: str | None | UnsetType = UNSET
        self._unsaved_bytes = 0
        self._taken = 0
        self._written = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flight: asyncio.Future[None] | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def append(self, update: Update) -> None:
        """Keep an update that is being told; `commit` says when it is safe. Notices and states are not kept.

        Raises:
            EncodeError: There is something in it that JSON can not say.
            StoreFull: Too much waits to be written already; this update is not kept.
        """
        if isinstance(update, NoticeUpdate | StateUpdate):
            return
        if isinstance(update, InfoUpdate) and update.title is not UNSET:
            self._title = update.title
        self._add("update", entity_of(update), encode_body(update))

    async def commit(self) -> None:
        """Until everything given so far would survive the end of this process, however it ends.

        Raises:
            StoreError: It is not safe. It is still held in memory, in order, and this may be tried again.
        """
        goal = self._taken
        while self._written < goal:
            self._write()
            flight = self._flight
            assert flight is not None
            await asyncio.wait({flight})
            if (error := flight.exception()) is not None:
                raise error

    def begin_turn(self, prompt: Sequence[Content], message_id: str | None = None) -> None:
        """Note what the user asked. A replay tells it as the user's message, so it is not to be appended as well.

        Raises:
            RuntimeError: A turn is running already.
        """
        if self.turn:
            raise RuntimeError("a turn is running already")
        self._add("begin", f"turn {self._last + 1}", encode_body(TurnBegan(list(prompt), message_id)))
        self.turn = self._last
        self.is_interrupted = False

    async def end_turn(self, stop_reason: str) -> None:
        """Note how the turn ended, and commit. A turn that ends with `refusal` leaves the context.

        Raises:
            RuntimeError: No turn is running.
            StoreError: As from `commit`; the turn has ended all the same.
        """
        if not self.turn:
            raise RuntimeError("no turn is running")
        self._add("end", f"turn {self.turn}", encode_body(TurnEnded(stop_reason)))
        self.turn = 0
        await self.commit()

    async def load_state(self, name: str) -> bytes | None:
        """What was saved under this name, or nothing."""
        if self._flight is not None:
            await asyncio.wait({self._flight})
        if name in self._state:
            return self._state[name]
        return await self._shelf.read_state(name)

    def save_state(self, name: str, value: bytes | None) -> None:
        """Keep these bytes under a name of your own, or forget it with `None`.

        They are written together with the updates around them, so that both are there after a crash, or neither.
        """
        self._make_room_for(len(value or b""))
        self._state[name] = value
        self._taken += 1
        self._write_soon()

    async def aclose(self) -> None:
        """Write what waits and let others open the session; closing twice does nothing.

        Raises:
            StoreError: The last of it could not be written and is lost. The session is free all the same.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self.commit()
        finally:
            self._stop_timer()
            self._on_close()
            await self._shelf.release()

    def _add(self, kind: Kind, entity: str | None, body: bytes) -> None:
        self._make_room_for(len(body))
        self._last += 1
        self._records.append(Record(self._last, kind, entity, body))
        self._taken += 1
        self._write_soon()

    def _make_room_for(self, size: int) -> None:
        if self._is_closed:
            raise StoreError(f"the log of session {self.session_id} is closed")
        if self._unsaved_bytes > MAX_UNSAVED_BYTES:
            reason = self.write_error or "it comes faster than it can be written"
            raise StoreFull(f"session {self.session_id}: {self._unsaved_bytes} bytes wait to be written: {reason}")
        self._unsaved_bytes += size + _OVERHEAD

    def _write_soon(self) -> None:
        if self._flight is not None or self.write_error is not None:
            return
        if self._unsaved_bytes >= GROUP_BYTES:
            self._write()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GROUP_SECONDS, self._write)

    def _write(self) -> None:
        """Start writing what waits, unless a write is under way: its end starts the next."""
        self._stop_timer()
        if self._flight is not None or not (self._records or self._state):
            return
        batch = Batch(self._records, self._state, self._title)
        taken, size = self._taken, self._unsaved_bytes
        self._records, self._state, self._title = [], {}, UNSET
        self._flight = self._shelf.write(batch)
        self._flight.add_done_callback(lambda flight: self._landed(flight, batch, taken, size))

    def _landed(self, flight: asyncio.Future[None], batch: Batch, taken: int, size: int) -> None:
        self._flight = None
        error = StoreError("the write was cancelled") if flight.cancelled() else flight.exception()
        if error is not None:
            self._keep_for_later(batch, error)
            return
        if self.write_error is not None:
            _log.warning("session %a is being saved again", self.session_id)
        self.write_error = None
        self._written = taken
        self._unsaved_bytes -= size
        if self._taken > taken:
            self._write_soon()

    def _keep_for_later(self, batch: Batch, error: BaseException) -> None:
        """Put a batch that was not written back in front of what came after it."""
        if self.write_error is None:
            _log.warning("session %a is not being saved: %s", self.session_id, error)
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
