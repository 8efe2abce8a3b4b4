"""Read the usage of a session from its records."""

from __future__ import annotations

import msgspec

from duologue.conversation.updates import UsageUpdate, decode_update
from duologue.store.records import Record, SessionRecords, TurnEnded
from duologue.store.replay_merge import entity_of
from duologue.usage.amounts import SessionUsage, TokenCounts
from duologue.usage.counter import UsageCounter

_decode_ended = msgspec.json.Decoder(TurnEnded).decode

_ENTITY = entity_of(UsageUpdate(used=0, size=0))


async def stored_usage(records: SessionRecords) -> SessionUsage:
    """Return the tokens and cost of the turns that have ended; damaged records are left out."""
    counter = UsageCounter()
    upto, reached = (await records.position()).last, 0
    while reached < upto:
        page = await records.read(reached, upto)
        for entry in page.entries:
            _count(counter, entry.record)
        reached = page.reached
    return counter.usage


def _count(counter: UsageCounter, record: Record) -> None:
    try:
        if record.kind == "end":
            usage = _decode_ended(record.body).usage
            counter.end_turn(None if usage is None else TokenCounts.of(usage), None if usage is None else "per_turn")
        elif record.entity == _ENTITY:
            counter.add_update(decode_update(record.body), is_in_turn=True)
    except ValueError:  # intact, but of a newer version
        return
