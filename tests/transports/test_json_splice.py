"""A word is put into a message and taken out again, and no other byte changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.transports.json_splice import add_meta, take_meta

KEY = "duologue/resume"
WORD = b'{"version":1}'

FRAMES = [
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}',
    b'{"params":{}}',
    b' { "params" : { "a" : [ 1 , { "_meta" : { } } ] } , "id" : 0 } ',
    b'{"params":{"big":123456789012345678901234567890.10,"big":2,"_meta":{"x":1,"x":2}}}',
    b'{"params":{"text":"\\"_meta\\":{} \\\\","_meta":{"traceparent":"00-\\u0041"}},"id":"}"}',
    '{"params":{"name":"höhe 🎈","_meta":{ "ü" : null }}}'.encode(),
    b'{"params":{"\\ud800":1,"_meta":{"\\udc00":[]}}}',
]


@pytest.mark.parametrize("frame", FRAMES)
def test_spliced_meta_can_be_taken_out_and_leaves_the_frame_unchanged(frame: bytes) -> None:
    spliced = add_meta(frame, "params", KEY, WORD)

    assert spliced is not None
    assert take_meta(spliced, "params", KEY) == (frame, WORD)


def test_the_word_stands_where_readers_look_for_it() -> None:
    spliced = add_meta(FRAMES[0], "params", KEY, WORD)

    assert spliced is not None
    assert json.loads(spliced)["params"] == {"protocolVersion": 1, "_meta": {KEY: {"version": 1}}}


@pytest.mark.parametrize("frame", [b'{"params":[1]}', b'{"params":null}', b"{}", b'{"result":{}}', b"[]", b"7"])
def test_a_message_without_that_part_takes_no_word(frame: bytes) -> None:
    assert add_meta(frame, "params", KEY, WORD) is None
    assert take_meta(frame, "params", KEY) == (frame, None)


@pytest.mark.parametrize("meta", [b"null", b"{}", b"[]", b'"text"'])
def test_a_meta_that_is_nothing_is_replaced_and_then_gone(meta: bytes) -> None:
    spliced = add_meta(b'{"result":{"a":1,"_meta":' + meta + b',"b":2}}', "result", KEY, WORD)

    assert spliced is not None
    assert take_meta(spliced, "result", KEY) == (b'{"result":{"a":1,"b":2}}', WORD)


@pytest.mark.parametrize(
    ("frame", "rest"),
    [
        (b'{"result":{"_meta":{"duologue/resume":1,"b":2}}}', b'{"result":{"_meta":{"b":2}}}'),
        (b'{"result":{"_meta":{"a":1 , "duologue/resume":1 , "b":2}}}', b'{"result":{"_meta":{"a":1  , "b":2}}}'),
        (b'{"result":{"_meta":{"duologue\\/resume":1},"z":0}}', b'{"result":{"z":0}}'),
    ],
)
def test_a_word_is_taken_from_anywhere_among_others(frame: bytes, rest: bytes) -> None:
    assert take_meta(frame, "result", KEY) == (rest, b"1")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(params=st.dictionaries(st.text(), json_values, max_size=5), meta=st.dictionaries(st.text(), json_values))
def test_whatever_is_in_a_message_stays(params: dict[str, object], meta: dict[str, object]) -> None:
    params["_meta"] = {**meta, "last": 1}
    frame = json.dumps({"id": 1, "params": params, "method": "initialize"}).encode()
    spliced = add_meta(frame, "params", KEY, WORD)

    assert spliced is not None
    assert json.loads(spliced)["params"]["_meta"][KEY] == {"version": 1}
    assert take_meta(spliced, "params", KEY) == (frame, WORD)
