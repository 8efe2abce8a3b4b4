"""Streams of bytes that are cut anywhere: each line becomes a frame, and what is missing is counted."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.recording import recorder as recorder_module
from duologue.recording.line_splitter import MAX_LINE_BYTES, LineSplitter
from duologue.recording.reader import read_recording
from duologue.recording.recorder import Recorder


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 60), max_size=10))
def test_lines_are_the_same_wherever_the_stream_is_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"\n".join(lines) + b"\n"
    whole = [line for line in stream.split(b"\n") if line and not line.isspace()]
    splitter, found, start = LineSplitter(), list[bytes](), 0
    for end in [*sorted(cuts), len(stream)]:
        found += splitter.add(stream[start:end])
        start = max(start, min(end, len(stream)))

    assert (found, splitter.rest(), splitter.dropped) == (whole, b"", 0)


def test_a_line_that_is_too_long_is_dropped_and_counted() -> None:
    splitter = LineSplitter()
    part = bytes(MAX_LINE_BYTES // 2 + 1)

    assert splitter.add(b"a\n") == [b"a"]
    assert splitter.add(part) == splitter.add(part) == splitter.add(part) == []
    assert splitter.add(b"rest\nb\nc") == [b"b"]
    assert (splitter.dropped, splitter.rest()) == (1, b"c")


@pytest.mark.parametrize(("missing", "found", "dropped"), [(b"x\n", [b"b"], 0), (b"x", [], 1)])
def test_a_line_of_which_a_part_is_missing_is_dropped(missing: bytes, found: list[bytes], dropped: int) -> None:
    splitter = LineSplitter()
    splitter.add(b"a1 ")
    splitter.miss(is_at_line_end=missing.endswith(b"\n"))

    assert (splitter.add(b"b\n"), splitter.dropped) == (found, dropped)


def test_a_stream_is_recorded_line_by_line_with_the_last_one_that_has_no_end(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.acp") as recorder:
        for part in (b'{"id":1,"met', b'hod":"a"}\n\n{"id":2,"method":"b"}\n', b'{"id":3'):
            recorder.add_bytes("to_agent", part)
        recorder.add_bytes("to_client", b'{"id":1,"result":1}\n')
    entries = list(read_recording(recorder.path))

    assert [bytes(each.frame) for each in entries if isinstance(each.frame, msgspec.Raw)] == [
        b'{"id":1,"method":"a"}',
        b'{"id":2,"method":"b"}',
        b'{"id":1,"result":1}',
    ]
    assert [(each.dir, each.text, each.invalid) for each in entries if each.text] == [
        ("to_agent", '{"id":3', "not JSON")
    ]


def test_frames_that_a_slow_disk_cannot_take_become_a_gap_between_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that is not read is the slowest disk there is; the parts are cut in the middle of lines."""
    monkeypatch.setattr(recorder_module, "MAX_WAITING_BYTES", 20_000)
    file = tmp_path / "slow.acp"
    os.mkfifo(file)
    disk = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    frames = [json.dumps({"method": "m", "params": {"n": n, "pad": "x" * 500}}).encode() for n in range(2000)]
    stream = b"\n".join(frames) + b"\n"
    read: list[bytes] = []
    with Recorder(file) as recorder:
        for start in range(0, len(stream), 777):
            recorder.add_bytes("to_client", stream[start : start + 777])
            recorder("to_agent", b'{"id":1,"method":"m"}')
        os.set_blocking(disk, True)
        reader = threading.Thread(target=lambda: read.append(_read_all(disk)))
        reader.start()
    reader.join()
    (tmp_path / "read.acp").write_bytes(read[0])
    entries = list(read_recording(tmp_path / "read.acp"))

    numbers = [
        json.loads(bytes(each.frame))["params"]["n"]
        for each in entries
        if each.dir == "to_client" and isinstance(each.frame, msgspec.Raw)
    ]
    assert numbers == sorted(set(numbers)), "none is repeated or out of order"
    assert recorder.lost == sum(each.gap for each in entries) > 1000
    assert [each for each in entries if each.invalid] == [], "no line is a part of one"
    sent = len(frames) + len(range(0, len(stream), 777))
    assert len([each for each in entries if each.dir]) + recorder.lost == sent


def _read_all(disk: int) -> bytes:
    with open(disk, "rb") as file:
        return file.read()
