"""Frames to feed: messages as a peer might write them, and the same with a few bytes changed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["broken_frames", "envelopes", "frames", "json_values"]

text = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
ids = st.integers(-3, 12) | st.sampled_from(["", "1", "a"]) | json_values
methods = st.sampled_from(["initialize", "ping", "$/cancel_request", "_x/y", ""]) | text | json_values

envelopes: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | st.just("2.0") | json_values,
        "id": ids,
        "method": methods,
        "params": json_values | st.fixed_dictionaries({"requestId": ids}),
        "result": json_values,
        "error": json_values | st.fixed_dictionaries({"code": json_values, "message": json_values}),
    },
)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Draw a JSON text: an envelope with members of any kind, plain or with escapes, also lone surrogates."""
    written = json.dumps(draw(envelopes), ensure_ascii=draw(st.booleans())).encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(written)))
        escape = draw(st.sampled_from([b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\\\ud800", b"\\u0000", b"\\x"]))
        written = written[:at] + escape + written[at:]
    return written


@st.composite
def broken_frames(draw: st.DrawFn) -> bytes:
    """Draw a frame with a slice cut out or replaced by other bytes."""
    whole = draw(frames())
    start = draw(st.integers(0, len(whole)))
    end = draw(st.integers(start, min(len(whole), start + 4)))
    return whole[:start] + draw(st.binary(max_size=4)) + whole[end:]
