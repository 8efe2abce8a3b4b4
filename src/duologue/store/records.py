"""What lies in a store for one session, and the few operations on it that differ from store to store.

A session is a list of records, numbered from 1 without gaps. A record that speaks of something with a name of its own
(a tool call, a plan, a turn) carries that name as its `entity`, so that everything about it is found without reading
the rest. A number that is missing later was lost; that is how damage shows.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from duologue.conversation.content import Content
from duologue.conversation.updates import Update
from duologue.errors import EncodeError
from duologue.sanitize import replace_lone_surrogates

__all__ = [
    "Batch",
    "Kind",
    "LogPosition",
    "Record",
    "RecordEntry",
    "RecordPage",
    "SessionRecords",
    "TurnBegan",
    "TurnEnded",
    "encode_body",
]

Kind = Literal["update", "begin", "end"]


class Record(Struct, frozen=True, gc=False):
    """One thing that happened. `kind` is a `Kind`, or a word of a version newer than this one."""

    number: int
    kind: str
    entity: str | None
    body: bytes


class RecordEntry(Struct, frozen=True, gc=False):
    """A record as it is read back, with the first and the last sound record of its entity that were asked for."""

    record: Record
    first: int
    last: int


class RecordPage(Struct, frozen=True):
    """Sound records in order, and the number up to which there are no others."""

    entries: list[RecordEntry]
    reached: int


class TurnBegan(Struct, frozen=True, omit_defaults=True):
    """The body of a `begin` record."""

    prompt: list[Content]
    message_id: str | None = None


class TurnEnded(Struct, frozen=True, omit_defaults=True):
    """The body of an `end` record."""

    stop_reason: str


class LogPosition(Struct, frozen=True):
    """How far a session has come: its last record, and the turn that began and has not ended, or 0.

    `lost_transactions` of the store were found to be unreadable when it was opened, of whatever sessions.
    """

    last: int
    turn: int
    lost_transactions: int = 0


@dataclass(frozen=True)
class Batch:
    """What is written together: all of it or nothing."""

    records: Sequence[Record]
    state: Mapping[str, bytes | None]
    title: str | None | UnsetType = UNSET


class SessionRecords(ABC):
    """The records and the state of one session. A store makes them; a log and a replay use them."""

    @abstractmethod
    def write(self, batch: Batch) -> asyncio.Future[None]:
        """Start writing at once; the future is done when the batch would survive the end of this process.

        Batches are written in the order of the calls. A batch that failed has left nothing behind.
        """

    @abstractmethod
    async def position(self) -> LogPosition:
        """Where the session stands, written batches included."""

    @abstractmethod
    async def read(self, after: int, upto: int) -> RecordPage:
        """The next sound records beyond `after`, a bounded number of bytes of them; damaged ones are left out."""

    @abstractmethod
    async def read_entity(self, entity: str, after: int, upto: int) -> list[Record]:
        """The next sound records of one entity beyond `after`, a bounded number of bytes of them; empty at the end."""

    @abstractmethod
    async def read_state(self, name: str) -> bytes | None:
        """What is kept under this name; nothing if it is damaged, which is logged."""

    @abstractmethod
    async def release(self) -> None:
        """Let others open the session."""


_encode = msgspec.json.Encoder().encode


def encode_body(value: Update | TurnBegan | TurnEnded) -> bytes:
    """The bytes to keep; what has no UTF-8 is kept as U+FFFD, as it is sent.

    Raises:
        EncodeError: There is something in it that JSON can not say.
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return replace_lone_surrogates(text).encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EncodeError(f"cannot be kept as JSON: {error}") from error
