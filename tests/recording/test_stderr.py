"""Stderr of an agent in a recording, wherever it is cut on its way to the recorder."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.recording import stderr_text
from duologue.recording.reader import read_recording
from duologue.recording.recorder import Recorder

KEY = "-----BEGIN RSA PRIVATE KEY-----\ncanary1\ncanary2\n-----END RSA PRIVATE KEY-----\n"
TEXT = f"starting\nTOKEN=canary3\n{KEY}ready and TOKEN=canary4"


@pytest.mark.fault("LOG-03")
@pytest.mark.parametrize("size", [1, 7, 16, 1000])
@pytest.mark.parametrize("has_exit", [True, False])
def test_a_secret_is_removed_wherever_stderr_is_cut(tmp_path: Path, size: int, has_exit: bool) -> None:
    path = tmp_path / "run.acp"
    with Recorder(path) as recorder:
        for start in range(0, len(TEXT), size):
            recorder.add_stderr(TEXT[start : start + size].encode())
        if has_exit:
            recorder.add_exit(0)
    entries = list(read_recording(path))

    assert "canary" not in path.read_text()
    written = "".join(entry.stderr or "" for entry in entries)
    assert written.startswith("starting\nTOKEN=•••\n-----BEGIN RSA PRIVATE KEY-----•••")
    assert written.endswith("\nready and TOKEN=•••")
    assert (entries[-1].exit_code == 0) == has_exit


def test_a_line_without_an_end_is_recorded_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr_text, "MAX_WAITING_BYTES", 10)
    with Recorder(tmp_path / "run.acp") as recorder:
        recorder.add_stderr(b"0123456")
        recorder.add_stderr(b"789abc")
        recorder.add_stderr(b"d")

    assert [entry.stderr for entry in read_recording(tmp_path / "run.acp")] == ["0123456789abc", "d"]
