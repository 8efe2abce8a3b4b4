"""Find agents by name: those of the configuration file, well-known commands on PATH, and the built-in one.

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
import tomllib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from msgspec import Struct

from duologue.client.target import BUILTIN, BUILTIN_COMMAND
from duologue.errors import StartError
from duologue.private_files import user_directory
from duologue.suggestion import suggestion

CODE = "code"
"""The name of the coding agent, and the command of `duologue` that starts it."""

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
"""Well-known agents, and the command that starts each as an ACP agent."""

KNOWN_VARIABLES: dict[str, Mapping[str, str]] = {"vtcode": {"VT_ACP_ENABLED": "1", "VT_ACP_ZED_ENABLED": "1"}}
"""Environment variables that some of them need."""


KNOWN_KEYS: dict[str, tuple[str, ...] | None] = {
    "agents": ("command", "args", "env", "url", "headers", "token", "ca", "transport"),
    "mcp_servers": ("command", "args", "env", "url", "headers", "type"),
    "permissions": None,  # the rules check their own
    "registries": None,  # a list
    "recordings": None,  # settings, checked when they are read
}
"""Tables of the configuration file, and the keys of each entry."""


class NamedAgent(Struct, frozen=True, kw_only=True):
    """An agent that can be used by name.

    Attributes:
        name: The name.
        source: Where it was found: the lock file (`locked`), the configuration file (`config`), PATH (`path`), or
            duologue itself (`builtin`).
        config: How it is started or reached, as `connect()` accepts it.
    """

    name: str
    source: Literal["locked", "config", "path", "builtin"]
    config: Mapping[str, Any]

    @property
    def url(self) -> str | None:
        """The URL of a remote agent, without its token; None for a command."""
        url = self.config.get("url")
        return None if url is None else urlsplit(str(url))._replace(fragment="").geturl()

    @property
    def command_line(self) -> list[str]:
        """The command and its arguments; empty for a remote agent."""
        if self.url is not None:
            return []
        return [str(self.config.get("command", "")), *map(str, self.config.get("args", ()))]


def config_file() -> Path:
    """Return the path of the configuration: `$DUOLOGUE_CONFIG`, or `duologue/config.toml` in the user's directory."""
    named = os.environ.get("DUOLOGUE_CONFIG")
    return Path(named) if named else user_directory("XDG_CONFIG_HOME", ".config") / "config.toml"


def read_config() -> dict[str, Any]:
    """Return the content of the configuration file; empty if there is none.

    Raises:
        ValueError: It is not UTF-8, not TOML, or has unknown tables or keys; the message has a line for each.
        OSError: It cannot be read.
    """
    path = config_file()
    try:
        config = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    unknown = [f"{path}: {problem}" for problem in _unknown_names(config)]
    if unknown:
        raise ValueError("\n".join(unknown))
    return config


def _unknown_names(config: Mapping[str, Any]) -> Iterator[str]:
    """Describe each table and key that has no meaning, with the one that was probably meant."""
    for table, entries in config.items():
        if table not in KNOWN_KEYS:
            meant = suggestion(table, KNOWN_KEYS) or f"; the tables are {', '.join(KNOWN_KEYS)}"
            yield f"unknown table {table!r}{meant}"
        keys = KNOWN_KEYS.get(table)
        if keys is not None and isinstance(entries, dict):
            yield from _unknown_keys(table, cast("dict[str, object]", entries), keys)


def _unknown_keys(table: str, entries: Mapping[str, object], keys: tuple[str, ...]) -> Iterator[str]:
    for name, entry in entries.items():
        for key in cast("dict[str, object]", entry) if isinstance(entry, dict) else ():
            if key not in keys:
                meant = suggestion(key, keys) or f"; the keys are {', '.join(keys)}"
                yield f"[{table}.{name}]: unknown key {key!r}{meant}"


def find_agents() -> dict[str, NamedAgent]:
    """Return all agents by name; the configuration file takes precedence over PATH.

    Raises:
        StartError: The file cannot be read.
    """
    own, *args = BUILTIN_COMMAND
    found = {BUILTIN: NamedAgent(name=BUILTIN, source="builtin", config={"command": own, "args": args})}
    if find_spec("pydantic_ai_harness") is not None:  # the extra `coder`
        found[CODE] = NamedAgent(name=CODE, source="builtin", config={"command": own, "args": [CODE]})
    for name, (command, *flags) in KNOWN_COMMANDS.items():
        if shutil.which(command) is not None:
            variables = {"env": KNOWN_VARIABLES[name]} if name in KNOWN_VARIABLES else {}
            config: Mapping[str, Any] = {"command": command, "args": flags, **variables}
            found[name] = NamedAgent(name=name, source="path", config=config)
    for name, config in named_agents().items():
        found[name] = NamedAgent(name=name, source="config", config=config)
    return found


def named_agents() -> dict[str, Mapping[str, Any]]:
    """Return the agents of the configuration file; none if there is no file.

    Raises:
        StartError: The file cannot be read.
    """
    path = config_file()
    try:
        return _checked(read_config().get("agents", {}), path)
    except tomllib.TOMLDecodeError as error:
        raise StartError(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"cannot read {path}: {error}") from None
    except ValueError as error:
        raise StartError(str(error)) from None


def _checked(agents: object, path: Path) -> dict[str, Mapping[str, Any]]:
    if not isinstance(agents, dict):
        raise StartError(f"{path}: `agents` must be a table")
    checked: dict[str, Mapping[str, Any]] = {}
    for name, config in agents.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(config, dict) or not any(isinstance(config.get(key), str) for key in ("command", "url")):  # pyright: ignore[reportUnknownMemberType]
            raise StartError(f"{path}: agent {name!r} needs a `command` or a `url`")
        if isinstance(config.get("args"), str):  # pyright: ignore[reportUnknownMemberType]
            raise StartError(f"{path}: the `args` of agent {name!r} must be a list of strings")
        checked[str(name)] = config  # pyright: ignore[reportUnknownArgumentType]
    return checked
