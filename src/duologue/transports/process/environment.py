"""The environment variables that child processes inherit."""

from __future__ import annotations

import os
from collections.abc import Mapping

OWNER = "DUOLOGUE_OWNER"
"""Marks a child and all its descendants, so that they can be found. A child's child has the markers of both."""

SAFE_NAMES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR"}
    # What programs on Windows need to run, and where they store files.
    | {"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERNAME", "USERPROFILE"}
    | {"HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)"}
)
SAFE_PREFIX = "LC_"


def inherited(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the whole environment of this process and `extra`: for agents, which find keys and settings there."""
    return {**os.environ, **(extra or {})}


def safe(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what every program needs and `extra`: for terminals and MCP servers, which should get no keys."""
    plain = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in SAFE_NAMES or name.upper().startswith(SAFE_PREFIX)
    }
    return {**plain, **(extra or {})}


def owned_by(token: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of `env` with one more owner marked."""
    owners = [owner for owner in (env.get(OWNER), token) if owner]
    return {**env, OWNER: ":".join(owners)}
