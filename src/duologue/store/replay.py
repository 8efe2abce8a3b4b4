"""Replay a session from its records: in order, each entity once, in bounded memory."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from msgspec import Struct

from duologue.conversation.updates import (
    InfoUpdate,
    MessageChunk,
    PlanRemovedUpdate,
    Update,
    UsageUpdate,
    decode_update,
)
from duologue.store.records import Record, RecordEntry, SessionRecords, TurnBegan, TurnEnded
from duologue.store.replay_merge import ChunkMerger, UpdateMerger, as_interrupted, shows_at_start

_log = logging.getLogger("duologue.store")

_decode_began = msgspec.json.Decoder(TurnBegan).decode
_decode_ended = msgspec.json.Decoder(TurnEnded).decode


class Damage(Struct, frozen=True):
    """Records that a replay had to skip, from `first` to `last`.

    `reason` is `damaged` (lost or changed), `unknown` (of a newer version; it stays in the store), `index` (an unknown
    entity that has several records may be shown in an older state) or `journal` (the newest records of some sessions
    are lost, perhaps of this one).
    """

    first: int
    last: int
    reason: str


class Replay:
    """The updates of a session, for one `async for`.

    Attributes:
        damage: Records skipped so far; complete when the loop has ended.
    """

    def __init__(
        self,
        session_id: str,
        find_records: Callable[[str], Awaitable[tuple[SessionRecords, int]]],
        *,
        skip_refused: bool,
    ) -> None:
        self.damage: list[Damage] = []
        self._session_id = session_id
        self._find_records = find_records
        self._skip_refused = skip_refused

    async def __aiter__(self) -> AsyncIterator[Update]:
        records, running_turn = await self._find_records(self._session_id)
        reader = _ReplayReader(records, running_turn, self._skip_refused, self.damage)
        async for update in reader.updates():
            yield update
        for found in self.damage:
            message = "session %a: records %d to %d were skipped in a replay: %s"
            _log.warning(message, self._session_id, found.first, found.last, found.reason)


class _ReplayReader:
    """Reads the records of a session once, in order."""

    def __init__(self, records: SessionRecords, running_turn: int, skip_refused: bool, damage: list[Damage]) -> None:
        self._records = records
        self._running_turn = running_turn
        self._skip_refused = skip_refused
        self._damage = damage
        self._upto = 0
        self._is_interrupted = False
        self._skipped_upto = 0
        self._chunks = ChunkMerger()
        # A record of an entity that is shown at its start is read twice: in order, and by its entity. If these sums of
        # record numbers differ, the index missed some.
        self._passed = 0
        self._folded = 0

    async def updates(self) -> AsyncIterator[Update]:
        position = await self._records.position()
        self._upto = position.last
        reached = 0
        while reached < self._upto:
            page = await self._records.read(reached, self._upto)
            for entry in page.entries:
                self._note_gap(reached, entry.record.number)
                reached = entry.record.number
                for update in await self._updates_at(entry):
                    yield update
            self._note_gap(reached, page.reached + 1)
            reached = page.reached
        for update in self._chunks.rest():
            yield update
        if self._passed != self._folded and not self._skipped_upto:
            self._note(1, self._upto, "index")
        if position.lost_transactions:
            self._note(self._upto + 1, self._upto + 1, "journal")

    async def _updates_at(self, entry: RecordEntry) -> list[Update]:
        """Return the updates to replay at this record."""
        record = entry.record
        try:
            if record.kind != "update":
                updates = await self._mark(entry)
                return [*self._chunks.rest(), *updates]
            if record.number <= self._skipped_upto:
                return []
            update = decode_update(record.body)
            if isinstance(update, MessageChunk):
                return [*self._chunks.add(update)]
            whole = await self._whole(entry, update)
            if whole is None:
                return []
            return [*self._chunks.rest(), as_interrupted(whole) if self._is_interrupted else whole]
        except ValueError:  # intact, but of a newer version
            self._note(record.number, record.number, "unknown")
            return []

    async def _mark(self, entry: RecordEntry) -> list[Update]:
        """Handle the beginning or the end of a turn; a prompt is replayed as the user's message."""
        record = entry.record
        if record.kind == "end":
            self._is_interrupted = False
            return []
        if record.kind != "begin":
            raise ValueError(record.kind)
        began = _decode_began(record.body)
        has_ended = entry.last > record.number
        self._is_interrupted = not has_ended and record.number != self._running_turn
        if self._skip_refused and has_ended and await self._is_refused(entry):
            self._skipped_upto = entry.last
            return []
        return [MessageChunk(role="user", content=block, message_id=began.message_id) for block in began.prompt]

    async def _is_refused(self, began: RecordEntry) -> bool:
        marks = [record async for record in self._about(began)]
        return marks[-1].kind == "end" and _decode_ended(marks[-1].body).stop_reason == "refusal"

    async def _whole(self, entry: RecordEntry, update: Update) -> Update | None:
        """Return the merged update of the record's entity, if it is replayed at this record."""
        record, entity = entry.record, entry.record.entity
        if entity is None:
            return update
        if shows_at_start(entity):
            self._passed += record.number
            return await self._fold(entry, update) if record.number == entry.first else None
        if record.number != entry.last or isinstance(update, PlanRemovedUpdate):
            return None
        return await self._fold(entry, update) if isinstance(update, InfoUpdate | UsageUpdate) else update

    async def _fold(self, entry: RecordEntry, update: Update) -> Update:
        fold = UpdateMerger()
        async for record in self._about(entry):
            try:
                fold.add(decode_update(record.body))
            except ValueError:  # reported when it is read in order
                continue
            if not isinstance(update, InfoUpdate | UsageUpdate):
                self._folded += record.number
        return fold.result() or update

    async def _about(self, entry: RecordEntry) -> AsyncIterator[Record]:
        """Yield all records of the same entity."""
        if entry.first == entry.last:
            yield entry.record
            return
        reached = 0
        while records := await self._records.read_entity(entry.record.entity or "", reached, self._upto):
            for record in records:
                yield record
            reached = records[-1].number

    def _note_gap(self, reached: int, following: int) -> None:
        if following > reached + 1:
            self._note(reached + 1, following - 1, "damaged")

    def _note(self, first: int, last: int, reason: str) -> None:
        before = self._damage[-1] if self._damage else None
        if before is not None and before.reason == reason and before.last == first - 1:
            first = before.first
            self._damage.pop()
        self._damage.append(Damage(first, last, reason))
