"""Files that the first development version wrote, before names and packages changed, are read by this one.

`files/` was written by that version: two prompts of the built-in agent with `--record`, one remembered yes (`one.md`),
one remembered no (`two.md`) and the rules file that `duologue` proposes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.recorded_sessions import recorded_sessions
from duologue.conversation.transcript import Transcript
from duologue.errors import InvalidRequest
from duologue.recording.reader import read_recording
from duologue.store.sqlite.store import SqliteStore

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

    assert not page.damaged
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
