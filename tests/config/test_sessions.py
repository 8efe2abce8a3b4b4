"""The list of sessions that the command line opened: private, bounded, and readable after a crash."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from duologue.config import sessions
from duologue.config.sessions import (
    OpenedSession,
    opened_sessions,
    save_continued,
    save_session,
    save_title,
    save_usage,
    saved_usages,
    session_named,
)
from duologue.usage.counter import UsageCounter


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "duologue" / "sessions.jsonl"


def opened(session_id: str, name: str | None = None) -> OpenedSession:
    return OpenedSession(agent="mine", cwd="/work", session_id=session_id, name=name)


def test_the_file_is_private(state: Path) -> None:
    save_session(opened("one"))

    assert stat.S_IMODE(state.stat().st_mode) == 0o600


def test_the_last_session_of_a_name_counts() -> None:
    for session_id in ("one", "two"):
        save_session(opened(session_id, "a"))

    assert session_named("a", "mine", "/work") == "two"
    assert session_named("a", "mine", "/elsewhere") is None
    assert session_named("a", "other", "/work") is None


def test_only_the_first_prompt_becomes_the_title_and_only_of_a_known_session() -> None:
    save_session(opened("one", "a"))
    save_title("mine", "one", "\n first line \nsecond")
    save_title("mine", "one", "later")
    save_title("mine", "unknown", "text")

    assert {id: each.title for id, each in opened_sessions("mine").items()} == {"one": "first line"}
    assert session_named("a", "mine", "/work") == "one"


def test_a_single_run_that_is_continued_is_one_no_longer(state: Path) -> None:
    save_session(OpenedSession(agent="mine", cwd="/work", session_id="one", title="a", is_run=True))
    save_session(opened("two"))
    assert [each.is_run for each in opened_sessions("mine").values()] == [True, False]
    size = state.stat().st_size
    save_continued("mine", "two")
    save_continued("mine", "unknown")
    assert state.stat().st_size == size
    save_continued("mine", "one")
    assert {id: (each.is_run, each.title) for id, each in opened_sessions("mine").items()}["one"] == (False, "a")


def test_half_a_line_hides_no_other(state: Path) -> None:
    save_session(opened("one"))
    with state.open("ab") as file:
        file.write(b'{"agent":"mi\n')
    save_session(opened("two"))

    assert list(opened_sessions("mine")) == ["one", "two"]


def test_a_long_file_is_cut_to_the_newest_and_the_named(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_BYTES", 4_000)
    save_session(opened("first", "a"))
    for number in range(300):
        save_session(opened(f"session-{number}"))

    assert state.stat().st_size <= 4_000 + 200
    assert session_named("a", "mine", "/work") == "first"
    assert "session-299" in opened_sessions("mine")


def test_usage_is_saved_with_the_name_of_the_session_or_without_one() -> None:
    save_session(opened("one", "a"))
    counter = UsageCounter()
    counter.add_context(1, 9, 0.5, "EUR")
    for session_id in ("one", "two"):
        save_usage("mine", "/work", session_id, counter.state)

    assert session_named("a", "mine", "/work") == "one"
    assert {session_id: usage.cost for session_id, usage in saved_usages("mine").items()} == {"one": 0.5, "two": 0.5}
    assert saved_usages("other") == {}


def test_usage_of_a_newer_version_is_left_out_and_the_name_stays(state: Path) -> None:
    save_session(opened("one", "a"))
    line = b'{"agent":"mine","cwd":"/work","session_id":"one","name":"a","usage":{"meaning":"galactic"}}\n'
    state.write_bytes(line)

    assert session_named("a", "mine", "/work") == "one"
    assert saved_usages("mine") == {}
