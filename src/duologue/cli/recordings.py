"""Read recordings for `duologue sessions`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from duologue.cli.exit_codes import UsageError
from duologue.client.recorded_sessions import RecordedSession, recorded_sessions
from duologue.config.recordings import SUFFIX, find_recordings
from duologue.conversation.items import Message
from duologue.conversation.session_setup import SessionInfo


def known_recordings(cwd: str | None) -> dict[str, tuple[Path, SessionInfo]]:
    """Return the recordings in the data directory by name, newest first; only those made in `cwd`, if given."""
    found = {path.name: (path, _info_of(path)) for path in find_recordings()}
    return {name: (path, info) for name, (path, info) in found.items() if cwd is None or info.cwd == cwd}


def named_recording(wanted: str) -> Path | None:
    """Return the recording with exactly this path, or this name in the data directory, with or without suffix."""
    path = Path(wanted)
    if path.suffix == SUFFIX and path.is_file():
        return path
    return next((path for path in find_recordings() if wanted in (path.name, path.stem)), None)


def read(path: Path) -> list[tuple[SessionInfo, RecordedSession]]:
    """Return the sessions of a recording.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        sessions = recorded_sessions(path)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    updated_at = _modified_at(path)
    return [(_info(session.session_id, session, updated_at), session) for session in sessions]


def _info_of(path: Path) -> SessionInfo:
    """Return the list entry of a recording: its name, and the directory and first prompt of its first session."""
    try:
        first = next(iter(recorded_sessions(path, prompts=1)), None)
        updated_at = _modified_at(path)
    except (OSError, ValueError):
        first, updated_at = None, None
    return _info(path.name, first, updated_at)


def _info(session_id: str, session: RecordedSession | None, updated_at: str | None) -> SessionInfo:
    if session is None:
        return SessionInfo(session_id=session_id, cwd="", updated_at=updated_at)
    title = session.transcript.title or _first_prompt(session)
    return SessionInfo(session_id=session_id, cwd=session.cwd, title=title, updated_at=updated_at)


def _modified_at(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")


def _first_prompt(session: RecordedSession) -> str | None:
    prompts = (item.text for item in session.transcript.items if isinstance(item, Message) and item.role == "user")
    return next((prompt.strip().partition("\n")[0] for prompt in prompts if prompt.strip()), None)
