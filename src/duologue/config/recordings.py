"""Where recordings are kept that nobody gave a place: `duologue/recordings` in the user's data directory."""

from __future__ import annotations

import os
import secrets
from datetime import datetime
from pathlib import Path

__all__ = ["SUFFIX", "find_recordings", "new_recording", "recordings_folder"]

SUFFIX = ".acp"


def recordings_folder() -> Path:
    """The directory; it need not exist."""
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "share") / "duologue" / "recordings"


def new_recording() -> Path:
    """A file for one more, named by the time, in a directory for its owner only.

    Raises:
        OSError: There can be no such directory.
    """
    folder = recordings_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = datetime.now().astimezone()
    return folder / f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}{SUFFIX}"


def find_recordings() -> list[Path]:
    """Those that are there, newest first."""
    found = [path for path in recordings_folder().glob(f"*{SUFFIX}") if path.is_file()]
    return sorted(found, key=lambda path: path.name, reverse=True)
