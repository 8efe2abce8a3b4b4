"""A session told again from its records: in order, each thing once, in bounded memory."""

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

__all__ = ["Damage", "Replay"]

_log = logging.getLogger("duologue.store")

_decode_began = msgspec.json.Decoder(TurnBegan).decode
_decode_ended = msgspec.json.Decoder(TurnEnded).decode


class Damage(Struct, frozen=True):
    """Records that a replay had to leave out, from `first` to `last`.

    `reason` is `damaged` (lost, or not what was written), `unknown` (of a newer version; it stays where it is),
    `index` (something that came in several records may be shown in an older state, and it is not known what) or
    `journal` (what was written last to some sessions is lost, and it is not known whether to this one).
    """

    first: int
    last: int
    reason: str


class Replay:
    """The updates of a session, for one `async for`.

    Attributes:
        damage: What had to be left out so far; complete when the loop has ended.
    """

    def __init__(
        self, session_id: str, look: Callable[[str], Awaitable[tuple[SessionRecords, int]]], *, leave_out_refused: bool
    ) -> None:
        self.damage: list[Damage] = []
        self._session_id = session_id
        self._look = look
        self._leave_out_refused = leave_out_refused

    async def __aiter__(self) -> AsyncIterator[Update]:
        shelf, running_turn = await self._look(self._session_id)
        telling = _ReplayReader(shelf, running_turn, self._leave_out_refused, self.damage)
        async for update in telling.updates():
            yield update
        for found in self.damage:
            message = "session %a: records %d to %d were left out of a replay: %s"
            _log.warning(message, self._session_id, found.first, found.last, found.reason)


class _ReplayReader:
    """One way through the records of a session."""

    def __init__(self, shelf: SessionRecords, running_turn: int, leave_out_refused: bool, damage: list[Damage]) -> None:
        self._shelf = shelf
        self._running_turn = running_turn
        self._leave_out_refused = leave_out_refused
        self._damage = damage
        self._upto = 0
        self._is_interrupted = False
        self._skipped_upto = 0
        self._pieces = ChunkMerger()
        # Each record that is told where its entity began is read twice: in passing, and as one of its entity. Unequal
        # sums mean that the second way missed some.
        self._passed = 0
        self._folded = 0

    async def updates(self) -> AsyncIterator[Update]:
        position = await self._shelf.position()
        self._upto = position.last
        reached = 0
        while reached < self._upto:
            stretch = await self._shelf.read(reached, self._upto)
            for entry in stretch.entries:
                self._note_gap(reached, entry.record.number)
                reached = entry.record.number
                for update in await self._told(entry):
                    yield update
            self._note_gap(reached, stretch.reached + 1)
            reached = stretch.reached
        for update in self._pieces.rest():
            yield update
        if self._passed != self._folded and not self._skipped_upto:
            self._note(1, self._upto, "index")
        if position.lost_transactions:
            self._note(self._upto + 1, self._upto + 1, "journal")

    async def _told(self, entry: RecordEntry) -> list[Update]:
        """What is told when this record is passed."""
        record = entry.record
        try:
            if record.kind != "update":
                told = await self._mark(entry)
                return [*self._pieces.rest(), *told]
            if record.number <= self._skipped_upto:
                return []
            update = decode_update(record.body)
            if isinstance(update, MessageChunk):
                return [*self._pieces.add(update)]
            whole = await self._whole(entry, update)
            if whole is None:
                return []
            return [*self._pieces.rest(), as_interrupted(whole) if self._is_interrupted else whole]
        except ValueError:  # sound, but not in words this version knows
            self._note(record.number, record.number, "unknown")
            return []

    async def _mark(self, entry: RecordEntry) -> list[Update]:
        """Follow the beginning or the end of a turn; a prompt is told as its user's message."""
        record = entry.record
        if record.kind == "end":
            self._is_interrupted = False
            return []
        if record.kind != "begin":
            raise ValueError(record.kind)
        began = _decode_began(record.body)
        has_ended = entry.last > record.number
        self._is_interrupted = not has_ended and record.number != self._running_turn
        if self._leave_out_refused and has_ended and await self._is_refused(entry):
            self._skipped_upto = entry.last
            return []
        return [MessageChunk(role="user", content=block, message_id=began.message_id) for block in began.prompt]

    async def _is_refused(self, began: RecordEntry) -> bool:
        marks = [record async for record in self._about(began)]
        return marks[-1].kind == "end" and _decode_ended(marks[-1].body).stop_reason == "refusal"

    async def _whole(self, entry: RecordEntry, update: Update) -> Update | None:
        """What is told here about the thing that the record speaks of."""
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
            except ValueError:  # noted when it is passed
                continue
            if not isinstance(update, InfoUpdate | UsageUpdate):
                self._folded += record.number
        return fold.result() or update

    async def _about(self, entry: RecordEntry) -> AsyncIterator[Record]:
        """All records that speak of the same thing."""
        if entry.first == entry.last:
            yield entry.record
            return
        reached = 0
        while records := await self._shelf.read_entity(entry.record.entity or "", reached, self._upto):
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
