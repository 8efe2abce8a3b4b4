"""The raw input of a tool call, as far as it is understood: commands with directory and variables, and files.

Every agent has its own names for these. What is not understood stays visible as `rest`, so that it is shown and
remembered too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard, cast

import msgspec

from duologue.client.permissions.command_line import argv_of
from duologue.conversation.items import ToolCall

MOST_CHARACTERS = 4096
"""The longest possible path."""
PATH_KINDS = frozenset({"read", "edit", "delete", "move", "search"})

COMMAND_KEYS = ("command", "cmd", "script", "commandLine", "command_line")
ARGUMENT_KEYS = ("args", "arguments")
CWD_KEYS = ("cwd", "workdir", "working_directory", "workingDirectory")
PATH_KEYS = (
    *("path", "file_path", "filePath", "abs_path", "absolute_path", "absolutePath", "filename", "fileName"),
    *("notebook_path", "target_file", "targetFile", "old_path", "new_path", "source", "destination"),
)
"""Names of these in the input of tools of published agents."""

DESCRIBING_KEYS = frozenset({"description", "explanation", "timeout", "timeout_ms", "timeoutMs"})
"""Keys for why something is done and how long it may take, but not what."""
TEXT_KEYS = frozenset(
    {
        *("content", "contents", "text", "file_text", "insert_text", "old_text", "new_text", "oldText", "newText"),
        *("old_string", "new_string", "oldString", "newString", "old_str", "new_str", "replace_all", "replaceAll"),
        *("line", "limit", "offset"),
    }
)
"""Keys for the text of a file, or a part of it: covered by a decision on that file."""


@dataclass(frozen=True)
class ToolInput:
    """The parts of a raw input.

    Attributes:
        commands: Program and arguments of each command.
        cwd: Directory of the commands, as it was written; `None`: the session's own.
        env: Variables that are set for them.
        paths: Files, as they were written.
        rest: Everything that is not understood; `None` if there is nothing.
    """

    commands: list[list[str]] = field(default_factory=list[list[str]])
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    paths: list[str] = field(default_factory=list[str])
    rest: Any = None


def read_input(tool: ToolCall) -> ToolInput:
    """Parse the raw input of a tool call."""
    raw: object = tool.raw_input
    if not isinstance(raw, dict):
        return ToolInput(rest=None if raw is msgspec.UNSET else raw)
    rest = {key: value for key, value in cast("dict[str, Any]", raw).items() if value not in (None, "", [], {})}
    for key in DESCRIBING_KEYS:
        rest.pop(key, None)
    arguments = _first(rest, ARGUMENT_KEYS)
    found = {key: argv for key in COMMAND_KEYS if (argv := _argv(rest.get(key), arguments)) is not None}
    cwd, env = _first(rest, CWD_KEYS), rest.get("env")
    understood = set(found)
    if found:
        understood |= {key for key in (_key(rest, ARGUMENT_KEYS), "env") if key is not None}
        if isinstance(cwd, str) and absolute(cwd, "/") is not None:
            understood.add(_key(rest, CWD_KEYS) or "")
        if not _is_environment(env):
            understood.discard("env")
    paths: dict[str, str] = {}
    if tool.kind in PATH_KINDS or not found:
        paths = {key: rest[key] for key in PATH_KEYS if isinstance(rest.get(key), str)}
    if tool.kind in PATH_KINDS:
        understood |= {key for key in TEXT_KEYS if not isinstance(rest.get(key), dict | list)}
    return ToolInput(
        commands=list(found.values()),
        cwd=cwd if isinstance(cwd, str) else None,
        env=env if _is_environment(env) else {},
        paths=list(paths.values()),
        rest={key: value for key, value in rest.items() if key not in understood and key not in paths} or None,
    )


def absolute(path: str, cwd: str) -> str | None:
    """Return the absolute path; `None` for a text that is not a path, or may be understood as another one."""
    if not path or "\0" in path or "://" in path or len(path) > MOST_CHARACTERS:
        return None
    try:
        os.fsencode(path)
        return str(Path(cwd) / Path(path).expanduser())
    except (UnicodeEncodeError, RuntimeError):
        return None


def _argv(command: object, arguments: object) -> list[str] | None:
    """Return program and arguments; arguments that are not a list are part of the command line."""
    if _is_texts(command) and command:
        return [*command, *(arguments if _is_texts(arguments) else _texts_of(arguments))]
    if not isinstance(command, str) or not command.strip():
        return None
    if _is_texts(arguments):
        return argv_of(command, arguments)
    return argv_of(" ".join([command, *_texts_of(arguments)]), ())


def _texts_of(arguments: object) -> list[str]:
    if arguments is None:
        return []
    return [arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()]


def _key(given: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((key for key in keys if key in given), None)


def _first(given: Mapping[str, Any], keys: Sequence[str]) -> object:
    key = _key(given, keys)
    return None if key is None else given[key]


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value))


def _is_environment(value: object) -> TypeGuard[dict[str, str]]:
    if not isinstance(value, dict):
        return False
    return all(isinstance(text, str) for item in cast("dict[object, object]", value).items() for text in item)
