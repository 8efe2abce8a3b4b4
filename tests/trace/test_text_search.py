"""Finding text in conversations, and what a recording is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duologue.recording.reader import RecordingReader, read_recording
from duologue.recording.recorder import Recorder
from duologue.trace import digest, text_search
from duologue.trace.digest import RecordingDigest, digest_of
from duologue.trace.text_search import find_lines


def _record(path: Path, *messages: tuple[str, dict[str, Any]]) -> Path:
    with Recorder(path, agent=["my-agent", "--acp"]) as recorder:
        for direction, message in messages:
            recorder(direction, json.dumps({"jsonrpc": "2.0", **message}).encode())
    return path


def _prompt(text: str, session: str = "s") -> tuple[str, dict[str, Any]]:
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return "to_agent", {"id": 1, "method": "session/prompt", "params": params}


def _chunk(text: str, session: str = "s", kind: str = "agent_message_chunk") -> tuple[str, dict[str, Any]]:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return "to_client", {"method": "session/update", "params": {"sessionId": session, "update": update}}


def _found(path: Path, text: str) -> list[str]:
    return [found.line for found in find_lines(read_recording(path), text)]


def test_text_in_several_chunks_is_found_as_one_line(tmp_path: Path) -> None:
    path = _record(tmp_path / "run.acp", _chunk("the sun\nthe S"), _chunk("ea"), _chunk(" is blue\nit was"))

    assert _found(path, "the sea") == ["the Sea is blue"]
    assert _found(path, "IT WAS") == ["it was"]


def test_messages_of_several_sessions_and_speakers_are_not_joined(tmp_path: Path) -> None:
    path = _record(
        tmp_path / "run.acp",
        _chunk("the s"), _chunk("ea", session="other"), _chunk("ea"), _chunk("thinking of", kind="agent_thought_chunk"),
        _chunk(" the sea", kind="agent_thought_chunk"), _chunk("end"),
    )  # fmt: skip

    assert sorted(_found(path, "")) == ["ea", "end", "the sea", "thinking of the sea"]


def test_a_prompt_that_the_agent_repeats_is_found_once(tmp_path: Path) -> None:
    path = _record(tmp_path / "run.acp", _chunk("old", kind="user_message_chunk"), _prompt("the sea"),
                   _chunk("the sea", kind="user_message_chunk"))  # fmt: skip

    assert _found(path, "") == ["old", "the sea"]


def test_titles_of_tool_calls_and_messages_of_version_2_are_found(tmp_path: Path) -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read the sea", "status": "pending"}
    message = {"sessionUpdate": "agent_message", "messageId": "m",
               "content": [{"type": "text", "text": "a sea\nan end"}]}  # fmt: skip
    path = _record(
        tmp_path / "run.acp",
        ("to_client", {"method": "session/update", "params": {"sessionId": "s", "update": call}}),
        ("to_client", {"id": 0, "result": {"protocolVersion": 2}}),
        ("to_client", {"method": "session/update", "params": {"sessionId": "s", "update": message}}),
        ("to_client", {"method": "session/update", "params": 5}),
        ("to_client", {"method": "_other"}),
        ("to_client", {"method": "session/update", "params": {"sessionId": "s", "update": {
            "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}}}),
    )  # fmt: skip

    assert _found(path, "sea") == ["Read the sea", "a sea"]


def test_a_line_without_an_end_and_endless_sessions_need_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "MAX_LINE", 10)
    monkeypatch.setattr(text_search, "MAX_SESSIONS", 2)
    many = [_chunk(f"text {number}", session=str(number)) for number in range(5)]
    path = _record(tmp_path / "run.acp", _chunk("a long line"), _chunk(" and more"), *many)

    assert sorted(_found(path, "")) == [" and more", "a long line", *(f"text {number}" for number in range(5))]


def test_a_recording_is_about_its_first_session_and_prompt(tmp_path: Path) -> None:
    opened: tuple[str, dict[str, Any]] = (
        "to_agent",
        {"id": 0, "method": "session/new", "params": {"cwd": "/home/me", "mcpServers": []}},
    )
    path = _record(tmp_path / "run.acp", ("to_agent", {"params": 5}), opened, _prompt("\nfix it\nplease"), _prompt("b"))
    with RecordingReader(path) as reader:
        started = reader.header.started

    assert digest_of(path) == RecordingDigest(
        agent=("my-agent", "--acp"), started=started, cwd="/home/me", title="fix it"
    )


def test_only_the_beginning_of_a_recording_is_searched_for_its_first_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "MAX_BYTES", 1000)
    path = _record(tmp_path / "run.acp", *[_chunk("x" * 100)] * 20, _prompt("late"))

    assert digest_of(path).title == ""
