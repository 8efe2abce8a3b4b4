"""The file format: version 2 is written, version 1 is read, a newer one is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from duologue.recording.format import VERSION, Entry
from duologue.recording.reader import MAX_LINE_BYTES, RecordingReader, read_recording
from duologue.recording.recorder import Recorder

FIRST = '{"duologue":"recording","version":1,"started":"2026-11-16T10:00:00.000+00:00"}\n'
LATER = '{"duologue":"recording","version":2,"started":"2026-11-16T10:01:00.000+00:00"}\n'


def test_the_header_says_what_the_file_is_and_which_agent_was_recorded(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.acp", agent=["agent", "--api-key", "canary-1"]) as recorder:
        recorder("to_agent", b'{"id":1,"method":"m"}')
    header = json.loads(recorder.path.read_bytes().splitlines()[0])

    assert (header["duologue"], header["version"], header["agent"]) == ("recording", 2, ["agent", "--api-key", "•••"])
    with RecordingReader(recorder.path) as reader:
        assert reader.header.agent[0] == "agent"


def test_each_line_has_time_direction_and_frame(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.acp") as recorder:
        recorder("out", b'{"id":1,"method":"m"}')
        recorder("in", b'{"id":1,"result":{}}')
        recorder("to_client", b'[{"id":1}]')
        recorder("to_client", b'{"n":1}')
        recorder("to_client", b"Loading ...")
        recorder.add_stderr("warning: TOKEN=canary-2 é".encode())
        recorder.add_exit(-9)
    lines = [json.loads(line) for line in recorder.path.read_bytes().splitlines()[1:]]
    for line in lines:
        assert line.pop("t") >= 0

    assert lines == [
        {"dir": "to_agent", "frame": {"id": 1, "method": "m"}},
        {"dir": "to_client", "frame": {"id": 1, "result": {}}},
        {"dir": "to_client", "frame": [{"id": 1}], "invalid": "not a JSON-RPC message"},
        {"dir": "to_client", "frame": {"n": 1}, "invalid": "not a JSON-RPC message"},
        {"dir": "to_client", "text": "Loading ...", "invalid": "not JSON"},
        {"stderr": "warning: TOKEN=••• é"},
        {"exit_code": -9},
    ]
    entries = list(read_recording(recorder.path))
    assert [entry.dir for entry in entries] == ["to_agent", *["to_client"] * 4, "", ""]
    assert (entries[5].stderr, entries[6].exit_code) == ("warning: TOKEN=••• é", -9)


def test_version_1_is_read_and_can_be_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "run.acp"
    file.write_text(FIRST + '{"t":0.5,"dir":"out","frame":{"a":1}}\n{"gap":2}\n{"t":1,"dir":"in","text":"x"}\n')
    with Recorder(file) as recorder:
        recorder("to_agent", b'{"id":1,"method":"m"}')
    entries = list(read_recording(file))

    assert [entry.dir for entry in entries] == ["to_agent", "", "to_client", "to_agent"]
    assert [entry.gap for entry in entries] == [0, 2, 0, 0]
    assert entries[3].t > 1, "times count from the first header"


def test_times_of_a_part_that_was_appended_count_from_the_first_header(tmp_path: Path) -> None:
    file = tmp_path / "run.acp"
    file.write_text(FIRST + LATER + '{"t":0.25,"dir":"to_agent","frame":{}}\n')

    assert [entry.t for entry in read_recording(file)] == [60.25]


@pytest.mark.parametrize("started", ["", "yesterday", "2026-11-16T09:00:00.000+00:00", "2026-11-16T09:00:00"])
def test_a_time_that_cannot_be_compared_changes_nothing(tmp_path: Path, started: str) -> None:
    file = tmp_path / "run.acp"
    file.write_text(FIRST + f'{{"duologue":"recording","version":2,"started":"{started}"}}\n{{"t":1,"gap":1}}\n')

    assert [entry.t for entry in read_recording(file)] == [1]


@pytest.mark.parametrize("lines", [1, 2])
def test_a_recording_of_a_newer_version_is_refused_in_a_sentence(tmp_path: Path, lines: int) -> None:
    file = tmp_path / "run.acp"
    newer = f'{{"duologue":"recording","version":{VERSION + 1}}}\n'
    file.write_text(newer if lines == 1 else LATER + newer)

    with pytest.raises(ValueError, match=r"run\.acp is a recording of version 3; .* up to 2: update duologue"):
        list(read_recording(file))


def test_damaged_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "run.acp"
    damaged = ["{", "{}", '{"t":"x"}', '{"dir":"sideways"}', "[" * 100_000, "\x00"]
    file.write_text(LATER + "\n".join(damaged) + '\n{"t":1,"gap":3}\n')
    with file.open("ab") as end:
        end.write(b'{"t":1,"text":"\xff"}\n')
    with RecordingReader(file) as reader:
        assert list(reader) == [Entry(t=1.0, gap=3)]
        assert reader.damaged == len(damaged) + 1


def test_a_line_that_no_frame_can_have_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    file = tmp_path / "run.acp"
    file.write_text(LATER)
    with file.open("ab") as end:
        end.truncate(len(LATER) + MAX_LINE_BYTES + 10)  # a hole: zeros that take no space
        end.seek(0, 2)
        end.write(b'\n{"t":1,"gap":3}\n')
    with RecordingReader(file) as reader:
        assert list(reader) == [Entry(t=1.0, gap=3)]
        assert (reader.damaged, reader.position) == (1, file.stat().st_size)


def test_a_growing_recording_is_read_on_from_where_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "run.acp"
    file.write_text(LATER + '{"t":1,"gap":1}\n{"t":2,')
    with RecordingReader(file) as reader:
        first = list(reader)
        with file.open("a") as end:
            end.write('"gap":2}\n')

        assert [first, list(reader)] == [[Entry(t=1.0, gap=1)], [Entry(t=2.0, gap=2)]]
        assert (reader.damaged, reader.position) == (0, file.stat().st_size)


def test_a_frame_is_kept_byte_for_byte_unless_it_has_a_secret(tmp_path: Path) -> None:
    odd = '{ "id":10 , "method":"m","params":{"x":  0.10, "ü":"\\n"}}'.encode()
    with Recorder(tmp_path / "run.acp") as recorder:
        recorder("to_agent", odd)
        recorder("to_agent", b'{"id":2,\n"method":"m"}')
        recorder("to_agent", b'{"id":3,"method":"m","params":{"token":"canary-3"}}')
    plain, pretty, secret = read_recording(recorder.path)

    assert isinstance(plain.frame, msgspec.Raw)
    assert (bytes(plain.frame), plain.redacted) == (odd, False)
    assert isinstance(pretty.frame, msgspec.Raw)
    assert bytes(pretty.frame) == b'{"id":2,"method":"m"}'
    assert secret.redacted


def test_a_reader_returns_to_a_position_in_a_part_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "run.acp"
    later = '{"duologue":"recording","version":2,"started":"2026-01-01T00:00:10+00:00"}\n{"t":1.0,"stderr":"b"}\n'
    path.write_text('{"duologue":"recording","version":1,"started":"2026-01-01T00:00:00+00:00"}\n' + later)

    with RecordingReader(path) as reader:
        first = reader.next_position()
        entries = list(reader)
        end = reader.next_position()
        reader.seek(first)

        assert list(reader) == entries == [Entry(t=11.0, stderr="b")]
        assert reader.next_position() == end


def test_a_reader_opens_its_file_with_the_opener_of_the_caller(tmp_path: Path) -> None:
    path, opened = tmp_path / "run.acp", list[str]()
    path.write_text('{"duologue":"recording","version":2}\n')

    def opener(name: str, flags: int) -> int:
        opened.append(name)
        return os.open(name, flags)

    with RecordingReader(path, opener) as reader:
        assert list(reader) == []
    assert opened == [str(path)]
