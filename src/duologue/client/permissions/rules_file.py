"""Rules in a file: the table `[permissions]` of a TOML file, with the names of `Permissions(...)`.

    [permissions]
    read = "allow"
    delete = "reject"
    audit = "~/.local/state/duologue/audit.jsonl"

    [permissions.execute]
    "git status" = "allow"
    "git log *" = "allow"
    "*" = "ask"

Other tables of the file are ignored. The file must be private: mode 0600, outside the directories of agents.
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
from duologue.suggestion import suggestion

SETTINGS: dict[str, type | tuple[type, ...]] = {
    "timeout": (int, float),
    "audit": str,
    "memory": str,
    "dry_run": bool,
    "max_pending": int,
    "max_concurrent": int,
    "accept_delay": (int, float),
}
"""Keys in addition to the kinds, and the type of each value."""


def read_rules(path: str | Path) -> tuple[Rules, dict[str, Any]]:
    """Return the rules of a file and its settings.

    Raises:
        ValueError: Other users can read or write the file, it is not TOML, or it has rules that are not valid; the
            message names the file and each of these lines.
        FileNotFoundError: The file does not exist.
    """
    file = PrivateFile(path)
    if not file.path.exists():
        raise FileNotFoundError(f"no such file of rules: {file.path}")
    try:
        text = file.read()
        table = _table(text)
    except ValueError as error:
        message = str(error)
        raise ValueError(message if str(file.path) in message else f"{file.path}: {message}") from error
    complaints = [f"{file.path}, line {line}: {complaint}" for line, complaint in _complaints(text)]
    if complaints:
        raise ValueError("\n".join(complaints))
    return _parsed(table, file)


def _table(text: str) -> dict[str, Any]:
    table: object = tomllib.loads(text).get("permissions", {})
    if not isinstance(table, dict):
        raise ValueError("`permissions` must be a table")
    return cast("dict[str, Any]", table)


def _complaints(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the error of each rule or setting that is not valid."""
    lines = text.split("\n")
    for item in _items(_table(text)):
        try:
            _parsed(dict([item]))
        except ValueError as error:
            # The TOML parser reports no line numbers: it is the first line without which this item is missing.
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
    """Return the table of as many of these lines as can be parsed: a value may end in a later one."""
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
            raise ValueError(f"{name}: {value!r} has the wrong type")
    return Rules(rules, file), settings


def _rule(kind: str, value: object) -> Rule:
    if kind not in KINDS:
        meant = suggestion(kind, [*KINDS, *SETTINGS]) or f"; the kinds are {', '.join(KINDS)}"
        raise ValueError(f"unknown kind or setting {kind!r}{meant}")
    words = list(cast("dict[str, object]", value).values()) if isinstance(value, dict) else [value]
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"{kind}: expected allow, ask or reject, not {word!r}")
    return cast("Rule", value)
