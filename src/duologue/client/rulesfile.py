"""Rules in a file: the table `[permissions]` of a TOML file, with the same words as `Permissions(...)`.

    [permissions]
    read = "allow"
    delete = "reject"
    audit = "~/.local/state/duologue/decisions.jsonl"

    [permissions.execute]
    "git status" = "allow"
    "git log *" = "allow"
    "*" = "ask"

Other tables of the file belong to others. The file is ours alone: mode 0600, outside of what agents work in.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, cast

from duologue.client.effects import KINDS
from duologue.client.ownfiles import OwnFile
from duologue.client.rules import Rule, Rules

__all__ = ["SETTINGS", "read_rules"]

SETTINGS: dict[str, type | tuple[type, ...]] = {
    "timeout": (int, float),
    "audit": str,
    "memory": str,
    "dry_run": bool,
    "max_open": int,
    "asks_at_once": int,
    "arm_after": (int, float),
}
"""What stands beside the kinds, and of which type it is."""


def read_rules(path: str | Path) -> tuple[Rules, dict[str, Any]]:
    """The rules of a file, and its settings.

    Raises:
        ValueError: It is not ours alone, no TOML, or says something that is no rule; the message names the file.
        FileNotFoundError: There is none.
    """
    file = OwnFile(path)
    if not file.path.exists():
        raise FileNotFoundError(f"there is no file with rules: {file.path}")
    try:
        table: object = tomllib.loads(file.read()).get("permissions", {})
        if not isinstance(table, dict):
            raise ValueError("`permissions` is no table")
        return _parsed(cast("dict[str, Any]", table), file)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(file.path) in text else f"{file.path}: {text}") from error


def _parsed(table: dict[str, Any], file: OwnFile) -> tuple[Rules, dict[str, Any]]:
    rules: dict[str, Rule] = {name: _rule(name, value) for name, value in table.items() if name not in SETTINGS}
    settings = {name: value for name, value in table.items() if name in SETTINGS}
    for name, value in settings.items():
        if not isinstance(value, SETTINGS[name]) or (isinstance(value, bool) and SETTINGS[name] is not bool):
            raise ValueError(f"{name}: {value!r} is no value for it")
    return Rules(rules, file), settings


def _rule(kind: str, value: object) -> Rule:
    if kind not in KINDS:
        raise ValueError(f"there is no kind or setting {kind!r}; the kinds are {', '.join(KINDS)}")
    words = list(cast("dict[str, object]", value).values()) if isinstance(value, dict) else [value]
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"{kind}: {word!r} is none of allow, ask, reject")
    return cast("Rule", value)
