"""`duologue trace`, as a program."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import cast

import pytest
from msgspec import Raw

from duologue.recording.recorder import Recorder
from tests.cli.program import PROGRAM, SECONDS, duologue, environment
from tests.trace.recorded_run import RecordedRun, whole_run


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


def test_members_that_the_schema_does_not_know_are_marked(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.acp") as recorder:
        recorder("to_agent", b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"limit\\u001b":5}}')
        recorder("to_agent", b'{"jsonrpc":"2.0","id":2,"method":"session/list","params":{"limit":5}}')
    shown = duologue(tmp_path, "trace", "run.acp", "--check", "--text", "5")
    lines = duologue(tmp_path, "trace", "run.acp", "--json").stdout.splitlines()

    assert (shown.returncode, shown.stdout) == (0, "")
    assert "unknown field at $.params.limit\n" in duologue(tmp_path, "trace", "run.acp").stdout
    assert json.loads(lines[1])["unknown"] == ["$.params.limit"]


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


def test_a_conversation_is_shown_with_times(tmp_path: Path) -> None:
    whole_run().save(tmp_path / "run.acp")
    ended = duologue(tmp_path, "trace", "run.acp", "--conversation")

    assert ended.returncode == 0
    assert "     0.400  user\n            Fix the test\n" in ended.stdout
    assert "● read: Read a.py  500 ms\n              import b\n" in ended.stdout
    assert "+import c" in ended.stdout
    assert "! Allow once  answered after 100 ms\n" in ended.stdout
    assert "turn ended: end_turn  1.6 s\n" in ended.stdout


def test_a_conversation_is_selected_and_printed_as_json(tmp_path: Path) -> None:
    whole_run().save(tmp_path / "run.acp")
    ended = duologue(
        tmp_path, "trace", "run.acp", "--conversation", "--json", "--session", "s", "--text", "FIX", "--until", "1"
    )
    wrong = duologue(tmp_path, "trace", "run.acp", "--conversation", "--stats")

    assert [json.loads(line) for line in ended.stdout.splitlines()] == [
        {"format": 1, "number": 5, "t": 0.4, "kind": "prompt", "session": "s1", "text": "Fix the test"}
    ]
    assert (wrong.returncode, "--stats selects messages" in wrong.stderr) == (2, True)


def test_a_hostile_conversation_cannot_control_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\u202egnp.exe\r\x9b31m"
    run = RecordedRun(evil).opened().prompt(evil).text(evil, "x" * 200_000, *["\n"] * 500).other(stderr=evil)
    run.update("tool_call", toolCallId=evil, title=evil, kind=evil, status="completed")
    run.update("plan", entries=[{"content": evil, "priority": "high", "status": evil}] * 100)
    run.permission(evil, chosen=evil).update(evil).stop(evil).save(tmp_path / "run.acp")
    for extra in ([], ["--full"]):
        ended = duologue(tmp_path, "trace", "run.acp", "--conversation", *extra)
        assert ended.returncode == 0
        assert not set("\x1b\x07\x9b\r\u202e") & set(ended.stdout)


def test_a_growing_conversation_is_followed(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.acp") as recorder:
        frames = [bytes(cast("Raw", entry.frame)) for entry in RecordedRun().text("one ", "two").entries]
        recorder("to_client", frames[0])
        with subprocess.Popen(
            [*PROGRAM, "trace", "run.acp", "--conversation", "--follow", "--json"],
            stdout=subprocess.PIPE, cwd=tmp_path, env=environment(tmp_path),
        ) as program:  # fmt: skip
            assert program.stdout is not None
            assert json.loads(program.stdout.readline())["text"] == "one "
            recorder("to_client", frames[1])
            second = json.loads(program.stdout.readline())
            assert (second["text"], second["continues"]) == ("two", True)
            program.send_signal(signal.SIGINT)
            assert program.wait(SECONDS) == 0
