"""Remembered decisions: for exactly what was shown, in the given scope, and for one agent.

    turn      until the end of the turn        in this process
    session   until the session is closed      in this process
    project   in this directory                in a file, or without one while this object lives

Allowing a tool call also covers the one action that the call announced, in the same turn: see `TurnGrants.consume`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from duologue.client.permissions.actions import Action, ActionContext, CommandInvocation
from duologue.client.permissions.patterns import CommandPattern
from duologue.client.permissions.request import PermissionDecision, PermissionRequest
from duologue.private_files import PrivateFile

_log = logging.getLogger("duologue.client")


TYPE = "remembered_decision"
VERSION = 2
"""Type and version that each line of the file names; a file with a line of a newer version is rejected."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=TYPE):
    """One remembered decision, on one action or on commands that match a rule; the fields are those of the file."""

    version: int
    decision: Literal["allow", "reject"]
    agent: str
    cwd: str
    kind: str
    path: str | None = None
    command: str | None = None
    command_cwd: str | None = None
    env: dict[str, str] = {}
    subject: str = ""
    details: str = ""
    """Digest of the tool call's details: an allowing decision covers only the same ones, a rejection covers all."""
    rule: str | None = None
    until: float | None = None

    def fits(self, action: Action, details: str, agent: str, context: ActionContext) -> bool:
        if (self.agent, self.cwd, self.kind) != (agent, context.cwd, action.kind):
            return False
        if self.until is not None and time.time() >= self.until:
            return False
        if self.decision == "allow" and self.details != details:
            return False
        if self.rule is not None:
            command = action.command
            return command is not None and command.cwd == self.command_cwd and self._matches_rule(command)
        return _identity(action) == (self.path, self.command, self.command_cwd, self.env, self.subject)

    def _matches_rule(self, command: CommandInvocation) -> bool:
        try:
            return CommandPattern(self.rule or "", allows=True).matches_strictly(command)
        except ValueError:
            return False


def _identity(action: Action) -> tuple[str | None, str | None, str | None, dict[str, str], str]:
    command = action.command
    if command is None:
        return action.path, None, None, {}, action.subject
    return action.path, command.line, command.cwd, dict(command.env), action.subject


class TurnGrants:
    """Decisions of one turn; `is_over` is set at its end."""

    def __init__(self) -> None:
        self.is_over = False
        self.entries: list[_Entry] = []
        self._granted: list[set[Action]] = []
        self._rejected: set[Action] = set()

    def grant(self, actions: Iterable[Action]) -> None:
        """Remember that the user allowed a tool call with these actions."""
        granted = set(actions)
        self._granted.append(granted)
        self._rejected -= granted

    def reject(self, actions: Iterable[Action]) -> None:
        """Remember that the user rejected these actions."""
        self._rejected.update(actions)

    def is_rejected(self, actions: Iterable[Action]) -> bool:
        """Return True if the user has rejected any of these actions and not allowed it since."""
        return not self._rejected.isdisjoint(actions)

    def consume(self, actions: Iterable[Action]) -> bool:
        """Return True if an allowed tool call covers all of these actions; each one does so once."""
        wanted = set(actions)
        for granted in self._granted:
            if wanted <= granted:
                granted -= wanted
                return True
        return False


class RememberedDecisions:
    """Remembered decisions of all sessions, and those that outlive them.

    Args:
        file: File for decisions of scope `project`; without one they end with this object.
    """

    def __init__(self, file: PrivateFile | None = None) -> None:
        self.file = file
        self._sessions: dict[tuple[str, str], list[_Entry]] = {}
        self._state = None if file is None else file.state()
        self._projects: list[_Entry] = [] if file is None else list(_read(file))

    def remember(self, decision: PermissionDecision, request: PermissionRequest, agent: str, turn: TurnGrants) -> None:
        """Store a decision if it has a scope and covers exactly what was shown.

        Raises:
            OSError, ValueError: It could not be written.
        """
        if decision.scope is None or decision.outcome not in ("allow", "reject"):
            return
        if decision.is_allowed and not request.can_be_remembered:
            _log.info("a decision counts once: the request was not specific, or not shown in full")
            return
        context = request.context
        for action in request.actions:
            entry = _entry(decision, action, request.extra.digest, agent, context)
            if decision.scope == "turn":
                turn.entries.append(entry)
            elif decision.scope == "session":
                self._sessions.setdefault((agent, context.session_id), []).append(entry)
            else:
                if entry.decision == "reject":
                    self._projects.append(entry)  # counts here even if it cannot be written
                if self.file is not None:
                    self.file.append(msgspec.json.encode(entry).decode("utf-8"))
                if entry.decision == "allow":
                    self._projects.append(entry)

    def recall(
        self, action: Action, request: PermissionRequest, agent: str, turn: TurnGrants
    ) -> Literal["allow", "reject"] | None:
        """Return the decision on exactly this action of a request; of several decisions a rejection counts."""
        self._read_new_rejections()
        entries = [*turn.entries, *self._sessions.get((agent, request.session_id), ()), *self._projects]
        details, context = request.extra.digest, request.context
        decisions = {entry.decision for entry in entries if entry.fits(action, details, agent, context)}
        return "reject" if "reject" in decisions else "allow" if decisions else None

    def _read_new_rejections(self) -> None:
        """Read what another process has rejected since; what it has allowed counts from the next start."""
        if self.file is None or (state := self.file.state()) == self._state:
            return
        self._state = state
        try:
            rejected = [entry for entry in _read(self.file) if entry.decision == "reject"]
        except (OSError, ValueError):
            _log.exception("the file of remembered decisions can no longer be read; those read before stay in force")
        else:
            self._projects += [entry for entry in rejected if entry not in self._projects]

    def forget_session(self, agent: str, session_id: str) -> None:
        """Forget the decisions of a closed session."""
        self._sessions.pop((agent, session_id), None)


def _entry(decision: PermissionDecision, action: Action, details: str, agent: str, context: ActionContext) -> _Entry:
    path, command, command_cwd, env, subject = _identity(action)
    return _Entry(
        version=VERSION,
        decision="allow" if decision.is_allowed else "reject",
        agent=agent,
        cwd=context.cwd,
        kind=action.kind,
        path=path,
        command=None if decision.rule is not None else command,
        command_cwd=command_cwd,
        env=env,
        subject=subject,
        details=details,
        rule=decision.rule,
        until=None if decision.seconds is None else time.time() + decision.seconds,
    )


class _Header(msgspec.Struct):
    """The format that a line names; lines of version 1 name none, and those of an audit log have `effects`."""

    type: str = TYPE
    version: int = 1
    effects: Any = None


_NAMES_OF_VERSION_1 = {"word": "decision", "line": "command", "place": "command_cwd", "shown": "details"}


def _read(file: PrivateFile) -> Iterable[_Entry]:
    """Yield the decisions of a file, whose lines may be of different versions; skip damaged lines.

    Raises:
        ValueError: A line is of a newer version and might be a rejection, or the file is an audit log.
    """
    # `splitlines` would also split at U+2028, which JSON does not escape.
    for line in filter(None, file.read().split("\n")):
        try:
            yield _parse(line)
        except msgspec.MsgspecError:
            _log.warning("a remembered decision cannot be read and is ignored: %s", file.path)
        except ValueError as error:
            raise ValueError(f"{file.path}: {error}") from None


def _parse(line: str) -> _Entry:
    header = msgspec.json.decode(line, type=_Header)
    if header.type != TYPE or header.effects is not None:
        raise ValueError("this is not a file of remembered decisions, but perhaps an audit log; name another file")
    if header.version > VERSION:
        raise ValueError(f"a decision has version {header.version}; this program supports versions up to {VERSION}")
    if header.version == VERSION:
        return msgspec.json.decode(line, type=_Entry)
    fields = msgspec.json.decode(line, type=dict[str, Any])
    renamed = {_NAMES_OF_VERSION_1.get(name, name): value for name, value in fields.items()}
    return msgspec.convert({**renamed, "version": VERSION}, type=_Entry)
