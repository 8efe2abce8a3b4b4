"""The rules against messages of any shape: a value of another type is a finding or nothing, never an exception."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duologue.recording.format import Entry
from duologue.trace.frames import Tracer
from duologue.trace.validation import Validator
from tests.trace.rule_cases.table import CASES
from tests.trace.test_rules import FILES

ODD: tuple[Any, ...] = (
    None,
    5,
    -1,
    "x",
    "",
    [],
    {},
    [5],
    [[]],
    [{}],
    {"a": [5]},
    True,
    1e308,
    10**400,
    "\ud800",
    [None],
)
"""Values of every type, among them what cannot be a key of a dictionary and what does not fit into a float."""


def changed(value: Any, odd: Any) -> Iterator[Any]:
    """Yield the value with each part of it in turn replaced."""
    yield odd
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        children = list(value.items() if isinstance(value, dict) else enumerate(value))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType]
    for key, child in children:
        for each in changed(child, odd):
            copy: Any = value.copy()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            copy[key] = each
            yield copy


@pytest.mark.parametrize(("number", "word"), CASES)
def test_any_value_may_be_anything(number: int, word: str) -> None:
    assert len(FILES) > 0
    odd = itertools.cycle(ODD)
    entries = CASES[number, word](True).entries
    for index, entry in enumerate(entries):
        if isinstance(entry.frame, Raw):
            for frame in changed(json.loads(bytes(entry.frame)), "odd value"):
                encoded = json.dumps(frame).replace('"odd value"', json.dumps(next(odd)))
                check([*entries[:index], replace(entry, frame=Raw(encoded.encode())), *entries[index + 1 :]])


def check(entries: list[Entry]) -> None:
    validator = Validator()
    for frame in Tracer().trace(entries):
        list(validator.check(frame))
    list(validator.finish())
