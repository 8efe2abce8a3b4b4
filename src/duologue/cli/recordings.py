"""Find the user's recordings for `duologue trace`, and the patterns of what is removed from new ones."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from duologue.cli.exit_codes import UsageError
from duologue.config.recordings import configured_patterns, find_recordings
from duologue.errors import StartError
from duologue.trace.digest import RecordingDigest, digest_of


class KnownRecording(NamedTuple):
    """A recording of the data directory.

    Attributes:
        path: The file.
        updated_at: When it was last written: UTC, ISO 8601.
        bytes: Size of the file.
        digest: What it is about; empty if the file cannot be read.
    """

    path: Path
    updated_at: datetime
    bytes: int
    digest: RecordingDigest


def own_patterns() -> list[str]:
    """Return the regular expressions of secrets of the configuration file.

    Raises:
        UsageError: The file cannot be read, or one of them cannot be used.
    """
    try:
        return configured_patterns()
    except StartError as error:
        raise UsageError(str(error)) from None


def known_recordings(cwd: Path | None = None) -> list[KnownRecording]:
    """Return the recordings of the data directory, newest first; only those made in `cwd`, if given."""
    found = [known for path in find_recordings() if (known := _known(path)) is not None]
    return [known for known in found if cwd is None or known.digest.cwd == str(cwd)]


def _known(path: Path) -> KnownRecording | None:
    """Return a recording with what is known about it; None if it was deleted meanwhile."""
    try:
        state = path.stat()
    except OSError:
        return None
    try:
        digest = digest_of(path)
    except (OSError, ValueError):
        digest = RecordingDigest()
    return KnownRecording(path, datetime.fromtimestamp(state.st_mtime, UTC), state.st_size, digest)
