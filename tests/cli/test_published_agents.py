"""`duologue run` with what published agents were seen to send, frame by frame."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import duologue

AGENT = [sys.executable, str(Path(__file__).with_name("published_agent.py"))]


def run(tmp_path: Path, kind: str, *options: str) -> subprocess.CompletedProcess[str]:
    return duologue(tmp_path, "run", "go", *options, "--", *AGENT, kind)


def events(ended: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.fault("WLD-02")
def test_a_refusal_that_cancels_the_turn_is_a_refusal(tmp_path: Path) -> None:
    ended = run(tmp_path, "zed-codex", "--json", "--deny")

    assert ended.returncode == 5
    last = events(ended)[-1]
    assert (last["event"], last["stop_reason"], last["code"]) == ("End", "cancelled", 5)


def test_a_cancelled_turn_without_a_refusal_is_an_interruption(tmp_path: Path) -> None:
    ended = run(tmp_path, "cancelled", "--json")

    assert (ended.returncode, events(ended)[-1]["stop_reason"]) == (130, "cancelled")


@pytest.mark.fault("WLD-06")
def test_json_begins_with_the_session_although_updates_came_before_it(tmp_path: Path) -> None:
    ended = run(tmp_path, "early", "--json")

    names = [event["event"] for event in events(ended)]
    assert names == ["Session", "CommandsChanged", "Text", "Text", "End"]


@pytest.mark.fault("WLD-07")
def test_an_agent_that_offers_to_resume_and_cannot_loads_the_session(tmp_path: Path) -> None:
    ended = run(tmp_path, "resume-missing", "--continue", "--json")

    assert ended.returncode == 0
    received = events(ended)
    assert [event["event"] for event in received] == ["Session", "Text", "End"]
    assert received[1]["text"] == "hello"  # and not what was said long ago


@pytest.mark.fault("ORD-21")
@pytest.mark.parametrize(("kind", "new"), [("gemini-cli", "done"), ("replays-on", "hello")])
def test_a_replay_after_the_response_of_session_load_is_not_printed(kind: str, new: str, tmp_path: Path) -> None:
    ended = run(tmp_path, kind, "--continue")

    assert ended.stdout == new


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ("acceptEdits", "acceptEdits"),
        ("accept EDITS", "acceptEdits"),
        ("plan first", "https://example.com/session-modes#plan"),
        ("agent", "https://example.com/session-modes#agent"),
        ("session-modes#plan", "https://example.com/session-modes#plan"),
        ("plan", None),
        ("Edits", None),
        ("", None),
    ],
)
def test_a_mode_is_chosen_by_its_id_its_name_or_the_end_of_its_id(
    tmp_path: Path, given: str, chosen: str | None
) -> None:
    ended = run(tmp_path, "modes", "--mode", given)

    if chosen is None:
        assert ended.returncode == 2
        assert f"unknown mode {given!r}; available: https://example.com/session-modes#agent, " in ended.stderr
    else:
        assert ended.stdout == f"{chosen}hello"


@pytest.mark.fault("WLD-09")
def test_an_error_of_the_login_code_inside_a_session_is_an_error_like_others(tmp_path: Path) -> None:
    ended = run(tmp_path, "concurrent")

    assert ended.returncode == 1
    assert "There is already an active prompt execution (-32000)" in ended.stderr
    assert "login" not in ended.stderr


@pytest.mark.fault("WLD-01")
def test_an_agent_that_reads_a_file_before_it_creates_it_can_create_it(tmp_path: Path) -> None:
    ended = run(tmp_path, "gemini-cli", "--yes")

    assert (ended.returncode, ended.stdout) == (0, "done")
    assert (tmp_path / "new.txt").read_text() == "made\n"


@pytest.mark.fault("WLD-04")
def test_the_output_of_a_command_is_shown_from_the_meta_of_its_tool_call(tmp_path: Path) -> None:
    ended = run(tmp_path, "codex", "--yes")

    assert (ended.returncode, ended.stdout) == (0, "done")
    assert "    one\n    two\n" in ended.stderr
    assert "    exited with code 3\n" in ended.stderr


def test_the_output_of_a_failed_command_is_shown_without_a_terminal_to_show_it(tmp_path: Path) -> None:
    assert "    cat: no such file\n" in run(tmp_path, "codex-unshown", "--yes").stderr


@pytest.mark.fault("WLD-05")
def test_the_output_of_a_command_is_shown_from_its_raw_output_and_not_from_the_question(tmp_path: Path) -> None:
    ended = run(tmp_path, "zed-codex", "--yes")

    assert (ended.returncode, ended.stdout) == (0, "done")
    assert "    one\n    two\n" in ended.stderr
    assert "Available Decisions" not in ended.stderr


@pytest.mark.fault("WLD-05")
def test_the_diff_that_came_with_the_question_is_kept_and_shown(tmp_path: Path) -> None:
    assert "    +made\n" in run(tmp_path, "gemini-cli", "--yes").stderr

    (tmp_path / "new.txt").unlink()
    calls = [event for event in events(run(tmp_path, "gemini-cli", "--yes", "--json")) if event["event"] == "ToolCall"]
    assert calls[-1]["status"] == "completed"
    assert [part["new_text"] for part in calls[-1]["content"]] == ["made\n"]
    assert calls[-1]["permission_content"] == calls[-1]["content"]


@pytest.mark.fault("WLD-03")
def test_a_call_left_open_at_the_end_keeps_its_status_and_is_said_not_to_be_settled(tmp_path: Path) -> None:
    ended = run(tmp_path, "left-open")
    assert ended.returncode == 0
    assert "◐ execute: make (no result" in ended.stderr
    assert "✗" not in ended.stderr

    calls = [event for event in events(run(tmp_path, "left-open", "--json")) if event["event"] == "ToolCall"]
    assert [(call["status"], call["is_unsettled"]) for call in calls] == [("in_progress", False), ("in_progress", True)]


@pytest.mark.fault("WLD-08")
def test_a_failure_of_the_model_is_an_error_although_the_turn_ended(tmp_path: Path) -> None:
    ended = run(tmp_path, "codex-failed", "--json")

    assert ended.returncode == 1
    last = events(ended)[-1]
    assert (last["event"], last["code"]) == ("Error", 1)
    assert "its model failed: " in last["message"]
    assert "the model exploded" in last["message"]
