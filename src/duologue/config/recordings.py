"""Recordings without a file name of their own: `duologue/recordings` in the user's data directory."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path

from duologue.private_files import make_private_directory, user_directory

SUFFIX = ".acp"


def recordings_folder() -> Path:
    """Return the directory of recordings; it may not exist."""
    return user_directory("XDG_DATA_HOME", ".local/share") / "recordings"


def new_recording(folder: Path | None = None) -> Path:
    """Return the path of a new recording, named by the time; its directory is made for its owner only.

    Args:
        folder: The directory; by default that of the user's recordings.

    Raises:
        OSError: The directory cannot be made.
    """
    folder = folder or recordings_folder()
    make_private_directory(folder)
    now = datetime.now().astimezone()
    return folder / f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}{SUFFIX}"


def find_recordings() -> list[Path]:
    """Return the recordings of the directory, newest first."""
    found = [path for path in recordings_folder().glob(f"*{SUFFIX}") if path.is_file()]
    return sorted(found, key=lambda path: path.name, reverse=True)
