"""What an agent wants to do, taken apart: each effect is one kind of act on one file, or one command.

A tool call says what it is about in several places (its kind, its locations, its changes, its input), all of them the
agent's own words. Every one counts, so that a call that calls itself reading but shows a change is a change too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from duologue.client.permissions.command_line import join, shell_line, split
from duologue.client.permissions.sensitive_paths import is_protected, is_secret_path
from duologue.client.permissions.tool_input import PATH_KINDS, ToolInput, absolute, read_input
from duologue.conversation.items import ToolCall

__all__ = [
    "CHANGING",
    "KINDS",
    "MOST_PATHS",
    "Action",
    "ActionContext",
    "CommandInvocation",
    "acts_on_files",
    "command_effect",
    "effects_of_tool",
    "has_locations",
    "path_effects",
]

KINDS = (
    *("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"),
    # Not kinds of the protocol: what a file is, beside what is done to it.
    *("secrets", "protected"),
)
MOST_PATHS = 256
"""Files of one tool call that are judged and shown; what it does to others counts as not known."""
CHANGING = frozenset({"edit", "delete", "move"})
READING = frozenset({"read", "search"})

_DISPLAY_VARIABLES = """
CI COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM COLORTERM LANG LANGUAGE TZ NODE_ENV
PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE RUST_BACKTRACE DEBIAN_FRONTEND GIT_TERMINAL_PROMPT
"""
HARMLESS_VARIABLES = frozenset(_DISPLAY_VARIABLES.split())
"""Variables that change how a program looks and not what it does, as long as their values name no files."""
HARMLESS_VALUE = re.compile(r"(?!.*\.\.)[^/:][^\0]*|", re.DOTALL)


@dataclass(frozen=True)
class ActionContext:
    """Where an act takes place: the session, its directory, and all directories it may work in, without links."""

    session_id: str
    cwd: str
    roots: tuple[str, ...]

    @classmethod
    def of(cls, session_id: str, cwd: str, roots: Sequence[str] = ()) -> ActionContext:
        """The scene of a session; where it may work is its own directory unless more is said."""
        here = os.path.realpath(cwd)
        return cls(session_id, here, tuple(dict.fromkeys([here, *map(os.path.realpath, roots)])))

    def beneath(self, path: str) -> str | None:
        """The rest of a path that lies in one of the directories, the innermost of several; None for any other."""
        rests = [rest for root in self.roots if (rest := _rest(path, root)) is not None]
        return min(rests, key=len, default=None)


@dataclass(frozen=True)
class CommandInvocation:
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
class Action:
    """One kind of act on one thing.

    Attributes:
        kind: One of `KINDS`.
        path: The file, without links; None if it is not known.
        spelling: The path as it was written, made absolute if it is one.
        command: The command.
        subject: What stands for a thing that has neither: a digest of all that the call shows.
    """

    kind: str
    path: str | None = None
    spelling: str | None = field(default=None, compare=False)
    command: CommandInvocation | None = None
    subject: str = ""


def path_effects(kind: str, path: str, scene: ActionContext, *, resolved: str | None = None) -> list[Action]:
    """The effects of an act on a file: of its own kind, and those that the file itself brings."""
    written = absolute(path, scene.cwd)
    if written is None:
        return [Action(kind, spelling=path, subject=path)]
    spelling, real = os.path.normpath(written), resolved or os.path.realpath(written)
    names = [_named_in(scene, each) for each in (spelling, real)]
    kinds = [kind]
    if kind in READING and any(map(is_secret_path, names)):
        kinds.append("secrets")
    if kind in CHANGING and any(map(is_protected, names)):
        kinds.append("protected")
    return [Action(each, real, spelling) for each in kinds]


def command_effect(argv: Sequence[str], place: str, env: Mapping[str, str] | None = None) -> Action:
    """The effect of running this in a directory, whose path holds no links.

    A shell that is given one simple command is that command.
    """
    line = shell_line(argv)
    words = list(argv) if line is None else split(line)
    variables = tuple(sorted(each for each in (env or {}).items() if not _is_harmless(*each)))
    shown = join(words) if words is not None else line or ""
    return Action("execute", command=CommandInvocation(shown, tuple(words or ()), place, variables))


def effects_of_tool(tool: ToolCall, scene: ActionContext) -> list[Action]:
    """Everything that a tool call says it will do, each effect once; never none."""
    given = read_input(tool)
    kind = tool.kind if tool.kind in KINDS[:-2] else "other"
    place = absolute(given.place or ".", scene.cwd)
    where = "" if place is None else os.path.realpath(place)
    found = [command_effect(argv, where, given.env) for argv in given.commands]
    acts = acts_on_files(tool)
    for done, path in acts[:MOST_PATHS]:
        found += path_effects(done, path, scene)
    if len(acts) > MOST_PATHS or kind not in [effect.kind for effect in found]:
        found.append(Action(kind, subject=_digest(tool)))
    if tool.is_truncated and kind == "other":  # what it said of its kind may have been dropped, so it may be any
        found += [Action(each, subject=_digest(tool)) for each in KINDS[:-2]]
    return list(dict.fromkeys(found))


def acts_on_files(tool: ToolCall) -> list[tuple[str, str]]:
    """What is done to which file, as far as a tool call names them: all of them, as they were written."""
    given = read_input(tool)
    acts: list[tuple[str, str]] = []
    if has_locations(tool, given):
        kind = tool.kind if tool.kind in KINDS[:-2] else "other"
        acts += [(kind, path) for path in (*(location.path for location in tool.locations), *given.paths)]
    for change in tool.changes:
        done = change.kind if change.kind in CHANGING else "edit"
        acts += [(done, path) for path in (change.path, change.old_path) if path is not None]
    return list(dict.fromkeys(acts))


def has_locations(tool: ToolCall, given: ToolInput) -> bool:
    """Whether the locations of a tool call are what it acts on; those of a command are not."""
    return tool.kind in PATH_KINDS or not given.commands


def _is_harmless(variable: str, value: str) -> bool:
    # A value that is a path makes programs load translations or time zones from there; `Europe/Berlin` is none.
    is_plain = HARMLESS_VALUE.fullmatch(value) is not None and ("/" not in value or variable == "TZ")
    return is_plain and (variable in HARMLESS_VARIABLES or variable.startswith("LC_"))


def _digest(tool: ToolCall) -> str:
    """Stands for all that a tool call shows."""
    given = None if tool.raw_input is msgspec.UNSET else tool.raw_input
    shown = [tool.kind, tool.name, tool.title, given, tool.content, tool.locations]
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()


def _named_in(scene: ActionContext, path: str) -> str:
    """What counts as the name of a file: a project may itself stand in a directory with a telling name."""
    rest = scene.beneath(path)
    return path if rest is None else rest


def _rest(path: str, root: str) -> str | None:
    root = root.rstrip("/")
    if path == root or not root:
        return path[len(root) :].lstrip("/")
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else None
