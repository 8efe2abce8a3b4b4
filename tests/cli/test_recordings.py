"""`--record`, and the recordings that `duologue trace` lists, searches and deletes."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from duologue.recording.reader import read_recording
from tests.cli.program import duologue, terminal
from tests.recording.canaries import Canaries


def _recordings(home: Path) -> list[Path]:
    return sorted((home / "data" / "duologue" / "recordings").iterdir())


def test_a_run_is_recorded_in_the_file_that_is_named(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/echo to be kept", "--record", "kept.acp")
    again = duologue(tmp_path, "run", "/echo one more", "--record=kept.acp")

    assert (ended.returncode, again.returncode) == (0, 0)
    assert "recording" not in ended.stderr
    assert stat.S_IMODE((tmp_path / "kept.acp").stat().st_mode) == 0o600
    prompts = duologue(tmp_path, "trace", "show", "kept.acp", "--kind", "request", "--full").stdout
    assert prompts.index("to be kept") < prompts.index("one more")


def test_a_recording_without_a_name_is_listed_shown_and_searched(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/echo of the sea", "--record")
    (path,) = _recordings(tmp_path)
    assert ended.stderr.startswith(f"recording to {path}\n")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    (listed,) = map(json.loads, duologue(tmp_path, "trace", "list", "--json").stdout.splitlines())
    assert listed["recording"] == str(path)
    assert (listed["format"], listed["cwd"], listed["title"]) == (1, str(tmp_path), "/echo of the sea")
    assert listed["bytes"] == path.stat().st_size
    for words in (("trace",), ("trace", "list")):
        shown = duologue(tmp_path, *words)
        assert shown.stdout.startswith(f"{path.name}  20")
        assert shown.stdout.endswith("/echo of the sea\n")
        assert shown.stdout.count("\n") == 1
    found = duologue(tmp_path, "trace", "search", "OF THE SEA")
    assert found.stdout == f"{path.name}: /echo of the sea\n{path.name}: You said: of the sea\n"
    hits = [json.loads(line) for line in duologue(tmp_path, "trace", "search", "sea", "--json").stdout.splitlines()]
    assert [hit["line"] for hit in hits] == ["/echo of the sea", "You said: of the sea"]
    assert duologue(tmp_path, "trace", "search", "of the lake").returncode == 1
    for name in (path.name, path.stem, path.name[:-6], str(path)):
        assert "/echo of the sea" in duologue(tmp_path, "trace", name, "--full").stdout


def test_the_beginning_of_several_names_is_refused(tmp_path: Path) -> None:
    for prompt in ("one", "two"):
        duologue(tmp_path, "run", prompt, "--record")
    ended = duologue(tmp_path, "trace", "show", "20")

    assert ended.returncode == 2
    assert "2 recordings begin with '20': 20" in ended.stderr
    assert duologue(tmp_path, "trace", "show", "nothing").stderr == (
        "duologue: [Errno 2] No such file or directory: 'nothing'\n"
    )


def test_recordings_of_here_are_those_of_this_directory(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    duologue(tmp_path, "run", "/echo hello", "--record")

    for words in (("list",), ("search", "hello"), ("prune", "--older-than", "0.000001", "--dry-run")):
        assert duologue(tmp_path, "trace", *words, "--this-directory", cwd=other).stdout == ""
        assert duologue(tmp_path, "trace", *words, "--this-directory").stdout.count("\n") >= 1


def test_recordings_are_deleted_by_name_and_by_age(tmp_path: Path) -> None:
    for prompt in ("one", "two", "three"):
        duologue(tmp_path, "run", prompt, "--record")
    old, new, deleted = _recordings(tmp_path)
    week = 7 * 86_400
    os.utime(old, (old.stat().st_atime, old.stat().st_mtime - week))
    (tmp_path / "notes.md").write_text("mine")

    assert duologue(tmp_path, "trace", "delete", deleted.name).stdout == f"{deleted}\n"
    refused = duologue(tmp_path, "trace", "delete", new.name, "notes.md")
    assert (refused.returncode, refused.stderr) == (2, "duologue: notes.md is not a recording\n")
    dry = duologue(tmp_path, "trace", "prune", "--older-than", "6", "--dry-run")
    assert dry.stdout.startswith(old.name)
    assert _recordings(tmp_path) == [old, new]
    assert duologue(tmp_path, "trace", "prune", "--older-than", "6").stdout == f"{old}\n"
    assert _recordings(tmp_path) == [new]


def test_sessions_names_the_command_that_reads_recordings(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "hello", "--record")
    duologue(tmp_path, "run", "hello", "--record", "my run.acp")
    (path,) = _recordings(tmp_path)
    answers = {
        ("--recordings",): "recordings are read by `duologue trace`: `duologue trace list`",
        ("search", "a b", "--recordings"): "recordings are read by `duologue trace`: `duologue trace search 'a b'`",
        ("show", path.name[:20]): f"{path.name[:20]} is a recording: `duologue trace show {path.name[:20]}`",
        ("delete", "my run.acp"): "my run.acp is a recording: `duologue trace delete 'my run.acp'`",
    }
    for words, answer in answers.items():
        ended = duologue(tmp_path, "sessions", *words)
        assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"duologue: {answer}\n")
    assert path.exists()
    assert path.name not in duologue(tmp_path, "sessions").stdout


def test_a_chat_is_recorded(tmp_path: Path) -> None:
    duologue(tmp_path, "chat", "--record", "chat.acp", stdin="hello\n/echo bye\n")

    assert sum(entry.dir == "to_agent" for entry in read_recording(tmp_path / "chat.acp")) >= 4


def test_a_chat_on_a_terminal_says_where_it_is_recorded(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--record") as screen:
        screen.until("recording to ")
        screen.until("›")
        screen.type("\x04")
        assert screen.wait() == 0
    assert len(_recordings(tmp_path)) == 1


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("nowhere/x.acp", "No such file or directory"),
        ("notes.md", "the file exists and is not a recording"),
        (".", "Is a dir"),
    ],
)
def test_a_file_that_cannot_be_a_recording_is_a_wrong_command_line(tmp_path: Path, named: str, why: str) -> None:
    (tmp_path / "notes.md").write_text("mine\n")
    ended = duologue(tmp_path, "run", "hello", "--record", named)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"duologue: --record {named}: {why}" in ended.stderr
    assert (tmp_path / "notes.md").read_text() == "mine\n"


def test_a_wrong_command_line_leaves_no_recording(tmp_path: Path) -> None:
    assert duologue(tmp_path, "run", "hello", "--agent", "absent", "--record", "none.acp").returncode == 2
    assert not (tmp_path / "none.acp").exists()


def test_a_file_that_is_not_a_recording_cannot_be_shown(tmp_path: Path) -> None:
    (tmp_path / "else.acp").write_text("{}\n")
    ended = duologue(tmp_path, "trace", "show", "else.acp")

    assert (ended.returncode, ended.stderr) == (2, "duologue: else.acp is not a recording\n")


@pytest.mark.fault("LOG-04")
def test_no_secret_of_a_command_line_is_shown_or_recorded(tmp_path: Path) -> None:
    canaries = Canaries()
    env = [each for name, value in canaries.some(20).items() for each in ("--env", f"{name}={value}")]
    server = {"command": "true", "args": ["--token", canaries()], "env": canaries.some(20)}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"keyed": server}}))
    options = ["--mcp", "servers.json", "--record", "run.acp", *env]
    missing, failing = ["no-such-agent", "--api-key", canaries()], [sys.executable, "-c", "exit(3)", canaries()]
    for agent in ([], ["--", *missing], ["--", *failing]):
        ended = duologue(tmp_path, "run", "/mcp", *options, *agent)
        assert Canaries.found_in(ended.stdout + ended.stderr) == []
        assert (ended.returncode == 0) == (not agent)
    assert Canaries.found_in((tmp_path / "run.acp").read_text()) == []
