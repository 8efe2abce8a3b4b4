"""Files that the first development version wrote, before names and packages changed, are read by this one.

`files/` was written by that version: two prompts of the built-in agent with `--record`, one remembered yes (`one.md`),
one remembered no (`two.md`) and the rules file that `duologue` proposes. A later one with the same format wrote
`answers-commands.jsonl`: remembered decisions on commands, with a rule, and on a tool call without a file.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.recorded_sessions import recorded_sessions
from duologue.config.permissions import load_permissions, remembered_decisions_file, state_folder
from duologue.conversation.content import TextContent
from duologue.conversation.session_setup import SessionInfo
from duologue.conversation.transcript import Transcript
from duologue.errors import InvalidRequest
from duologue.recording.reader import read_recording
from duologue.store.sqlite.store import SqliteStore
from tests.client.permission_requests import User, question, runs, writes

FILES = Path(__file__).parent / "files"
PROJECT = "/tmp/notes-project"
AGENT = "duologue agent"


def own_copy(name: str, folder: Path) -> Path:
    """Copy a file as its owner's alone: what others may write is refused."""
    path = folder / name
    shutil.copyfile(FILES / name, path)
    os.chmod(path, 0o600)
    return path


async def test_sessions_of_an_earlier_version_are_listed_and_replayed(tmp_path: Path) -> None:
    own_copy("sessions.sqlite3", tmp_path)
    async with SqliteStore(tmp_path) as store:
        page = await store.list()
        transcript = Transcript()
        replay = store.replay(page.sessions[-1].session_id)
        async for update in replay:
            transcript.apply(update)

        usage = await store.usage(page.sessions[-1].session_id)

    assert not page.damaged
    assert (usage.provenance, usage.turns > 0) == ("not_reported", True)
    assert {session.cwd for session in page.sessions} == {PROJECT}
    assert not replay.damage
    assert any("built-in agent" in message.text for message in transcript.messages)
    assert transcript.tool_calls


def test_a_recording_of_an_earlier_version_is_read() -> None:
    entries = list(read_recording(FILES / "tour.acp"))
    (session,) = recorded_sessions(FILES / "tour.acp")

    assert len(entries) == 55
    assert session.cwd == PROJECT
    assert session.transcript.tool_calls


async def test_answers_that_an_earlier_version_remembered_still_count(tmp_path: Path) -> None:
    asked: list[PermissionRequest] = []

    async def note(question: PermissionRequest) -> None:
        asked.append(question)

    rules = Permissions(edit="ask", on_request=note, memory=own_copy("answers.jsonl", tmp_path)).for_agent(AGENT)

    await rules.check_write("s", PROJECT, f"{PROJECT}/one.md", resolved=f"{PROJECT}/one.md", roots=[PROJECT])
    with pytest.raises(InvalidRequest):
        await rules.check_write("s", PROJECT, f"{PROJECT}/two.md", resolved=f"{PROJECT}/two.md", roots=[PROJECT])

    assert asked == []


def test_the_rules_that_an_earlier_version_proposed_are_valid(tmp_path: Path) -> None:
    Permissions.from_file(own_copy("config.toml", tmp_path))


async def test_remembered_commands_and_tool_calls_of_version_1_still_count(tmp_path: Path) -> None:
    user = User()
    rules = Permissions(on_request=user, memory=own_copy("answers-commands.jsonl", tmp_path)).for_agent(AGENT)

    assert await runs(rules, PROJECT, "make", "docs", directory=f"{PROJECT}/docs", env={"NOTES_HOME": "drafts"})
    assert await runs(rules, PROJECT, "git", "log", "-2")
    assert not await runs(rules, PROJECT, "rm", "notes.db")
    assert await rules.decide(question(PROJECT, kind="other", raw_input={"to": "ann"})) == "allow_once"
    assert user.asked == []
    assert not await runs(rules, PROJECT, "make", "docs")
    assert not await runs(rules, f"{PROJECT}/docs", "git", "log", "-2")
    await rules.decide(question(PROJECT, kind="other", raw_input={"to": "bob"}))
    assert len(user.asked) == 3


async def test_decisions_of_both_versions_may_be_in_one_file(tmp_path: Path) -> None:
    memory = own_copy("answers.jsonl", tmp_path)
    before = memory.read_bytes()
    yes = User(lambda asked: asked.allow(remember="project"))
    assert await writes(Permissions(on_request=yes, memory=memory).for_agent(AGENT), PROJECT, f"{PROJECT}/three.md")

    later = Permissions(memory=memory).for_agent(AGENT)
    assert [await writes(later, PROJECT, f"{PROJECT}/{name}.md") for name in ("one", "two", "three")] == [
        True,
        False,
        True,
    ]
    assert memory.read_bytes().startswith(before)
    added = json.loads(memory.read_bytes().removeprefix(before))
    assert (added["type"], added["version"]) == ("remembered_decision", 2)


@pytest.mark.parametrize("name", ["decisions.jsonl", "audit.jsonl"])
async def test_an_audit_log_is_never_read_as_remembered_decisions(name: str, tmp_path: Path) -> None:
    if name == "audit.jsonl":
        await writes(Permissions(audit=tmp_path / name), PROJECT, f"{PROJECT}/one.md")
    else:
        own_copy(name, tmp_path)

    with pytest.raises(ValueError, match=rf"{name}: this is not a file of remembered decisions"):
        Permissions(memory=tmp_path / name)


def test_remembered_decisions_of_a_newer_version_are_rejected_with_the_number(tmp_path: Path) -> None:
    memory = own_copy("answers.jsonl", tmp_path)
    with memory.open("a") as file:
        file.write('{"type":"remembered_decision","version":3,"verdict":"deny"}\n')

    with pytest.raises(ValueError, match="a decision has version 3; this program supports versions up to 2"):
        Permissions(memory=memory)


async def test_programs_of_both_versions_share_the_remembered_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier program appends to `answers.jsonl` while this one uses the new name."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state_folder().mkdir()
    earlier = own_copy("answers.jsonl", state_folder())
    line_of_earlier_program = earlier.read_text().splitlines()[1].replace("two.md", "four.md")

    yes = User(lambda asked: asked.allow(remember="project"))
    rules = load_permissions(on_request=yes).for_agent(AGENT)
    assert await writes(rules, PROJECT, f"{PROJECT}/one.md")
    assert not await writes(rules, PROJECT, f"{PROJECT}/two.md")
    assert await writes(rules, PROJECT, f"{PROJECT}/three.md")
    with earlier.open("a") as file:
        file.write(f"{line_of_earlier_program}\n")
    assert not await writes(rules, PROJECT, f"{PROJECT}/four.md")

    assert len(yes.asked) == 1
    assert remembered_decisions_file().read_bytes() == earlier.read_bytes()
    assert len(earlier.read_text().splitlines()) == 4


def test_where_a_file_cannot_have_two_names_the_earlier_one_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*args: object) -> None:
        raise PermissionError(errno.EPERM, "hard links are not supported")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "link", unsupported)
    state_folder().mkdir()
    earlier = own_copy("answers.jsonl", state_folder())

    assert remembered_decisions_file() == earlier


async def test_a_store_of_version_1_is_written_to_and_keeps_its_version(tmp_path: Path) -> None:
    """A program of the earlier version may be using the file at the same time."""
    path = own_copy("sessions.sqlite3", tmp_path)
    async with SqliteStore(tmp_path) as store:
        async with await store.create(SessionInfo(session_id="new", cwd=PROJECT)) as log:
            log.begin_turn([TextContent("Hello")])
            await log.end_turn("end_turn")
        updates = [update async for update in store.replay("new")]

    assert updates
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        assert database.execute("SELECT count(DISTINCT place >> 32) FROM events").fetchone()[0] == 3
