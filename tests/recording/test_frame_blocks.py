"""Frames that arrived together: they are written exactly as one by one, however the stream was cut."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.recording.frame_lines import FrameLines
from duologue.recording.line_splitter import LineSplitter, split_lines
from duologue.recording.marker_search import SHORT, MarkerSearch
from duologue.recording.reader import read_recording
from duologue.recording.recorder import MIN_BLOCK_BYTES, Recorder
from duologue.recording.redaction import Redactor

PIECES = [
    "plain words ", "é ", "straße ", "\n", '"', "\\", "tok", "en: canary-x", "sk-", "abcdefghijkl", "Bearer ", "env",
    "K", '","env":{"A":"canary"},"b":"', "://u:", "pw@host", "api_", "key=", "canary", "\u212aey=canary", "{", "}",
    "authorization", "/", "of the environment", "hf_" + "a" * 24, "ASIA" + "B" * 16,
    "eyJ" + "a" * 10 + ".eyJ" + "a" * 10 + ".x",
    "no sign in this text, which is long enough to be searched in more than one pass; " * 8,
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
VALUES = ("of the environment", "canary")
ODD = [b" ", b"\r", b"{}", b'{"id":1}', b'{"id":1,"result":{"token":"canary"}}', b"[1]", b"\xff", b"{", b'{"text":"a']
REDACTORS = [Redactor(), Redactor(values=VALUES), Redactor(["plain w.rds", "ab+c"])]


def _update(text: str, session: str = "s", *, is_ascii: bool = True) -> bytes:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, "messageId": "m"}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}
    return json.dumps(message, ensure_ascii=is_ascii, separators=(",", ":")).encode()


@st.composite
def _frames(draw: st.DrawFn) -> bytes:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from(ODD))
    if kind == 1:  # a text that is not written as a string, between what surrounds others
        raw = draw(st.sampled_from([rb'a","b', b"c\\", rb"\q", b"\x01", b"\xff", b"\xed\xa0\x80", rb'"', b""]))
        return _update("TEXT").replace(b"TEXT", raw)
    return _update(draw(TEXTS), draw(st.sampled_from("ssst")), is_ascii=draw(st.booleans()))


def _one_by_one(redactor: Redactor, frames: list[bytes]) -> bytes:
    lines = FrameLines("to_client", redactor)
    return b"".join(lines.line(1.5, frame) for frame in [_update("first"), *frames])


@given(st.lists(_frames(), min_size=1, max_size=12), st.sampled_from(REDACTORS))
def test_frames_are_written_together_as_one_by_one(frames: list[bytes], redactor: Redactor) -> None:
    data = b"".join(frame + b"\n" for frame in frames)
    lines = FrameLines("to_client", redactor)
    first = lines.line(1.5, _update("first"))
    block = lines.block(1.5, data)

    assert first + block == _one_by_one(redactor, split_lines(data))
    for line, frame in zip(block.splitlines(), split_lines(data), strict=True):
        written = json.loads(line)
        assert written.get("frame", written.get("text")) is not None
        assert "frame" not in written or written["frame"] == redactor.redact(json.loads(frame.decode()))


def test_a_text_that_ends_with_half_an_escape_is_not_completed_by_the_next_text() -> None:
    frames = [_update("first"), _update("TEXT").replace(b"TEXT", b"half\\"), _update("last")]
    lines = FrameLines("to_client", Redactor())
    first = lines.line(1.5, frames[0])
    block = lines.block(1.5, b"".join(frame + b"\n" for frame in frames))

    assert first + block == _one_by_one(Redactor(), frames)
    assert ["invalid" in json.loads(line) for line in block.splitlines()] == [False, True, False]


@given(st.lists(TEXTS, min_size=2, max_size=12), st.sampled_from(REDACTORS))
def test_frames_that_differ_in_their_text_only_are_written_together_as_one_by_one(
    texts: list[str], redactor: Redactor
) -> None:
    frames = [_update(text) for text in texts]
    lines = FrameLines("to_client", redactor)
    first = lines.line(1.5, _update("first"))
    block = lines.block(1.5, b"".join(frame + b"\n" for frame in frames))

    assert first + block == _one_by_one(redactor, frames)
    assert [json.loads(line)["frame"] for line in block.splitlines()] == [
        redactor.redact(json.loads(frame)) for frame in frames
    ]


@given(st.lists(st.tuples(st.floats(0, 9), _frames()), min_size=1, max_size=9), st.sampled_from(REDACTORS))
def test_frames_with_times_of_their_own_keep_them(timed: list[tuple[float, bytes]], redactor: Redactor) -> None:
    times, frames = sorted(at for at, _ in timed), [frame for _, frame in timed]
    together, alone = FrameLines("to_agent", redactor), FrameLines("to_agent", redactor)

    assert together.lines(times, frames) == b"".join(map(alone.line, times, frames))


@given(st.lists(_frames(), max_size=12), st.lists(st.integers(0, 4000), max_size=10))
def test_secrets_are_removed_wherever_a_stream_is_cut(frames: list[bytes], cuts: list[int]) -> None:
    frames = [_update("first"), *(_update(f"--token canary-{number} and more") for number in range(9)), *frames]
    stream = b"".join(frame + b"\n" for frame in frames)
    splitter, lines, written, start = LineSplitter(), FrameLines("to_client", Redactor(values=["canary"])), b"", 0
    for end in [*sorted(cuts), len(stream)]:
        if whole := splitter.add_unsplit(stream[start:end]):
            written += lines.block(1.5, whole)
        start = max(start, min(end, len(stream)))

    assert b"canary" not in written
    assert len(split_lines(stream)) == written.count(b"\n")


@pytest.mark.fault("LOG-03")
@pytest.mark.parametrize("size", [64, 999, MIN_BLOCK_BYTES, 20_011, 65_536])
def test_a_recording_of_a_stream_in_parts_of_any_size_has_no_secret_and_every_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setenv("PLANTED_TOKEN", "value-of-the-environment")
    secrets = ["Bearer canary-1", "api_key=canary-2", "value-of-the-environment", "https://me:canary-3@host", "own-77"]
    texts = [f"text {n} " + (secrets[n // 13 % 5] if n % 13 == 0 else "without one") for n in range(900)]
    stream = b"".join(_update(text) + b"\n" for text in texts)
    with Recorder(tmp_path / "run.acp", patterns=[r"own-\d+"] if size == 999 else []) as recorder:
        for start in range(0, len(stream), size):
            recorder.add_bytes("to_client", stream[start : start + size])
    written = (tmp_path / "run.acp").read_bytes()
    shown = [each.frame for each in read_recording(recorder.path) if isinstance(each.frame, msgspec.Raw)]

    assert b"canary" not in written
    assert b"value-of-the-environment" not in written
    assert (b"own-77" in written) == (size != 999)
    assert [bytes(frame).count(b"text %d " % number) for number, frame in enumerate(shown)] == [1] * len(texts)


MARKERS = ["token", "key", "_x_", "ab_", "xox", "://", "tt", "\xc3\x9f"]
PARTS = st.sampled_from([*MARKERS, "tok", "en", "k", "_", "x", "a", "\xc3", " ", "\n", "." * SHORT])


@given(st.lists(PARTS, max_size=20).map("".join), st.sampled_from(["", "_/kx", "xt\x9f"]))
def test_a_search_finds_the_lines_with_a_marker_in_short_and_long_data(text: str, rare: str) -> None:
    search = MarkerSearch(MARKERS, rare)
    expected = {n for n, line in enumerate(text.split("\n")) if any(marker in line for marker in MARKERS)}

    assert search.lines_in(text.encode("latin-1")) == expected
    assert search.is_in(text.encode("latin-1")) == bool(expected)
