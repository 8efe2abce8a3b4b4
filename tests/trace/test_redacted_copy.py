"""Recordings that are written again: no secret stays, and everything else does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import Raw

from duologue.recording.reader import RecordingReader, read_recording
from duologue.recording.redaction import Redactor
from duologue.trace.redacted_copy import RedactionResult, redact_file, redact_to
from tests.trace.recorded_run import HEADER, RecordedRun, whole_run

SECRET = "sk-abcdefghijklmnop"


def leaky_run() -> RecordedRun:
    run = RecordedRun().opened().prompt(f"use {SECRET} please").text("fine", "emp-1234 knows")
    run.other(dir="to_client", text=f"token={SECRET}").other(stderr=f"using {SECRET}\n").other(exit_code=0)
    return run.request("to_agent", "authenticate", {"methodId": "key", "key": SECRET}, {})


def test_secrets_are_removed_wherever_they_are(tmp_path: Path) -> None:
    source, target = leaky_run().save(tmp_path / "run.acp"), tmp_path / "new.acp"
    result = redact_to(source, target, Redactor([r"emp-\d+"]))
    text = target.read_text()

    assert (SECRET in text, "emp-1234" in text) == (False, False)
    assert result == RedactionResult(entries=len(leaky_run().entries), changed=5, damaged=0)
    assert target.stat().st_mode & 0o777 == 0o600
    assert [entry.t for entry in read_recording(target)] == [entry.t for entry in read_recording(source)]
    assert sum(entry.redacted for entry in read_recording(target)) == 5


def test_a_recording_without_secrets_stays_as_it_is(tmp_path: Path) -> None:
    source, target = whole_run().save(tmp_path / "run.acp"), tmp_path / "new.acp"

    assert redact_to(source, target, Redactor()).changed == 0
    assert target.read_bytes() == source.read_bytes()


def test_parts_that_were_appended_stay_parts_with_their_times(tmp_path: Path) -> None:
    source, target = RecordedRun().opened().save(tmp_path / "run.acp"), tmp_path / "new.acp"
    lines = source.read_bytes().partition(b"\n")[2]
    later = HEADER.replace("12:00", "12:01").replace('"}', f'","agent":["x","--token","{SECRET}"]}}')
    source.write_bytes(source.read_bytes() + later.encode() + lines)
    redact_to(source, target, Redactor())

    assert SECRET not in target.read_text()
    assert [entry.t for entry in read_recording(target)] == [0.0, 0.1, 0.2, 0.3, 60.0, 60.1, 60.2, 60.3]
    with RecordingReader(target) as reader:
        parts = {id(reader.part) for _ in reader}
    assert len(parts) == 2


def test_a_recording_of_version_1_becomes_one_of_version_2(tmp_path: Path) -> None:
    source, target = tmp_path / "old.acp", tmp_path / "new.acp"
    source.write_text(
        '{"duologue":"recording","version":1}\n{"t":1.0,"dir":"out","frame":{"id":1,"method":"m"}}\nbroken\n'
    )

    assert redact_to(source, target, Redactor()).damaged == 1
    assert target.read_text().splitlines()[0] == '{"duologue":"recording","version":2}'
    assert [entry.dir for entry in read_recording(target)] == ["to_agent"]


def test_a_recording_is_replaced_only_as_a_whole(tmp_path: Path) -> None:
    path = leaky_run().save(tmp_path / "run.acp")
    link = tmp_path / "link.acp"
    link.symlink_to(path)
    redact_file(link, Redactor())

    assert SECRET not in path.read_text()
    assert link.is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.acp", "run.acp"]


def test_a_recording_that_is_being_written_is_not_replaced(tmp_path: Path) -> None:
    path = leaky_run().save(tmp_path / "run.acp")
    with path.open("ab") as file:
        file.write(b'{"t":99,"dir":"to_agent","fra')
    with pytest.raises(ValueError, match="still being written"):
        redact_file(path, Redactor())

    assert path.read_bytes().endswith(b'"fra')
    assert list(tmp_path.iterdir()) == [path]


def test_a_target_that_exists_is_not_overwritten_and_a_failure_leaves_none(tmp_path: Path) -> None:
    source, target = leaky_run().save(tmp_path / "run.acp"), tmp_path / "new.acp"
    target.write_text("mine")
    with pytest.raises(FileExistsError):
        redact_to(source, target, Redactor())
    assert target.read_text() == "mine"

    class Broken(Redactor):
        def may_have_secret(self, json: bytes) -> bool:
            raise OSError("no")

    os.unlink(target)
    with pytest.raises(OSError, match="no"):
        redact_to(source, target, Broken())
    assert not target.exists()


def test_frames_that_cannot_be_decoded_lose_their_texts(tmp_path: Path) -> None:
    run = RecordedRun().raw(
        "to_client", b'{"token":' + b"[" * 5000 + b'"' + SECRET.encode() + b'"' + b"]" * 5000 + b"}"
    )
    target = tmp_path / "new.acp"
    redact_to(run.save(tmp_path / "run.acp"), target, Redactor())
    entries = list(read_recording(target))

    assert SECRET not in target.read_text()
    assert all(not isinstance(entry.frame, Raw) for entry in entries)
