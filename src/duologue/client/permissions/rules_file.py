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
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from duologue.client.permissions.actions import KINDS
from duologue.client.permissions.rules import Rule, Rules
from duologue.private_files import PrivateFile

__all__ = ["SETTINGS", "read_rules"]

SETTINGS: dict[str, type | tuple[type, ...]] = {
    "timeout": (int, float),
    "audit": str,
    "memory": str,
    "dry_run": bool,
    "max_pending": int,
    "max_concurrent": int,
    "accept_delay": (int, float),
}
"""What stands beside the kinds, and of which type it is."""


def read_rules(path: str | Path) -> tuple[Rules, dict[str, Any]]:
    """The rules of a file, and its settings.

    Raises:
        ValueError: It is not ours alone, no TOML, or says something that is no rule; the message names the file, and
            every line that is refused.
        FileNotFoundError: There is none.
    """
    file = PrivateFile(path)
    if not file.path.exists():
        raise FileNotFoundError(f"there is no file with rules: {file.path}")
    try:
        text = file.read()
        table = _table(text)
    except ValueError as error:
        said = str(error)
        raise ValueError(said if str(file.path) in said else f"{file.path}: {said}") from error
    complaints = [f"{file.path}, line {line}: {complaint}" for line, complaint in _complaints(text)]
    if complaints:
        raise ValueError("\n".join(complaints))
    return _parsed(table, file)


def _table(text: str) -> dict[str, Any]:
    table: object = tomllib.loads(text).get("permissions", {})
    if not isinstance(table, dict):
        raise ValueError("`permissions` is no table")
    return cast("dict[str, Any]", table)


def _complaints(text: str) -> Iterator[tuple[int, str]]:
    """Yield why each rule or setting that is none is refused, with the number of its line."""
    lines = text.split("\n")
    for item in _items(_table(text)):
        try:
            _parsed(dict([item]))
        except ValueError as error:
            # TOML's reader names no lines: it is the first one without which this is not there.
            missing = bisect_left(range(len(lines)), 1, key=lambda size: item in _items(_longest(lines[:size])))
            yield missing, str(error)


def _items(table: dict[str, Any]) -> list[tuple[str, object]]:
    """Return the table as one entry for each pattern and each setting."""
    items: list[tuple[str, object]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            items += [(name, {pattern: word}) for pattern, word in cast("dict[str, object]", value).items()]
        else:
            items.append((name, value))
    return items


def _longest(lines: list[str]) -> dict[str, Any]:
    """Return the table of as many of these lines as can be read: a value may end in a later one."""
    for size in range(len(lines), 0, -1):
        try:
            return _table("\n".join(lines[:size]))
        except ValueError:
            continue
    return {}


def _parsed(table: dict[str, Any], file: PrivateFile | None = None) -> tuple[Rules, dict[str, Any]]:
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
