"""Notifications are decoded in one pass if possible, and in two otherwise: the results must be the same."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.faults.ends import SIDES, Anything, Side, open_end
from tests.jsonrpc.frames import json_values

WARM = b'{"jsonrpc":"2.0","method":"note","params":{}}'

params = json_values | st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=5) | json_values,
        "count": st.integers() | json_values,
        "rawInput": json_values,
        "sessionId": st.text(max_size=3) | json_values,
        "_meta": st.dictionaries(st.text(max_size=3), json_values, max_size=3) | json_values,
        "zzz": json_values,
    },
)
members: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.just("params"), params),
    st.tuples(st.just("params"), params),
    st.tuples(st.just("method"), st.sampled_from(["note", "echo", "nope"]) | json_values),
    st.tuples(st.just("id"), st.integers(0, 3) | json_values),
    st.tuples(st.just("jsonrpc"), st.just("2.0") | json_values),
    st.tuples(st.sampled_from(["result", "error", "zzz"]), json_values),
)


@st.composite
def notes(draw: st.DrawFn) -> bytes:
    """Something that begins like a plain notification; members may come twice, bytes may be missing or too many."""
    is_ascii = draw(st.booleans())
    pairs = draw(st.lists(members, max_size=4))
    written = "".join(f",{json.dumps(name)}:{json.dumps(value, ensure_ascii=is_ascii)}" for name, value in pairs)
    frame = f'{{"jsonrpc":"2.0","method":"note"{written}}}'.encode()
    at = draw(st.integers(0, len(frame)))
    change = draw(st.sampled_from([b"", b"", b"", b"\\ud800", b"\xff", b"}", b"[" * 300, b" "]))
    return frame[:at] + change + frame[at:]


async def reading_of(side: Side, frame: bytes, *, is_warm: bool) -> tuple[list[tuple[str, Anything]], list[Any]]:
    """Return what the handlers of an end get of this frame, and its responses."""
    async with open_end(side) as end:
        if is_warm:
            await end.responses_to(WARM, WARM)
            end.calls.clear()
        answers = await end.responses_to(frame)
        for answer in answers:
            if answer["id"] is not None:
                end.expect_response(answer["id"])
        return [call for call in end.calls if not call[1].text.startswith("probe")], answers


@pytest.mark.parametrize("side", SIDES)
@given(notes())
@example(b'{"jsonrpc":"2.0","method":"note","params":{"text":"a"},"method":"echo"}')
@example(b'{"jsonrpc":"2.0","method":"note","params":{"text":5},"params":{"text":"b"}}')
@example(b'{"jsonrpc":"2.0","method":"note","params":{"text":"a"},"zzz":"\xff"}')
def test_a_notification_is_handled_the_same_on_both_decoding_paths(side: Side, frame: bytes) -> None:
    assert asyncio.run(reading_of(side, frame, is_warm=True)) == asyncio.run(reading_of(side, frame, is_warm=False))
