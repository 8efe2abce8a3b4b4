"""`duologue trace import`, as a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import duologue
from tests.trace.test_importers import GOLDEN, LOGS, REAL

SECRET = "sk-canary-0123456789"


@pytest.mark.parametrize("name", [*REAL, *GOLDEN])
def test_a_log_becomes_a_recording_that_trace_reads(tmp_path: Path, name: str) -> None:
    ended = duologue(tmp_path, "trace", "import", str(LOGS / name))
    path = Path(ended.stdout.strip())

    assert (ended.returncode, path.parent) == (0, tmp_path / "data" / "duologue" / "recordings")
    assert ended.stderr.endswith("messages imported, 0 left out\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "initialize" in duologue(tmp_path, "trace", path.name).stdout


def test_secrets_of_a_log_are_not_imported(tmp_path: Path) -> None:
    params = {"text": f"key {SECRET} of emp-17", "env": {"A": "canary"}, "odd": "canary-of-mine"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    note = {"_direction": "stderr", "_type": "stderr", "method": "stderr", "params": f"TOKEN={SECRET}"}
    sent = {"_direction": "outgoing", "_type": "request", **message}
    (tmp_path / "zed.json").write_text(json.dumps([note, sent]))
    ended = duologue(
        tmp_path, "trace", "import", "zed.json", "-o", "run.acp", "--redact", r"emp-\d+",
        MY_TOKEN="canary-of-mine",
    )  # fmt: skip
    text = (tmp_path / "run.acp").read_text()

    assert (ended.returncode, ended.stdout) == (0, "run.acp\n")
    assert "canary" not in text
    assert "emp-17" not in text
    assert '"redacted":true' in text


def test_lines_that_are_left_out_are_named_and_are_an_exit_code(tmp_path: Path) -> None:
    line = '{"jsonrpc":"2.0","id":1,"method":"initialize"}'
    (tmp_path / "x.ndjson").write_text(f"{line}\nnoise \x1b[31m\n" + "bad\n" * 20)
    ended = duologue(tmp_path, "trace", "import", "x.ndjson", "-o", "run.acp")

    assert (ended.returncode, ended.stdout) == (1, "run.acp\n")
    assert ended.stderr.startswith("duologue: x.ndjson, line 2: not a message of JSON-RPC: ")
    assert ended.stderr.endswith("\n1 messages imported, 21 left out\n")
    assert ended.stderr.count("\n") == 11
    again = duologue(tmp_path, "trace", "import", "x.ndjson", "-o", "run.acp")
    assert (again.returncode, again.stderr) == (2, "duologue: -o run.acp: the file exists already\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["missing"], "missing: No such file or directory"),
        (["notes.md"], "notes.md: the format is not one of zed, acp-devtools, conductor, python-sdk, acpx"),
        (["notes.md", "--from", "zed"], "notes.md: there is no message in this log of zed"),
        (["notes.md", "--from", "acpx"], "notes.md: line 1: not a message of JSON-RPC"),
        (["notes.md", "--redact", "("], "'(' is not a regular expression"),
        (["notes.md", "--from", "jetbrains"], "invalid choice: 'jetbrains'"),
    ],
)
def test_a_file_that_cannot_be_imported_makes_no_recording(tmp_path: Path, arguments: list[str], why: str) -> None:
    (tmp_path / "notes.md").write_text("mine\n")
    ended = duologue(tmp_path, "trace", "import", *arguments, "-o", "run.acp")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert why in ended.stderr
    assert not (tmp_path / "run.acp").exists()
