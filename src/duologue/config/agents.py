"""Agents by name, from the configuration file all programs share.

[agents.gemini]
command = "gemini"
args = ["--acp"]
env = { LOG = "1" }
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duologue.errors import StartError

__all__ = ["config_file", "named_agents"]


def config_file() -> Path:
    """Where the configuration is: `$DUOLOGUE_CONFIG`, or `duologue/config.toml` in the user's configuration."""
    named = os.environ.get("DUOLOGUE_CONFIG")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "duologue" / "config.toml"


def named_agents() -> dict[str, Mapping[str, Any]]:
    """The agents of the configuration file; none if there is no file.

    Raises:
        StartError: The file cannot be read.
    """
    path = config_file()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StartError(f"cannot read {path}: {error.strerror}") from None
    try:
        agents: dict[str, Mapping[str, Any]] = tomllib.loads(text).get("agents", {})
    except tomllib.TOMLDecodeError as error:
        raise StartError(f"{path} is not TOML: {error}") from None
    return agents
