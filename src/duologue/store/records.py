"""The records of one session in a store, and the operations on them that each store implements.

A session is a list of records, numbered from 1 without gaps. A record about something with an id (a tool call, a plan,
a turn) has that id as its `entity`, so that all records about it are found without reading the others. A missing number
means that a record was lost.
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
from duologue.conversation.work_state import TokenUsage
from duologue.errors import EncodeError
from duologue.sanitize import replace_lone_surrogates

Kind = Literal["update", "begin", "end"]


class Record(Struct, frozen=True, gc=False):
    """One event of a session. `kind` is a `Kind`, or the word of a newer version."""

    number: int
    kind: str
    entity: str | None
    body: bytes


class RecordEntry(Struct, frozen=True, gc=False):
    """A record read from the store, with the numbers of the first and last intact record of its entity."""

    record: Record
    first: int
    last: int


class RecordPage(Struct, frozen=True):
    """Intact records in order, and the number up to which there are no others."""

    entries: list[RecordEntry]
    reached: int


class TurnBegan(Struct, frozen=True, omit_defaults=True):
    """The body of a `begin` record."""

    prompt: list[Content]
    message_id: str | None = None


class TurnEnded(Struct, frozen=True, omit_defaults=True):
    """The body of an `end` record. Files of earlier versions have no usage."""

    stop_reason: str
    usage: TokenUsage | None = None


class LogPosition(Struct, frozen=True):
    """The state of a session: its last record, and the turn that began and has not ended, or 0.

    `lost_transactions` counts transactions of the whole store, of any session, that were unreadable when it was opened.
    """

    last: int
    turn: int
    lost_transactions: int = 0


@dataclass(frozen=True)
class Batch:
    """Records and state that are written in one transaction."""

    records: Sequence[Record]
    state: Mapping[str, bytes | None]
    title: str | None | UnsetType = UNSET


class SessionRecords(ABC):
    """Access to the records and the state of one session, for `SessionLog` and `Replay`."""

    @abstractmethod
    def write(self, batch: Batch) -> asyncio.Future[None]:
        """Start writing a batch; the future is done when it would survive a crash of this process.

        Batches are written in the order of the calls. A batch that failed has no effect.
        """

    @abstractmethod
    async def position(self) -> LogPosition:
        """Return the state of the session, including all written batches."""

    @abstractmethod
    async def read(self, after: int, upto: int) -> RecordPage:
        """Return the next intact records after `after`, up to a limit of bytes; skip damaged ones."""

    @abstractmethod
    async def read_entity(self, entity: str, after: int, upto: int) -> list[Record]:
        """Return the next intact records of one entity after `after`, up to a limit of bytes; none at the end."""

    @abstractmethod
    async def read_state(self, name: str) -> bytes | None:
        """Return the state saved under this name; None if there is none, or if it is damaged, which is logged."""

    @abstractmethod
    async def release(self) -> None:
        """Unlock the session."""


_encode = msgspec.json.Encoder().encode


def encode_body(value: Update | TurnBegan | TurnEnded) -> bytes:
    """Return the bytes to store; lone surrogates become U+FFFD, as when they are sent.

    Raises:
        EncodeError: The value cannot be encoded as JSON.
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return replace_lone_surrogates(text).encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EncodeError(f"cannot be stored as JSON: {error}") from error
