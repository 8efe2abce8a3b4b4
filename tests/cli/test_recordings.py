"""`--record`, and what `duologue sessions` makes of recordings."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from duologue.recording.reader import read_recording
from tests.cli.program import ODD_AGENT, duologue, terminal
from tests.recording.canaries import Canaries


def _recordings(home: Path) -> list[Path]:
    return sorted((home / "data" / "duologue" / "recordings").iterdir())


def test_a_run_is_recorded_in_the_file_that_is_named(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/echo to be kept", "--record", "kept.acp")
    again = duologue(tmp_path, "run", "/echo one more", "--record=kept.acp")

    assert (ended.returncode, again.returncode) == (0, 0)
    assert "recording" not in ended.stderr
    assert stat.S_IMODE((tmp_path / "kept.acp").stat().st_mode) == 0o600
    shown = duologue(tmp_path, "sessions", "show", "kept.acp")
    assert shown.returncode == 0
    assert shown.stdout.startswith("# /echo to be kept\n")
    assert shown.stdout.index("to be kept") < shown.stdout.index("# /echo one more")


def test_a_recording_without_a_name_is_listed_shown_searched_and_exported(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/echo of the sea", "--record")
    (path,) = _recordings(tmp_path)
    assert ended.stderr.startswith(f"recording to {path}\n")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    listed = [json.loads(line) for line in duologue(tmp_path, "sessions", "--json").stdout.splitlines()]
    assert [each.get("recording") for each in listed] == [None, str(path)]
    assert (listed[1]["cwd"], listed[1]["title"]) == (str(tmp_path), "/echo of the sea")
    only = duologue(tmp_path, "sessions", "--recordings")
    assert only.stdout.startswith(f"{path.name}  20")
    assert only.stdout.count("\n") == 1
    found = duologue(tmp_path, "sessions", "search", "OF THE SEA", "--recordings")
    assert found.stdout.startswith(f"{path.name}: /echo of the sea\n")
    both = duologue(tmp_path, "sessions", "search", "of the sea")
    assert both.stdout.endswith(found.stdout)
    assert both.stdout.count("\n") == 2 * found.stdout.count("\n")
    for name in (path.name, path.stem, str(path)):
        assert "## You\n\n/echo of the sea\n" in duologue(tmp_path, "sessions", "show", name).stdout
    assert "of the sea" in duologue(tmp_path, "sessions", "show", path.name[:-6], "--recordings").stdout
    duologue(tmp_path, "sessions", "export", path.name, "--json", "-o", "sea.jsonl")
    exported = [json.loads(line) for line in (tmp_path / "sea.jsonl").read_text().splitlines()]
    assert [item["role"] for item in exported] == ["user", "agent"]


def test_recordings_of_here_are_those_of_this_directory(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    duologue(tmp_path, "run", "hello", "--record")

    assert duologue(tmp_path, "sessions", "--this-directory", "--recordings", cwd=other).stdout == ""
    assert duologue(tmp_path, "sessions", "--this-directory", "--recordings").stdout.count("\n") == 1


def test_recordings_are_listed_also_if_the_agent_lists_nothing(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "hello", "--record")
    ended = duologue(tmp_path, "sessions", "--", *ODD_AGENT, "plain")

    assert ended.returncode == 2
    assert ended.stdout.startswith(_recordings(tmp_path)[0].name)
    assert "cannot list its sessions" in ended.stderr


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
    ended = duologue(tmp_path, "sessions", "show", "else.acp")

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
