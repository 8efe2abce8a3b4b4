"""`duologue trace export`, as a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import duologue
from tests.trace.recorded_run import whole_run


@pytest.mark.parametrize(
    ("name", "beginning"), [("run.md", "# Conv"), ("run.json", '{"format":1'), ("run.mmd", "sequenceDiagram\n")]
)
def test_the_ending_of_the_file_decides_the_format(tmp_path: Path, name: str, beginning: str) -> None:
    whole_run().save(tmp_path / "run.acp")
    ended = duologue(tmp_path, "trace", "export", "run.acp", "-o", name)
    file = tmp_path / name

    assert (ended.returncode, ended.stderr) == (0, "")
    assert file.read_text().startswith(beginning)
    assert file.stat().st_mode & 0o777 == 0o600


def test_stdout_has_markdown_or_the_chosen_format(tmp_path: Path) -> None:
    whole_run().save(tmp_path / "run.acp")

    assert "## User" in duologue(tmp_path, "trace", "export", "run.acp").stdout
    assert json.loads(duologue(tmp_path, "trace", "export", "run.acp", "--format", "json").stdout)["items"]


def test_the_recording_itself_is_never_overwritten(tmp_path: Path) -> None:
    path = whole_run().save(tmp_path / "run.acp")
    before = path.read_bytes()
    ended = duologue(tmp_path, "trace", "export", "run.acp", "-o", "run.acp")

    assert (ended.returncode, path.read_bytes()) == (2, before)
    assert "is the recording itself" in ended.stderr
