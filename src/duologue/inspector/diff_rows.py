"""The difference of two recordings as the inspector page shows it, each text within a bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from duologue.recording.reader import RecordingReader
from duologue.sanitize import replace_lone_surrogates, shorten
from duologue.trace.comparison import Comparison, StepPair
from duologue.trace.frames import Tracer
from duologue.trace.run_steps import RunReader, differences

MAX_ROWS = 20_000
"""Rows of a difference that are shown; equal steps in a row are one."""
MAX_PATHS = 50
"""Paths of one step that are shown."""
VALUE_CHARS = 2000
NAME_CHARS = 200


class DiffRow(Struct, kw_only=True, omit_defaults=True):
    """A step of both recordings or of one. The members are those of `DiffRow` in `web/src/source.ts`.

    Attributes:
        kind: `same`, `changed`, `only_a` or `only_b`.
        a: Number of its first frame in the first recording.
        b: The same in the second.
        count: Equal steps that this row stands for.
        dir: The receiver.
        name: Kind of the update, or method, or kind of the frame.
        is_answer: It is a response or an error.
        paths: Path, first and second value of each difference; the values are JSON, or None if there is none.
    """

    kind: str
    a: int | None = None
    b: int | None = None
    count: int = 1
    dir: str = ""
    name: str = ""
    is_answer: bool = False
    paths: Sequence[tuple[str, str | None, str | None]] = ()


class RecordingDiff(Struct, kw_only=True):
    """The difference of two recordings.

    Attributes:
        rows: The steps in order.
        counts: Number of steps of each kind.
        is_cut: A recording is too long, or there are more rows.
        is_approximate: There may be fewer differences.
    """

    rows: list[DiffRow]
    counts: dict[str, int]
    is_cut: bool
    is_approximate: bool


def diff_of(first: RecordingReader, second: RecordingReader) -> RecordingDiff:
    """Compare two recordings by meaning."""
    readers = RunReader(()), RunReader(())
    steps = [run.read(Tracer().trace(each)) for run, each in zip(readers, (first, second), strict=True)]
    comparison = Comparison()
    rows: list[DiffRow] = []
    counts: Counter[str] = Counter()
    for pair in comparison.compare(*steps):
        counts[pair.kind] += 1
        if pair.kind == "same" and rows and rows[-1].kind == "same":
            rows[-1].count += 1
        elif len(rows) < MAX_ROWS:
            rows.append(_row(pair))
    is_cut = any(run.is_cut for run in readers) or len(rows) == MAX_ROWS
    return RecordingDiff(rows=rows, counts=dict(counts), is_cut=is_cut, is_approximate=comparison.is_approximate)


def _row(pair: StepPair) -> DiffRow:
    step = pair.a or pair.b
    assert step is not None, "a pair has a step"
    key = step.key
    return DiffRow(
        kind=pair.kind,
        a=None if pair.a is None else pair.a.number,
        b=None if pair.b is None else pair.b.number,
        dir=key.dir,
        name=shorten(key.update or key.method or key.kind, NAME_CHARS),
        is_answer=key.kind in ("response", "error"),
        paths=_paths(pair),
    )


def _paths(pair: StepPair) -> list[tuple[str, str | None, str | None]]:
    if pair.kind == "same":
        return []
    if pair.a is None or pair.b is None:
        return [("$", _json(pair.a.content if pair.a else ...), _json(pair.b.content if pair.b else ...))]
    found = islice(differences(pair.a.content, pair.b.content), MAX_PATHS)
    return [
        (replace_lone_surrogates(shorten(path, NAME_CHARS)), _json(one), _json(other)) for path, one, other in found
    ]


def _json(value: Any) -> str | None:
    if value is ...:
        return None
    return shorten(msgspec.json.encode(value).decode("utf-8", "replace"), VALUE_CHARS)
