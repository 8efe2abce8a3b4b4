"""What a child process finds in its environment: a policy, never an accident."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["inherited", "owned_by", "safe"]

OWNER = "DUOLOGUE_OWNER"
"""Marks a child and all its descendants, so that they can be found wherever they hide. A child's child keeps both."""

SAFE_NAMES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR"}
    # What programs on Windows need to run at all, and where they may keep their files.
    | {"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERNAME", "USERPROFILE"}
    | {"HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)"}
)
SAFE_PREFIX = "LC_"


def inherited(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """All of our own environment and `extra`: for agents, which find their keys and settings there."""
    return {**os.environ, **(extra or {})}


def safe(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Only what any program needs to run, and `extra`: for terminals and MCP servers, which get no keys by accident."""
    plain = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in SAFE_NAMES or name.upper().startswith(SAFE_PREFIX)
    }
    return {**plain, **(extra or {})}


def owned_by(token: str, env: Mapping[str, str]) -> dict[str, str]:
    """The same environment, marked with one more owner."""
    owners = [owner for owner in (env.get(OWNER), token) if owner]
    return {**env, OWNER: ":".join(owners)}
