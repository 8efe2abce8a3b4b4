"""Agents by name: from the configuration file all programs share, known commands found on PATH, and the built-in one.

[agents.gemini]
command = "gemini"
args = ["--acp"]
env = { LOG = "1" }

[agents.team]
url = "wss://agents.example.com/acp"
headers = { X-Team = "blue" }
ca = "/etc/ssl/our-own.pem"
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from duologue.errors import StartError

__all__ = ["BUILTIN", "NamedAgent", "config_file", "find_agents", "named_agents"]

BUILTIN = "builtin"

KNOWN_COMMANDS: dict[str, tuple[str, ...]] = {
    "auggie": ("auggie", "--acp"),
    "claude": ("claude-agent-acp",),
    "claude-code": ("claude-code-acp",),
    "codex": ("codex-acp",),
    "copilot": ("copilot", "--acp"),
    "cursor": ("cursor-agent", "acp"),
    "gemini": ("gemini", "--acp"),
    "goose": ("goose", "acp"),
    "junie": ("junie", "--acp=true"),
    "kimi": ("kimi", "acp"),
    "opencode": ("opencode", "acp"),
    "openhands": ("openhands", "acp"),
    "qwen": ("qwen", "--acp"),
    "stakpak": ("stakpak", "acp"),
    "vibe": ("vibe-acp",),
    "vtcode": ("vtcode", "acp"),
}
"""Agents that people have installed, and how each is told to speak the protocol."""

KNOWN_VARIABLES: dict[str, Mapping[str, str]] = {"vtcode": {"VT_ACP_ENABLED": "1", "VT_ACP_ZED_ENABLED": "1"}}
"""What some of them have to find in their environment before they do."""


class NamedAgent(Struct, frozen=True, kw_only=True):
    """An agent that can be called by its name.

    Attributes:
        source: Who names it: the configuration file (`config`), its being on PATH (`path`), or duologue (`builtin`).
        config: How it is started or reached; what `connect()` takes.
    """

    name: str
    source: Literal["config", "path", "builtin"]
    config: Mapping[str, Any]

    @property
    def url(self) -> str | None:
        """Where it is, if it is behind an address; without a token."""
        url = self.config.get("url")
        return None if url is None else urlsplit(str(url))._replace(fragment="").geturl()

    @property
    def command_line(self) -> list[str]:
        """The command and its arguments; empty for an agent behind an address."""
        return (
            []
            if self.url is not None
            else [str(self.config.get("command", "")), *map(str, self.config.get("args", ()))]
        )


def config_file() -> Path:
    """Where the configuration is: `$DUOLOGUE_CONFIG`, or `duologue/config.toml` in the user's configuration."""
    named = os.environ.get("DUOLOGUE_CONFIG")
    if named:
        return Path(named)
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".config") / "duologue" / "config.toml"


def find_agents() -> dict[str, NamedAgent]:
    """All agents there are here, by name. What the configuration file says wins over what is found.

    Raises:
        StartError: The file cannot be read.
    """
    here: Mapping[str, Any] = {"command": sys.executable, "args": ["-m", "duologue.cli.main", "agent"]}
    found = {BUILTIN: NamedAgent(name=BUILTIN, source="builtin", config=here)}
    for name, (command, *args) in KNOWN_COMMANDS.items():
        if shutil.which(command) is not None:
            variables = {"env": KNOWN_VARIABLES[name]} if name in KNOWN_VARIABLES else {}
            config: Mapping[str, Any] = {"command": command, "args": args, **variables}
            found[name] = NamedAgent(name=name, source="path", config=config)
    for name, config in named_agents().items():
        found[name] = NamedAgent(name=name, source="config", config=config)
    return found


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
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"cannot read {path}: {error}") from None
    try:
        agents: object = tomllib.loads(text).get("agents", {})
    except tomllib.TOMLDecodeError as error:
        raise StartError(f"{path} is not TOML: {error}") from None
    return _checked(agents, path)


def _checked(agents: object, path: Path) -> dict[str, Mapping[str, Any]]:
    if not isinstance(agents, dict):
        raise StartError(f"{path}: `agents` is no table")
    checked: dict[str, Mapping[str, Any]] = {}
    for name, config in agents.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(config, dict) or not any(isinstance(config.get(key), str) for key in ("command", "url")):  # pyright: ignore[reportUnknownMemberType]
            raise StartError(f"{path}: the agent {name!r} needs a `command` or a `url`")
        if isinstance(config.get("args"), str):  # pyright: ignore[reportUnknownMemberType]
            raise StartError(f"{path}: the `args` of the agent {name!r} are a list of words")
        checked[str(name)] = config  # pyright: ignore[reportUnknownArgumentType]
    return checked
