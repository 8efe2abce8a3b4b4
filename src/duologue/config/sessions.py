"""Sessions that the command line opened, with names (`-s`), first prompts and usage, in the user's state directory.

A line of JSON for each; later lines replace earlier ones of the same session or name. Agents store the sessions. The
name of an agent may be a command line, and the title is a prompt: both are stored without their secrets.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

import msgspec

from duologue.config.permissions import state_folder
from duologue.conversation.content import JsonObject
from duologue.private_files import make_private_directory, make_private_file
from duologue.recording.redaction import redact
from duologue.usage.amounts import SessionUsage
from duologue.usage.counter import UsageCounter, UsageState

MOST_BYTES = 512 * 1024
"""A longer file is cut to the named sessions and the newest half of the others."""
TITLE_LENGTH = 80


class OpenedSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session of an agent in a directory.

    Attributes:
        is_run: It was opened by a `run` for a single prompt, and was not continued since.
    """

    agent: str
    cwd: str
    session_id: str
    name: str | None = None
    title: str | None = None
    usage: JsonObject | None = None
    is_run: bool = False

    @property
    def usage_state(self) -> UsageState | None:
        """Usage of the session so far; `None` if there is none, or a newer version has written it."""
        try:
            return None if self.usage is None else msgspec.convert(self.usage, UsageState)
        except msgspec.ValidationError:
            return None


def opened_sessions(agent: str) -> dict[str, OpenedSession]:
    """Return the sessions of an agent by their ids; empty if they cannot be read."""
    wanted = redact(agent)
    return {each.session_id: each for each in _read(_file()) if each.agent == wanted}


def session_named(name: str, agent: str, cwd: str) -> str | None:
    """Return the id of the session that was opened last under this name, for this agent and directory."""
    wanted = (name, redact(agent), cwd)
    found = [each for each in _read(_file()) if (each.name, each.agent, each.cwd) == wanted]
    return found[-1].session_id if found else None


def save_session(session: OpenedSession) -> None:
    """Save a session.

    Raises:
        OSError: The file cannot be written.
    """
    path = _file()
    make_private_directory(path.parent)
    make_private_file(path)
    with path.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # of two programs that cut the file, one would lose a line of the other
        file.seek(0, 2)
        file.write(_line(session))
        if file.tell() > MOST_BYTES:
            remaining = _newest(_read(path), MOST_BYTES // 2)
            file.seek(0)
            file.truncate()
            file.write(remaining)


def save_title(agent: str, session_id: str, prompt: str) -> None:
    """Save the first line of the first prompt of a session that `save_session` knows.

    Raises:
        OSError: The file cannot be written.
    """
    known = opened_sessions(agent).get(session_id)
    if known is not None and known.title is None:
        title = next((line for line in map(str.strip, prompt.splitlines()) if line), "")[:TITLE_LENGTH]
        save_session(msgspec.structs.replace(known, title=title))


def save_continued(agent: str, session_id: str) -> None:
    """Save that a session is more than a single run.

    Raises:
        OSError: The file cannot be written.
    """
    known = opened_sessions(agent).get(session_id)
    if known is not None and known.is_run:
        save_session(msgspec.structs.replace(known, is_run=False))


def saved_usages(agent: str) -> dict[str, SessionUsage]:
    """Return the usage of the sessions of an agent by their ids, as far as it is known."""
    states = ((session_id, each.usage_state) for session_id, each in opened_sessions(agent).items())
    return {session_id: UsageCounter(state=state).usage for session_id, state in states if state is not None}


def save_usage(agent: str, cwd: str, session_id: str, state: UsageState) -> None:
    """Save the usage of a session so far.

    Raises:
        OSError: The file cannot be written.
    """
    known = opened_sessions(agent).get(session_id) or OpenedSession(agent=agent, cwd=cwd, session_id=session_id)
    save_session(msgspec.structs.replace(known, usage=msgspec.to_builtins(state)))


def _file() -> Path:
    return state_folder() / "sessions.jsonl"


def _line(session: OpenedSession) -> bytes:
    return msgspec.json.encode(_without_secrets(session)) + b"\n"


def _without_secrets(session: OpenedSession) -> OpenedSession:
    return msgspec.structs.replace(session, agent=redact(session.agent), title=redact(session.title))


def _read(path: Path) -> list[OpenedSession]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    found: list[OpenedSession] = []
    for line in lines:
        try:
            found.append(_without_secrets(msgspec.json.decode(line, type=OpenedSession)))
        except msgspec.MsgspecError:
            continue  # half a line, written when the disk was full
    return found


def _newest(sessions: list[OpenedSession], size: int) -> bytes:
    """Return the lines of the last state of each named session, and of as many of the newest others as fit."""
    last = {(each.agent, each.session_id): each for each in sessions}
    named = {(each.agent, each.cwd, each.name): each for each in last.values() if each.name is not None}
    lines = [_line(each) for each in last.values() if each.name is None]
    while lines and sum(map(len, lines)) > size:
        del lines[: len(lines) // 2 + 1]
    return b"".join([*lines, *map(_line, named.values())])
