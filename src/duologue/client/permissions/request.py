"""A question to the user: a value that any thread may answer, once, now or later.

Answers name a kind of option, never its place, its name or its id: `allow()` is the option of kind `allow_once`. An
answer that the agent offers no option for is no yes: a refusal without such an option cancels the question.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from duologue.client.permissions.actions import Action, ActionContext, effects_of_tool
from duologue.client.permissions.details import ToolCallDetails, details_of
from duologue.client.permissions.patterns import offered_patterns
from duologue.conversation.items import ToolCall
from duologue.protocol.values import PermissionOption
from duologue.sanitize import escape_line

__all__ = ["REJECTING", "PermissionDecision", "PermissionRequest", "Scope"]

Scope: TypeAlias = Literal["turn", "session", "project"]
"""How long an answer is remembered: until the turn ends, until the session does, or wherever the directory is used."""

ALLOWING = ("allow_once", "allow_always")
REJECTING = ("reject_once", "reject_always")

NOTES = {
    "protected": "other programs act on what stands in this file",
    "secrets": "the name of this file says that it holds secrets",
}


@dataclass(frozen=True)
class PermissionDecision:
    """What somebody said.

    Attributes:
        option: The chosen option; None if the question was cancelled.
        by: Who or what said so.
        scope: How long it is remembered; None for this once.
        seconds: When it is forgotten at the latest; None for never.
        rule: A pattern for commands to remember instead of this very one.
    """

    option: PermissionOption | None
    by: str
    scope: Scope | None = None
    seconds: float | None = None
    rule: str | None = None

    @property
    def is_allowed(self) -> bool:
        return self.option is not None and self.option.kind in ALLOWING

    @property
    def outcome(self) -> str:
        """`allow`, `reject`, `cancelled`, or `other` for an option of a kind nobody knows."""
        if self.option is None:
            return "cancelled"
        return "allow" if self.is_allowed else "reject" if self.option.kind in REJECTING else "other"


@dataclass(eq=False, kw_only=True)
class PermissionRequest:
    """May the agent do this? The first answer counts; each answering method returns whether it was that one.

    Attributes:
        session_id: Whose turn it is.
        cwd: The directory of the session.
        tool: What the agent says it wants to do. Its words are its own: show `title`, `command` and `paths` instead.
        options: The answers that the agent offers.
        raw: The request as it came; empty if nobody asked and an act itself is in question.
        roots: All directories of the session.
        method: The method of the protocol that brought it up.
    """

    session_id: str
    cwd: str
    tool: ToolCall
    options: list[PermissionOption]
    raw: bytes = b""
    roots: Sequence[str] = ()
    method: str = "session/request_permission"
    given_effects: Sequence[Action] | None = field(default=None, repr=False)
    future: Future[PermissionDecision] = field(default_factory=Future[PermissionDecision], init=False, repr=False)
    _armed_at: float = field(default=0.0, init=False, repr=False)

    # --- what it is about

    @cached_property
    def scene(self) -> ActionContext:
        """Where it would happen."""
        return ActionContext.of(self.session_id, self.cwd, self.roots)

    @cached_property
    def effects(self) -> list[Action]:
        """All that would be done, one by one."""
        return effects_of_tool(self.tool, self.scene) if self.given_effects is None else list(self.given_effects)

    @cached_property
    def remainder(self) -> ToolCallDetails:
        """What the tool call shows beyond its effects."""
        return details_of(self.tool) if self.given_effects is None else ToolCallDetails()

    @property
    def acts(self) -> list[str]:
        """Each effect in a line of its own, in full: a yes is about these, and a remembered yes about these alone."""
        effects = [effect for effect in self.effects if effect.kind not in NOTES]
        named = {effect.kind for effect in effects if _named(effect) is not None}
        if not named:
            return [f"{effect.kind}: neither file nor command is named" for effect in effects]
        # `other` beside something that is named says no more than that.
        shown = [effect for effect in effects if _named(effect) is not None or effect.kind not in {*named, "other"}]
        return list(dict.fromkeys(map(_line, shown)))

    @property
    def details(self) -> list[str]:
        """What the agent shows that no line of `acts` stands for: input, text, places. A remembered yes covers it."""
        return list(self.remainder.lines)

    @property
    def is_shown_whole(self) -> bool:
        """Whether `acts` and `details` are all there is; if not, a user has not seen what a yes would allow."""
        return not self.remainder.hidden_files and not self.remainder.hidden_characters

    @property
    def can_be_remembered(self) -> bool:
        """Whether enough was shown to know it again: a file, a command, or what the agent sent with it; all of it."""
        is_specific = bool(self.remainder.digest) or any(
            each.path or each.command or each.spelling for each in self.effects
        )
        return is_specific and self.is_shown_whole and not self.remainder.has_media

    @property
    def title(self) -> str:
        """What the agent calls it: one line, cut, with nothing in it that acts on a terminal."""
        return escape_line(self.tool.title)

    @property
    def command(self) -> str | None:
        """The commands that would run, in full, whatever the title says."""
        lines = [effect.command.line for effect in self.effects if effect.command is not None]
        return escape_line("; ".join(lines), most=None) if lines else None

    @property
    def paths(self) -> list[str]:
        """The files it is about, where they really are."""
        return list(
            dict.fromkeys(escape_line(effect.path, most=None) for effect in self.effects if effect.path is not None)
        )

    @property
    def notes(self) -> list[str]:
        """What a person should know before answering."""
        notes = [
            f"{escape_line(each.path or '', None)}: {NOTES[each.kind]}" for each in self.effects if each.kind in NOTES
        ]
        for effect in self.effects:
            if effect.command is not None:
                notes += [
                    f"sets {escape_line(name, None)}={escape_line(value, None)}" for name, value in effect.command.env
                ]
                if self.scene.cwd != effect.command.place:
                    notes.append(
                        f"runs in {escape_line(effect.command.place, None) or 'a directory that is not known'}"
                    )
            elif effect.path is not None and self.scene.beneath(effect.path) is None:
                notes.append(f"{escape_line(effect.path, None)}: outside the directories of the session")
        return list(dict.fromkeys(notes))

    @property
    def offered_rules(self) -> list[str]:
        """Patterns that may be remembered with `allow(rule=…)`, the narrowest first."""
        if self.remainder.digest:
            return []  # a rule is about the command alone
        commands = [effect.command for effect in self.effects if effect.command is not None]
        return offered_patterns(commands[0]) if len(commands) == len(self.effects) == 1 else []

    @cached_property
    def usable_options(self) -> list[PermissionOption]:
        """Options that an answer can name: those whose id is theirs alone."""
        ids = Counter(option.option_id for option in self.options)
        return [option for option in self.options if ids[option.option_id] == 1]

    # --- answering

    @property
    def is_open(self) -> bool:
        """Whether an answer still counts."""
        return not self.future.done()

    def allow(
        self,
        *,
        always: bool = False,
        remember: Scope | None = None,
        seconds: float | None = None,
        rule: str | None = None,
    ) -> bool:
        """Yes, to exactly this.

        Args:
            always: Tell the agent to ask no more, if it offers that, and remember it for the session.
            remember: Do not ask the user about exactly this again in this scope. It counts once where
                `can_be_remembered` is false.
            seconds: Forget it after this time at the latest.
            rule: Remember this one of `offered_rules` instead of the very command.

        Raises:
            ValueError: The agent offers no such answer, or the rule was not offered.
        """
        if rule is not None and rule not in self.offered_rules:
            raise ValueError("no such rule was offered")
        option = self.option_of_kind(*reversed(ALLOWING)) if always else self.option_of_kind("allow_once")
        if option is None:
            raise ValueError("the agent offers no such answer; choose one of its options")
        scope = remember or ("session" if always or rule is not None else None)
        return self.resolve(PermissionDecision(option, "user", scope, seconds, rule))

    def reject(self, *, always: bool = False, remember: Scope | None = None, seconds: float | None = None) -> bool:
        """No. If the agent offers no such answer, the question is cancelled, which is no yes either."""
        option = self.option_of_kind(*(reversed(REJECTING) if always else REJECTING))
        return self.resolve(PermissionDecision(option, "user", remember or ("session" if always else None), seconds))

    def choose(self, option_id: str) -> bool:
        """The agent's own option with this id.

        Raises:
            ValueError: No such option was offered, or several have this id and nobody knows which is meant.
        """
        for option in self.usable_options:
            if option.option_id == option_id:
                return self.resolve(
                    PermissionDecision(option, "user", "session" if option.kind.endswith("_always") else None)
                )
        raise ValueError("no such option was offered")

    def cancel(self) -> bool:
        """Neither yes nor no: the question is dropped."""
        return self.resolve(PermissionDecision(None, "user"))

    async def answered(self) -> PermissionDecision:
        """The answer, once there is one."""
        await asyncio.wait([asyncio.wrap_future(self.future)])
        return self.future.result()

    # --- for those who ask it

    def enable_after(self, seconds: float) -> None:
        """From now on a yes counts only after this time: a key that is still held down answers nothing."""
        self._armed_at = time.monotonic() + seconds

    def option_of_kind(self, *kinds: str) -> PermissionOption | None:
        """The first option of the first kind that is offered."""
        return next((option for kind in kinds for option in self.usable_options if option.kind == kind), None)

    def resolve(self, answer: PermissionDecision) -> bool:
        """Take this for the answer, if there is none yet."""
        if answer.by == "user" and answer.outcome not in ("reject", "cancelled") and time.monotonic() < self._armed_at:
            return False
        try:
            self.future.set_result(answer)
        except InvalidStateError:
            return False
        return True


def _named(effect: Action) -> str | None:
    return effect.path or effect.spelling if effect.command is None else effect.command.line


def _line(effect: Action) -> str:
    named = _named(effect)
    return f"{effect.kind}: {'what it is done to is not named' if named is None else escape_line(named, None)}"
