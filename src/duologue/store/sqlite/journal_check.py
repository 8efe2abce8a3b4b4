"""What SQLite leaves out of a damaged journal without a word, found and counted.

SQLite reads its journal up to the first frame that does not match its checksum and passes over the rest, because that
is how a write looks that was interrupted. But a frame that ends a transaction, complete and of the same generation, can
only stand behind that point if the transaction was written: it was lost to damage, or to a power cut in its midst.

The format is that of https://www.sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from operator import mul
from pathlib import Path
from typing import BinaryIO, NamedTuple

__all__ = ["lost_transactions"]

TRIES = 5
"""Others may write to the journal while it is looked at; then it is looked at again."""

_HEAD = struct.Struct(">8I")
_FRAME_HEAD_BYTES = 24
_MAGIC = (0x377F0682, 0x377F0683)
_PAGE_SIZES = tuple(1 << power for power in range(9, 17))
_USUAL_PAGE_BYTES = 4096

_Checksum = tuple[int, int]


class _Scan(NamedTuple):
    """What was found in a journal: how many frames can be read, and how many transactions stand behind them."""

    head: bytes
    readable: int
    lost: int


def lost_transactions(database: Path) -> int:
    """Count the transactions in the journal of this file that cannot be read."""
    # Nothing but the journal is opened: closing a file drops all locks that this process has on it, and those of SQLite
    # are on its other files.
    journal = database.with_name(f"{database.name}-wal")
    before: _Scan | None = None
    for _ in range(TRIES):
        try:
            with journal.open("rb") as file:
                look = _scan(file)
        except FileNotFoundError:
            return 0
        if not look.lost or look == before:
            return look.lost
        before = look
    return 0


def _scan(file: BinaryIO) -> _Scan:
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return _Scan(head, 0, 0)
    magic, _, page_bytes, _, _, _, *expected = _HEAD.unpack(head)
    salts, order, readable = head[16:24], ">" if magic & 1 else "<", 0
    checksum = _checksum(head[:24], order, (0, 0))
    if magic in _MAGIC and page_bytes in _PAGE_SIZES and [*checksum] == expected:
        size = _FRAME_HEAD_BYTES + page_bytes
        while len(frame := file.read(size)) == size and frame[8:16] == salts:
            checksum = _checksum(frame[:8] + frame[_FRAME_HEAD_BYTES:], order, checksum)
            if checksum != struct.unpack_from(">2I", frame, 16):
                break
            readable += 1
    else:  # SQLite reads nothing; the generation is that of the first frame
        size = _FRAME_HEAD_BYTES + (page_bytes if page_bytes in _PAGE_SIZES else _USUAL_PAGE_BYTES)
        salts = file.read(_FRAME_HEAD_BYTES)[8:16]
    file.seek(_HEAD.size + readable * size)
    lost = 0
    while len(frame := file.read(size)) == size:
        ends_transaction = frame[4:8] != bytes(4)
        # Of an older generation both halves differ; one alone is damage.
        lost += ends_transaction and (frame[8:12] == salts[:4] or frame[12:16] == salts[4:])
    return _Scan(head, readable, lost)


def _checksum(data: bytes, order: str, seed: _Checksum) -> _Checksum:
    """SQLite's sum: `a += x + b; b += y + a` for each pair of words, which is each word times a Fibonacci number."""
    words = (*seed, *struct.unpack(f"{order}{len(data) // 4}I", data))
    first, second = _factors(len(words) - 2)
    return sum(map(mul, first, words)) & 0xFFFFFFFF, sum(map(mul, second, words)) & 0xFFFFFFFF


@cache
def _factors(count: int) -> tuple[Sequence[int], Sequence[int]]:
    """How often the seed and each of so many words count in the first and in the second half of a checksum."""
    fibonacci = [0, 1]
    while len(fibonacci) < count + 2:
        fibonacci.append((fibonacci[-1] + fibonacci[-2]) & 0xFFFFFFFF)
    backwards = fibonacci[:count][::-1]
    first = [fibonacci[count - 1], fibonacci[count], *backwards]
    return first, [fibonacci[count], fibonacci[count + 1], *fibonacci[1 : count + 1][::-1]]
