"""Count the transactions that SQLite silently ignores in a damaged journal.

SQLite reads its journal up to the first frame with a wrong checksum and ignores the rest, because an interrupted write
looks like that. But if a complete frame of the same generation that ends a transaction follows, that transaction was
written: it was lost to damage, or to a power failure while it was written.

The format is that of https://www.sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from operator import mul
from pathlib import Path
from typing import BinaryIO, NamedTuple

TRIES = 5
"""How often the journal is read again, because another process may write to it meanwhile."""

_HEAD = struct.Struct(">8I")
_FRAME_HEAD_BYTES = 24
_MAGIC = (0x377F0682, 0x377F0683)
_PAGE_SIZES = tuple(1 << power for power in range(9, 17))
_USUAL_PAGE_BYTES = 4096

_Checksum = tuple[int, int]


class _Scan(NamedTuple):
    """Result of reading a journal: how many frames are readable, and how many transactions follow them."""

    head: bytes
    readable: int
    lost: int


def lost_transactions(database: Path) -> int:
    """Count the transactions in the journal of this file that cannot be read."""
    # Open only the journal: closing a file releases all locks of this process on it, and SQLite's locks are on its
    # other files.
    journal = database.with_name(f"{database.name}-wal")
    before: _Scan | None = None
    for _ in range(TRIES):
        try:
            with journal.open("rb") as file:
                scan = _scan(file)
        except FileNotFoundError:
            return 0
        if not scan.lost or scan == before:
            return scan.lost
        before = scan
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
    else:  # SQLite ignores the whole journal; the first frame has its generation
        size = _FRAME_HEAD_BYTES + (page_bytes if page_bytes in _PAGE_SIZES else _USUAL_PAGE_BYTES)
        salts = file.read(_FRAME_HEAD_BYTES)[8:16]
    file.seek(_HEAD.size + readable * size)
    lost = 0
    while len(frame := file.read(size)) == size:
        ends_transaction = frame[4:8] != bytes(4)
        # In an older generation both halves differ; if only one does, it is damage.
        lost += ends_transaction and (frame[8:12] == salts[:4] or frame[12:16] == salts[4:])
    return _Scan(head, readable, lost)


def _checksum(data: bytes, order: str, seed: _Checksum) -> _Checksum:
    """Compute SQLite's sum: `a += x + b; b += y + a` for each pair of words, as words times Fibonacci numbers."""
    words = (*seed, *struct.unpack(f"{order}{len(data) // 4}I", data))
    first, second = _factors(len(words) - 2)
    return sum(map(mul, first, words)) & 0xFFFFFFFF, sum(map(mul, second, words)) & 0xFFFFFFFF


@cache
def _factors(count: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the factors of the seed and of `count` words in the first and second half of a checksum."""
    fibonacci = [0, 1]
    while len(fibonacci) < count + 2:
        fibonacci.append((fibonacci[-1] + fibonacci[-2]) & 0xFFFFFFFF)
    backwards = fibonacci[:count][::-1]
    first = [fibonacci[count - 1], fibonacci[count], *backwards]
    return first, [fibonacci[count], fibonacci[count + 1], *fibonacci[1 : count + 1][::-1]]
