"""`duologue trace`, as a program."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from duologue.recording.recorder import Recorder
from tests.cli.program import PROGRAM, SECONDS, duologue, environment


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    with Recorder(tmp_path / "run.acp") as recorder:
        recorder("to_agent", b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":5,"mcpServers":[]}}')
        recorder("to_client", b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"bad \\u001b[31m cwd"}}')
        recorder("to_client", b"Loading ...")
        recorder.add_exit(1)
    return tmp_path / "run.acp"


def test_every_message_is_a_line_with_its_content_and_problems(tmp_path: Path, recording: Path) -> None:
    ended = duologue(tmp_path, "trace", str(recording))

    assert ended.returncode == 0
    lines = [line[10:] if line[:10].strip() else line for line in ended.stdout.splitlines()]
    assert lines[0].startswith(" --> request      session/new #1 ")
    assert lines[1].strip() == '{"cwd":5,"mcpServers":[]}'
    assert lines[2].strip().startswith("problem at $.params.cwd: ")
    assert " <-- error        session/new #1 " in lines[3]
    assert "invalid" in lines[5]
    assert "the agent ended with exit code 1" in ended.stdout
    assert "\x1b" not in ended.stdout


def test_lines_of_json_have_the_frame_and_a_version(tmp_path: Path, recording: Path) -> None:
    ended = duologue(tmp_path, "trace", "run.acp", "--json", "--kind", "error", "--to", "client")
    (line,) = map(json.loads, ended.stdout.splitlines())

    assert (line["format"], line["number"], line["kind"], line["method"]) == (1, 2, "error", "session/new")
    assert line["frame"]["error"]["code"] == -32602


def test_a_check_exits_with_1_if_a_message_does_not_match(tmp_path: Path, recording: Path) -> None:
    wrong = duologue(tmp_path, "trace", "run.acp", "--check")
    right = duologue(tmp_path, "trace", "run.acp", "--check", "--kind", "error")

    assert (wrong.returncode, right.returncode) == (1, 0)
    assert "$.params.cwd" in wrong.stdout


def test_figures_are_a_table_or_json(tmp_path: Path, recording: Path) -> None:
    table = duologue(tmp_path, "trace", "run.acp", "--stats")
    figures = json.loads(duologue(tmp_path, "trace", "run.acp", "--stats", "--json").stdout)

    assert "session/new" in table.stdout
    assert (figures["format"], figures["methods"][0]["errors"]) == (1, 1)


@pytest.mark.parametrize(("name", "why"), [("missing.acp", "No such file"), ("notes.md", "is not a recording")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "notes.md").write_text("mine")
    ended = duologue(tmp_path, "trace", name)

    assert ended.returncode == 2
    assert why in ended.stderr
    assert name in ended.stderr


def test_a_growing_recording_is_followed_until_ctrl_c(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.acp") as recorder:
        recorder("to_agent", b'{"id":1,"method":"_first"}')
        with subprocess.Popen(
            [*PROGRAM, "trace", "run.acp", "--follow", "--json"],
            stdout=subprocess.PIPE, cwd=tmp_path, env=environment(tmp_path),
        ) as program:  # fmt: skip
            assert program.stdout is not None
            assert json.loads(program.stdout.readline())["method"] == "_first"
            recorder("to_agent", b'{"id":2,"method":"_second"}')
            assert json.loads(program.stdout.readline())["method"] == "_second"
            program.send_signal(signal.SIGINT)
            assert program.wait(SECONDS) == 0
