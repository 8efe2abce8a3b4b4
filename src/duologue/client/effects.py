"""What an agent wants to do, taken apart: each effect is one kind of act on one file, or one command.

A tool call says what it is about in several places (its kind, its locations, its changes, its input), all of them the
agent's own words. Every one counts, so that a call that calls itself reading but shows a change is a change too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard, cast

import msgspec

from duologue.client.sensitive import is_protected, looks_secret
from duologue.client.shell import argv_of, line_of, shell_line, words_of
from duologue.conversation.items import ToolCall

__all__ = [
    "CHANGING",
    "KINDS",
    "Effect",
    "Invocation",
    "Scene",
    "absolute",
    "command_effect",
    "effects_of_tool",
    "path_effects",
]

KINDS = (
    *("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"),
    # Not kinds of the protocol: what a file is, beside what is done to it.
    *("secrets", "protected"),
)
MOST_PATHS = 256
"""More than anybody reads before answering; the rest counts as not known."""
MOST_CHARACTERS = 4096
"""The longest path there can be."""
PATH_KINDS = frozenset({"read", "edit", "delete", "move", "search"})
CHANGING = frozenset({"edit", "delete", "move"})
READING = frozenset({"read", "search"})

COMMAND_KEYS = ("command", "cmd", "script", "commandLine", "command_line")
PLACE_KEYS = ("cwd", "workdir", "working_directory", "workingDirectory")
PATH_KEYS = (
    *("path", "file_path", "filePath", "abs_path", "absolute_path", "absolutePath", "filename", "fileName"),
    *("notebook_path", "target_file", "targetFile", "old_path", "new_path", "source", "destination"),
)
"""How agents call these in the input of their tools."""

_DISPLAY_VARIABLES = """
CI COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM COLORTERM LANG LANGUAGE TZ NODE_ENV
PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE RUST_BACKTRACE DEBIAN_FRONTEND GIT_TERMINAL_PROMPT
"""
HARMLESS_VARIABLES = frozenset(_DISPLAY_VARIABLES.split())
"""Variables that change how a program looks and not what it does."""


@dataclass(frozen=True)
class Scene:
    """Where an act takes place: the session, its directory, and all directories it may work in, without links."""

    session_id: str
    cwd: str
    roots: tuple[str, ...]

    @classmethod
    def of(cls, session_id: str, cwd: str, roots: Sequence[str] = ()) -> Scene:
        """The scene of a session; where it may work is its own directory unless more is said."""
        here = os.path.realpath(cwd)
        return cls(session_id, here, tuple(dict.fromkeys([here, *map(os.path.realpath, roots)])))

    def beneath(self, path: str) -> str | None:
        """The rest of a path that lies in one of the directories, the innermost of several; None for any other."""
        rests = [rest for root in self.roots if (rest := _rest(path, root)) is not None]
        return min(rests, key=len, default=None)


@dataclass(frozen=True)
class Invocation:
    """A command as it is judged and remembered.

    Attributes:
        line: As a person reads it, all of it.
        words: The program and its arguments; empty if the line is more than one simple command.
        place: The directory it runs in.
        env: Variables set for it, as far as they may change what it does.
    """

    line: str
    words: tuple[str, ...]
    place: str
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Effect:
    """One kind of act on one thing.

    Attributes:
        kind: One of `KINDS`.
        path: The file, without links; None if it is not known.
        spelling: The path as it was written, made absolute.
        command: The command.
        subject: What stands for a thing that has neither: a digest of the whole call.
    """

    kind: str
    path: str | None = None
    spelling: str | None = field(default=None, compare=False)
    command: Invocation | None = None
    subject: str = ""


def path_effects(kind: str, path: str, scene: Scene, *, resolved: str | None = None) -> list[Effect]:
    """The effects of an act on a file: of its own kind, and those that the file itself brings."""
    written = absolute(path, scene.cwd)
    if written is None:
        return [Effect(kind, subject=path)]
    spelling, real = os.path.normpath(written), resolved or os.path.realpath(written)
    names = [_named_in(scene, each) for each in (spelling, real)]
    kinds = [kind]
    if kind in READING and any(map(looks_secret, names)):
        kinds.append("secrets")
    if kind in CHANGING and any(map(is_protected, names)):
        kinds.append("protected")
    return [Effect(each, real, spelling) for each in kinds]


def absolute(path: str, cwd: str) -> str | None:
    """The path from the top; None for what is no path, or may be understood as another."""
    if not path or "\0" in path or "://" in path or len(path) > MOST_CHARACTERS:
        return None
    try:
        os.fsencode(path)
        return str(Path(cwd) / Path(path).expanduser())
    except (UnicodeEncodeError, RuntimeError):
        return None


def command_effect(argv: Sequence[str], place: str, env: Mapping[str, str] | None = None) -> Effect:
    """The effect of running this in a directory, whose path holds no links.

    A shell that is given one simple command is that command.
    """
    line = shell_line(argv)
    words = list(argv) if line is None else words_of(line)
    variables = tuple(sorted(each for each in (env or {}).items() if not _is_harmless(each[0])))
    shown = line_of(words) if words is not None else line or ""
    return Effect("execute", command=Invocation(shown, tuple(words or ()), place, variables))


def effects_of_tool(tool: ToolCall, scene: Scene) -> list[Effect]:
    """Everything that a tool call says it will do, each effect once; never none."""
    said: object = tool.raw_input
    given = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    kind = tool.kind if tool.kind in KINDS[:-2] else "other"
    found = _commands_of(given, scene)
    acts: list[tuple[str, str]] = []
    if kind in PATH_KINDS or not found:
        paths = [location.path for location in tool.locations] + _texts(given, PATH_KEYS)
        acts += [(kind, path) for path in paths]
    for change in tool.changes:
        done = change.kind if change.kind in CHANGING else "edit"
        acts += [(done, path) for path in (change.path, change.old_path) if path is not None]
    for done, path in list(dict.fromkeys(acts))[:MOST_PATHS]:
        found += path_effects(done, path, scene)
    if len(acts) > MOST_PATHS or kind not in [effect.kind for effect in found]:
        found.append(Effect(kind, subject=_digest(tool)))
    return list(dict.fromkeys(found))


def _commands_of(given: dict[str, Any], scene: Scene) -> list[Effect]:
    place = absolute(next(iter(_texts(given, PLACE_KEYS)), "."), scene.cwd)
    place = "" if place is None else os.path.realpath(place)
    args, env = given.get("args"), given.get("env")
    effects: list[Effect] = []
    for value in [given[key] for key in COMMAND_KEYS if key in given]:
        argv = _argv(value, args)
        if argv is not None:
            effects.append(command_effect(argv, place, env if _is_environment(env) else None))
    return effects


def _argv(value: object, args: object) -> list[str] | None:
    if isinstance(value, str) and value.strip():
        return argv_of(value, args if _is_texts(args) else ())
    return value if _is_texts(value) and value else None


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value))


def _is_environment(value: object) -> TypeGuard[dict[str, str]]:
    if not isinstance(value, dict):
        return False
    return all(isinstance(text, str) for item in cast("dict[object, object]", value).items() for text in item)


def _texts(given: dict[str, Any], keys: Sequence[str]) -> list[str]:
    return [given[key] for key in keys if isinstance(given.get(key), str) and given[key]]


def _is_harmless(variable: str) -> bool:
    return variable in HARMLESS_VARIABLES or variable.startswith("LC_")


def _digest(tool: ToolCall) -> str:
    said = [tool.kind, tool.name, tool.title, None if tool.raw_input is msgspec.UNSET else tool.raw_input]
    return hashlib.sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()


def _named_in(scene: Scene, path: str) -> str:
    """What counts as the name of a file: a project may itself stand in a directory with a telling name."""
    rest = scene.beneath(path)
    return path if rest is None else rest


def _rest(path: str, root: str) -> str | None:
    root = root.rstrip("/")
    if path == root or not root:
        return path[len(root) :].lstrip("/")
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else None
