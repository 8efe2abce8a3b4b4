"""Lines of frames: what is written as it is has no secret, whatever frames came before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.recording.frame_lines import MAX_SURROUNDINGS, FrameLines
from duologue.recording.redaction import FOLDED_TO_ASCII, MASK, Redactor

PIECES = [
    "plain words ", "é ", "\n", '"', "\\", "tok", "en: canary-x", "sk-", "abcdefghijkl", "Bearer ", "env", "ſecret=abc",
    "K", '","env":{"A":"canary"},"b":"', "://u:", "pw@host", "api_", "key=", "canary", "\u212aey=canary", "{", "}",
    "code", "=canary", "hf_" + "a" * 24, "eyJ" + "a" * 10 + ".eyJ" + "a" * 10 + ".x",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
NAMES = st.sampled_from(["text", "sessionId", "env", "headers", "token", "title", "data", "messageId"])


def _update(text: str, rest: dict[str, str], is_ascii: bool) -> bytes:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **rest}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
    return json.dumps(message, ensure_ascii=is_ascii, separators=(",", ":")).encode()


@given(st.lists(st.tuples(TEXTS, st.dictionaries(NAMES, TEXTS, max_size=2), st.booleans()), max_size=8))
def test_a_line_has_what_redaction_leaves_of_its_frame(updates: list[tuple[str, dict[str, str], bool]]) -> None:
    redactor = Redactor()
    lines = FrameLines("to_client", redactor)
    lines.line(0, _update("a text without a secret", {}, True))
    for text, rest, is_ascii in updates:
        frame = _update(text, rest, is_ascii)
        written = json.loads(lines.line(1.5, frame))

        assert written["frame"] == redactor.redact(json.loads(frame))
        assert written["t"] == 1.5
        assert written.get("redacted", False) == (written["frame"] != json.loads(frame))


def test_members_hidden_between_known_surroundings_are_redacted() -> None:
    """The text is closed early, secrets follow, and the end is that of the frames before."""
    lines = FrameLines("to_client", Redactor())
    lines.line(0, _update("first", {}, True))
    frame = _update("first", {}, True).replace(b"first", b'a"},"env":{"A":"canary-1"},"content":{"text":"b')

    assert b"canary-1" not in lines.line(1, frame)


def test_surroundings_are_remembered_for_a_bounded_number_of_sessions() -> None:
    lines = FrameLines("to_client", Redactor())
    for number in range(MAX_SURROUNDINGS * 2 + 1):
        lines.line(0, _update("x", {}, True).replace(b'"s"', b'"%d"' % number))

    assert len(lines._surroundings) <= MAX_SURROUNDINGS


def test_patterns_of_the_user_are_masked_in_names_and_texts() -> None:
    lines = FrameLines("to_agent", Redactor([r"^emp-\d+$", "(?i)project x"]))
    frame = {"method": "m", "params": {"emp-17": "emp-18", "text": "about PROJECT X, emp-19"}}
    written = json.loads(lines.line(0, json.dumps(frame).encode()))

    assert written["frame"]["params"] == {MASK: MASK, "text": f"about {MASK}, emp-19"}


@pytest.mark.parametrize(("pattern", "why"), [("(", "is not a regular expression"), ("x*", "matches an empty text")])
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Redactor([pattern])


@pytest.mark.parametrize("frame", [b"\xff", b"{", b"[" * 100_000, b'{"a":"\xff"}'])
def test_a_frame_that_is_not_json_becomes_text_on_one_line(frame: bytes) -> None:
    written: dict[str, Any] = json.loads(FrameLines("to_agent", Redactor()).line(0, frame))

    assert written["invalid"] == "not JSON"
    assert isinstance(written["text"], str)


def test_every_character_that_loses_its_case_as_ascii_is_known() -> None:
    folded = [chr(code) for code in range(0x80, 0x110000) if any(each.isascii() for each in chr(code).casefold())]

    assert folded == list(FOLDED_TO_ASCII)


@pytest.mark.parametrize("text", ["to\u212aen=abc", "acce\u017fs_key: x", "naïve to\u212aen=abc"])
def test_a_secret_named_with_characters_beyond_ascii_is_removed(text: str) -> None:
    line = FrameLines("to_agent", Redactor()).line(0.0, json.dumps({"id": 1, "x": text}, ensure_ascii=False).encode())

    assert b'"redacted":true' in line
