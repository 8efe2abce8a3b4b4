"""Actions: what an agent wants to do, one kind of action on one file, or one command.

A tool call describes itself in several places (its kind, its locations, its changes, its input), all written by the
agent. Every one counts, so that a call of kind `read` that shows a change is a change too.
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

KINDS = (
    *("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"),
    # Not kinds of the protocol: properties of the file, in addition to the action on it.
    *("secrets", "protected"),
)
MOST_PATHS = 256
"""Files of one tool call that are checked and shown; actions on further ones count as unknown."""
CHANGING = frozenset({"edit", "delete", "move"})
READING = frozenset({"read", "search"})

_DISPLAY_NAMES = """
CI COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM COLORTERM LANG LANGUAGE TZ NODE_ENV
PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE RUST_BACKTRACE DEBIAN_FRONTEND GIT_TERMINAL_PROMPT
"""
DISPLAY_VARIABLES = frozenset(_DISPLAY_NAMES.split())
"""Variables that change what a program displays and not what it does, as long as their values name no files."""
DISPLAY_VALUE = re.compile(r"(?!.*\.\.)[^/:][^\0]*|", re.DOTALL)


@dataclass(frozen=True)
class ActionContext:
    """Context of an action: the session, its directory, and all directories it may work in, without links."""

    session_id: str
    cwd: str
    roots: tuple[str, ...]

    @classmethod
    def of(cls, session_id: str, cwd: str, roots: Sequence[str] = ()) -> ActionContext:
        """Return the context of a session; without further roots it may work in its own directory."""
        here = os.path.realpath(cwd)
        return cls(session_id, here, tuple(dict.fromkeys([here, *map(os.path.realpath, roots)])))

    def relative_path(self, path: str) -> str | None:
        """Return a path relative to the innermost root that contains it; `None` if there is none."""
        rests = [rest for root in self.roots if (rest := _relative_path(path, root)) is not None]
        return min(rests, key=len, default=None)


@dataclass(frozen=True)
class CommandInvocation:
    """A command, as rules and remembered decisions see it.

    Attributes:
        line: The complete command line.
        words: Program and arguments; empty if the line is more than one simple command.
        cwd: Directory it runs in.
        env: Variables set for it, as far as they may change what it does.
    """

    line: str
    words: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Action:
    """One kind of action on one file, or one command.

    Attributes:
        kind: One of `KINDS`.
        path: The file, without links; `None` if it is not known.
        spelling: The path as it was written, made absolute.
        command: The command.
        subject: For an action without file and command, a digest of the tool call.
    """

    kind: str
    path: str | None = None
    spelling: str | None = field(default=None, compare=False)
    command: CommandInvocation | None = None
    subject: str = ""


def path_actions(kind: str, path: str, context: ActionContext, *, resolved: str | None = None) -> list[Action]:
    """Return the actions on a file: the given kind, and `secrets` or `protected` if the file is such a one."""
    written = absolute(path, context.cwd)
    if written is None:
        return [Action(kind, spelling=path, subject=path)]
    spelling, real = os.path.normpath(written), resolved or os.path.realpath(written)
    names = [_name_in(context, each) for each in (spelling, real)]
    kinds = [kind]
    if kind in READING and any(map(is_secret_path, names)):
        kinds.append("secrets")
    if kind in CHANGING and any(map(is_protected, names)):
        kinds.append("protected")
    return [Action(each, real, spelling) for each in kinds]


def command_action(argv: Sequence[str], cwd: str, env: Mapping[str, str] | None = None) -> Action:
    """Return the action of running a command in a directory, whose path has no links.

    A shell that is given one simple command counts as that command.
    """
    line = shell_line(argv)
    words = list(argv) if line is None else split(line)
    variables = tuple(sorted(each for each in (env or {}).items() if not _is_display_only(*each)))
    shown = join(words) if words is not None else line or ""
    return Action("execute", command=CommandInvocation(shown, tuple(words or ()), cwd, variables))


def actions_of_tool(tool: ToolCall, context: ActionContext) -> list[Action]:
    """Return everything that a tool call announces, each action once, and at least one."""
    given = read_input(tool)
    kind = tool.kind if tool.kind in KINDS[:-2] else "other"
    directory = absolute(given.cwd or ".", context.cwd)
    cwd = "" if directory is None else os.path.realpath(directory)
    found = [command_action(argv, cwd, given.env) for argv in given.commands]
    actions = file_actions(tool)
    for done, path in actions[:MOST_PATHS]:
        found += path_actions(done, path, context)
    if len(actions) > MOST_PATHS or kind not in [action.kind for action in found]:
        found.append(Action(kind, subject=_digest(tool)))
    if tool.is_truncated and kind == "other":  # its kind may have been dropped, so it may be any
        found += [Action(each, subject=_digest(tool)) for each in KINDS[:-2]]
    return list(dict.fromkeys(found))


def file_actions(tool: ToolCall) -> list[tuple[str, str]]:
    """Return kind and path of each action on a file that a tool call names, as they are written."""
    given = read_input(tool)
    actions: list[tuple[str, str]] = []
    if has_locations(tool, given):
        kind = tool.kind if tool.kind in KINDS[:-2] else "other"
        actions += [(kind, path) for path in (*(location.path for location in tool.locations), *given.paths)]
    for change in tool.changes:
        done = change.kind if change.kind in CHANGING else "edit"
        actions += [(done, path) for path in (change.path, change.old_path) if path is not None]
    return list(dict.fromkeys(actions))


def has_locations(tool: ToolCall, given: ToolInput) -> bool:
    """Return True if the locations of a tool call are files it acts on; those of a command are not."""
    return tool.kind in PATH_KINDS or not given.commands


def _is_display_only(variable: str, value: str) -> bool:
    # A value that is a path makes programs load translations or time zones from there; `Europe/Berlin` is not a path.
    is_plain = DISPLAY_VALUE.fullmatch(value) is not None and ("/" not in value or variable == "TZ")
    return is_plain and (variable in DISPLAY_VARIABLES or variable.startswith("LC_"))


def _digest(tool: ToolCall) -> str:
    """Return a digest of everything that a tool call shows."""
    given = None if tool.raw_input is msgspec.UNSET else tool.raw_input
    shown = [tool.kind, tool.name, tool.title, given, tool.content, tool.locations]
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()


def _name_in(context: ActionContext, path: str) -> str:
    """Return the part of a path that counts as its name: the project's own directory may be called `.github`."""
    rest = context.relative_path(path)
    return path if rest is None else rest


def _relative_path(path: str, root: str) -> str | None:
    root = root.rstrip("/")
    if path == root or not root:
        return path[len(root) :].lstrip("/")
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else None
