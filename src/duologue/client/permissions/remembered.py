"""Answers that are remembered: for exactly what they were given, so long as was said, and for nobody else.

    turn      until the turn ends              in this process
    session   until the session is closed      in this process
    project   in this directory                in a file, if there is one, or as long as this object lives

A yes to a tool call is also good for the one act that the call announced, in the same turn: see `Turn.spend`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Literal

import msgspec

from duologue.client.permissions.actions import Action, ActionContext, CommandInvocation
from duologue.client.permissions.patterns import CommandPattern
from duologue.client.permissions.request import PermissionDecision, PermissionRequest
from duologue.private_files import PrivateFile

__all__ = ["RememberedDecisions", "TurnGrants"]

_log = logging.getLogger("duologue.client")


class _Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One remembered word; what it is about is exactly one effect, or commands that fit a rule."""

    word: Literal["allow", "reject"]
    agent: str
    cwd: str
    kind: str
    path: str | None = None
    line: str | None = None
    place: str | None = None
    env: dict[str, str] = {}
    subject: str = ""
    shown: str = ""
    """A digest of what the tool call showed beyond its effects: a yes does not cover another, a no does."""
    rule: str | None = None
    until: float | None = None

    def fits(self, effect: Action, shown: str, agent: str, scene: ActionContext) -> bool:
        if (self.agent, self.cwd, self.kind) != (agent, scene.cwd, effect.kind):
            return False
        if (self.until is not None and time.time() >= self.until) or (self.word == "allow" and self.shown != shown):
            return False
        if self.rule is not None:
            command = effect.command
            return command is not None and command.place == self.place and self._allows(command)
        return _thing(effect) == (self.path, self.line, self.place, self.env, self.subject)

    def _allows(self, command: CommandInvocation) -> bool:
        try:
            return CommandPattern(self.rule or "", allows=True).matches_strictly(command)
        except ValueError:
            return False


def _thing(effect: Action) -> tuple[str | None, str | None, str | None, dict[str, str], str]:
    command = effect.command
    if command is None:
        return effect.path, None, None, {}, effect.subject
    return effect.path, command.line, command.place, dict(command.env), effect.subject


class TurnGrants:
    """What was said in one turn. It ends when the turn does, and whatever waits for it finds out."""

    def __init__(self) -> None:
        self.is_over = False
        self.entries: list[_Entry] = []
        self._granted: list[set[Action]] = []
        self._refused: set[Action] = set()

    def grant(self, effects: Iterable[Action]) -> None:
        """The user said yes to a tool call that would do this."""
        granted = set(effects)
        self._granted.append(granted)
        self._refused -= granted

    def refuse(self, effects: Iterable[Action]) -> None:
        """The user said no to this."""
        self._refused.update(effects)

    def is_refused(self, effects: Iterable[Action]) -> bool:
        """Whether the user said no to any of this, and nothing else since."""
        return not self._refused.isdisjoint(effects)

    def consume(self, effects: Iterable[Action]) -> bool:
        """Whether a yes covers all of this; it does so once."""
        wanted = set(effects)
        for granted in self._granted:
            if wanted <= granted:
                granted -= wanted
                return True
        return False


class RememberedDecisions:
    """Remembered answers of all sessions, and those that outlive them.

    Args:
        file: Where answers for a project are kept; without one they end with this object.
    """

    def __init__(self, file: PrivateFile | None = None) -> None:
        self.file = file
        self._sessions: dict[tuple[str, str], list[_Entry]] = {}
        self._state = None if file is None else file.state()
        self._projects: list[_Entry] = [] if file is None else list(_read(file))

    def remember(self, answer: PermissionDecision, question: PermissionRequest, agent: str, turn: TurnGrants) -> None:
        """Keep an answer about what a question has shown, if it is to be kept.

        Raises:
            OSError, ValueError: It could not be written.
        """
        if answer.scope is None or answer.outcome not in ("allow", "reject"):
            return
        if answer.is_allowed and not question.can_be_remembered:
            _log.info("an answer counts once: what was shown is not specific, or not all of it was shown")
            return
        scene = question.scene
        for effect in question.effects:
            entry = _entry(answer, effect, question.remainder.digest, agent, scene)
            if answer.scope == "turn":
                turn.entries.append(entry)
            elif answer.scope == "session":
                self._sessions.setdefault((agent, scene.session_id), []).append(entry)
            else:
                if entry.word == "reject":
                    self._projects.append(entry)  # holds here even if it cannot be written
                if self.file is not None:
                    self.file.append(msgspec.json.encode(entry).decode("utf-8"))
                if entry.word == "allow":
                    self._projects.append(entry)

    def recall(
        self, effect: Action, question: PermissionRequest, agent: str, turn: TurnGrants
    ) -> Literal["allow", "reject"] | None:
        """What was said about exactly this effect of a question; of several answers a rejection counts."""
        self._read_new_rejections()
        known = [*turn.entries, *self._sessions.get((agent, question.session_id), ()), *self._projects]
        shown, scene = question.remainder.digest, question.scene
        words = {entry.word for entry in known if entry.fits(effect, shown, agent, scene)}
        return "reject" if "reject" in words else "allow" if words else None

    def _read_new_rejections(self) -> None:
        """Take over what another process has rejected since; what it has allowed counts from the next start."""
        if self.file is None or (state := self.file.state()) == self._state:
            return
        self._state = state
        try:
            rejected = [entry for entry in _read(self.file) if entry.word == "reject"]
        except (OSError, ValueError):
            _log.exception("remembered answers can no longer be read; those read before count")
        else:
            self._projects += [entry for entry in rejected if entry not in self._projects]

    def forget_session(self, agent: str, session_id: str) -> None:
        """The session is closed."""
        self._sessions.pop((agent, session_id), None)


def _entry(answer: PermissionDecision, effect: Action, shown: str, agent: str, scene: ActionContext) -> _Entry:
    path, line, place, env, subject = _thing(effect)
    until = None if answer.seconds is None else time.time() + answer.seconds
    word: Literal["allow", "reject"] = "allow" if answer.is_allowed else "reject"
    return _Entry(
        word=word,
        agent=agent,
        cwd=scene.cwd,
        kind=effect.kind,
        path=path,
        line=None if answer.rule is not None else line,
        place=place,
        env=env,
        subject=subject,
        shown=shown,
        rule=answer.rule,
        until=until,
    )


def _read(file: PrivateFile) -> Iterable[_Entry]:
    for line in filter(None, file.read().split("\n")):  # JSON leaves U+2028 and its like as they are
        try:
            yield msgspec.json.decode(line, type=_Entry)
        except msgspec.MsgspecError:
            _log.warning("a remembered answer cannot be read and is not used: %s", file.path)
