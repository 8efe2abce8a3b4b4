"""What `duologue sessions` shows of recordings."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from duologue.cli.exit_codes import UsageError
from duologue.client.recorded_sessions import RecordedSession, recorded_sessions
from duologue.config.recordings import SUFFIX, find_recordings
from duologue.conversation.items import Message
from duologue.conversation.session_setup import SessionInfo

__all__ = ["known_recordings", "named_recording", "read"]


def known_recordings(cwd: str | None) -> dict[str, tuple[Path, SessionInfo]]:
    """The recordings in the usual place by their names, newest first; those of a directory, if one is named."""
    found = {path.name: (path, _info_of(path)) for path in find_recordings()}
    return {name: (path, info) for name, (path, info) in found.items() if cwd is None or info.cwd == cwd}


def named_recording(wanted: str) -> Path | None:
    """The recording that is called exactly so: a file, or one in the usual place with or without its suffix."""
    path = Path(wanted)
    if path.suffix == SUFFIX and path.is_file():
        return path
    return next((path for path in find_recordings() if wanted in (path.name, path.stem)), None)


def read(path: Path) -> list[tuple[SessionInfo, RecordedSession]]:
    """The sessions of a recording.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        sessions = recorded_sessions(path)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    when = _when(path)
    return [
        (
            SessionInfo(
                session_id=session.session_id,
                cwd=session.cwd,
                title=session.transcript.title or _first_words(session),
                updated_at=when,
            ),
            session,
        )
        for session in sessions
    ]


def _info_of(path: Path) -> SessionInfo:
    """A recording as a list shows it: by its name, where its first session worked and how that began."""
    try:
        first = next(iter(recorded_sessions(path, prompts=1)), None)
        when = _when(path)
    except (OSError, ValueError):
        first, when = None, None
    cwd, title = ("", None) if first is None else (first.cwd, first.transcript.title or _first_words(first))
    return SessionInfo(session_id=path.name, cwd=cwd, title=title, updated_at=when)


def _when(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")


def _first_words(session: RecordedSession) -> str | None:
    prompts = (item.text for item in session.transcript.items if isinstance(item, Message) and item.role == "user")
    return next((prompt.strip().partition("\n")[0] for prompt in prompts if prompt.strip()), None)
