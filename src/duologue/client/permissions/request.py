"""A permission request to the user: a value that any thread may decide, once, now or later.

Decisions name the kind of an option, not its position, name or id: `allow()` is the option of kind `allow_once`. A
rejection for which the agent offers no option cancels the request.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from duologue.client.permissions.actions import Action, ActionContext, actions_of_tool
from duologue.client.permissions.details import ToolCallDetails, details_of
from duologue.client.permissions.patterns import offered_patterns
from duologue.conversation.items import ToolCall
from duologue.conversation.updates import FileChange
from duologue.protocol.values import PermissionOption
from duologue.sanitize import escape_line

Scope: TypeAlias = Literal["turn", "session", "project"]
"""How long a decision is remembered: until the end of the turn, of the session, or for the session's directory."""

Preview: TypeAlias = Callable[[], Awaitable[FileChange]]
"""Returns the change of a file that would be made."""

ALLOWING = ("allow_once", "allow_always")
REJECTING = ("reject_once", "reject_always")

NOTES = {
    "protected": "other programs act on the content of this file",
    "secrets": "the name of this file suggests secrets",
}


@dataclass(frozen=True)
class PermissionDecision:
    """The decision on a permission request.

    Attributes:
        option: The chosen option; `None` if the request was cancelled.
        by: What decided: `user`, `rule`, or a reason such as `no answer in time`.
        scope: How long it is remembered; `None`: not at all.
        seconds: Time after which it is forgotten at the latest; `None`: never.
        rule: Pattern for commands to remember instead of this one command.
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
        """`allow`, `reject`, `cancelled`, or `other` for an option of an unknown kind."""
        if self.option is None:
            return "cancelled"
        return "allow" if self.is_allowed else "reject" if self.option.kind in REJECTING else "other"


@dataclass(eq=False, kw_only=True)
class PermissionRequest:
    """A request to decide. The first decision counts; each deciding method returns False if there was one already.

    Attributes:
        session_id: Id of the session.
        cwd: Working directory of the session.
        tool: The tool call as the agent describes it. To a user, show `title`, `command` and `paths` instead.
        options: Options that the agent offers.
        raw: The request as it was received; empty if the agent acted without asking.
        roots: All directories of the session.
        method: Protocol method of the request or action.
        given_actions: The actions, if they are known without the tool call.
        preview: Returns the change that would be made, if it is known; only called to show it to a user.
    """

    session_id: str
    cwd: str
    tool: ToolCall
    options: list[PermissionOption]
    raw: bytes = b""
    roots: Sequence[str] = ()
    method: str = "session/request_permission"
    given_actions: Sequence[Action] | None = field(default=None, repr=False)
    preview: Preview | None = field(default=None, repr=False)
    _future: Future[PermissionDecision] = field(default_factory=Future[PermissionDecision], init=False, repr=False)
    _shown_at: float = field(default_factory=time.monotonic, init=False, repr=False)
    _accept_delay: float = field(default=0.0, init=False, repr=False)

    # --- what it is about

    @cached_property
    def context(self) -> ActionContext:
        """Session and directories in which the actions take place."""
        return ActionContext.of(self.session_id, self.cwd, self.roots)

    @cached_property
    def actions(self) -> list[Action]:
        """Everything that would be done, one by one."""
        return actions_of_tool(self.tool, self.context) if self.given_actions is None else list(self.given_actions)

    @cached_property
    def extra(self) -> ToolCallDetails:
        """Details of the tool call in addition to its actions."""
        return details_of(self.tool) if self.given_actions is None else ToolCallDetails()

    @property
    def action_lines(self) -> list[str]:
        """Each action in a line of its own, in full: a decision, also a remembered one, covers exactly these."""
        actions = [action for action in self.actions if action.kind not in NOTES]
        named = {action.kind for action in actions if _target_of(action) is not None}
        if not named:
            return [f"{action.kind}: no file or command is named" for action in actions]
        # `other` next to a named action adds nothing.
        shown = [action for action in actions if _target_of(action) is not None or action.kind not in {*named, "other"}]
        return list(dict.fromkeys(map(_line, shown)))

    @property
    def details(self) -> list[str]:
        """Input, text and locations that no line of `action_lines` shows; a remembered decision covers them too."""
        return list(self.extra.lines)

    @property
    def is_shown_whole(self) -> bool:
        """True if `action_lines` and `details` show everything; otherwise the user cannot see what would be allowed."""
        return not self.extra.hidden_files and not self.extra.hidden_characters

    @property
    def can_be_remembered(self) -> bool:
        """True if a file, a command or other input was shown in full, so that the same request can be recognized."""
        is_specific = bool(self.extra.digest) or any(
            each.path or each.command or each.spelling for each in self.actions
        )
        return is_specific and self.is_shown_whole and not self.extra.has_media

    @property
    def title(self) -> str:
        """The agent's title: one line, shortened, without control characters."""
        return escape_line(self.tool.title)

    @property
    def command(self) -> str | None:
        """Commands that would run, in full, whatever the title says."""
        lines = [action.command.line for action in self.actions if action.command is not None]
        return escape_line("; ".join(lines), most=None) if lines else None

    @property
    def paths(self) -> list[str]:
        """Real paths of the files that are acted on."""
        return list(
            dict.fromkeys(escape_line(action.path, most=None) for action in self.actions if action.path is not None)
        )

    @property
    def notes(self) -> list[str]:
        """Warnings for the user, such as files outside the session's directories."""
        notes = [
            f"{escape_line(each.path or '', None)}: {NOTES[each.kind]}" for each in self.actions if each.kind in NOTES
        ]
        for action in self.actions:
            if action.command is not None:
                notes += [
                    f"sets {escape_line(name, None)}={escape_line(value, None)}" for name, value in action.command.env
                ]
                if self.context.cwd != action.command.cwd:
                    notes.append(f"runs in {escape_line(action.command.cwd, None) or 'a directory that is not known'}")
            elif action.path is not None and self.context.relative_path(action.path) is None:
                notes.append(f"{escape_line(action.path, None)}: outside the directories of the session")
        return list(dict.fromkeys(notes))

    @property
    def offered_rules(self) -> list[str]:
        """Patterns that can be remembered with `allow(rule=…)`, the narrowest first."""
        if self.extra.digest:
            return []  # a rule covers the command alone
        commands = [action.command for action in self.actions if action.command is not None]
        return offered_patterns(commands[0]) if len(commands) == len(self.actions) == 1 else []

    @cached_property
    def usable_options(self) -> list[PermissionOption]:
        """Options whose id is unique, so that the response can name them."""
        ids = Counter(option.option_id for option in self.options)
        return [option for option in self.options if ids[option.option_id] == 1]

    # --- deciding

    @property
    def decision(self) -> PermissionDecision | None:
        """The decision, or `None` while the request is open."""
        return self._future.result() if self._future.done() else None

    @property
    def is_open(self) -> bool:
        """True while there is no decision."""
        return not self._future.done()

    def allow(
        self,
        *,
        always: bool = False,
        remember: Scope | None = None,
        seconds: float | None = None,
        rule: str | None = None,
    ) -> bool:
        """Allow exactly this.

        Args:
            always: Choose the agent's option "always", if it offers one, and remember the decision for the session.
            remember: Decide the same request without asking in this scope; only once if `can_be_remembered` is false.
            seconds: Forget the decision after this time at the latest.
            rule: Remember this one of `offered_rules` instead of the one command.

        Raises:
            ValueError: The agent offers no such option, or the rule is not in `offered_rules`.
        """
        if rule is not None and rule not in self.offered_rules:
            raise ValueError("this rule is none of `offered_rules`")
        option = self.option_of_kind(*reversed(ALLOWING)) if always else self.option_of_kind("allow_once")
        if option is None:
            raise ValueError("the agent offers no such option; choose one of `options`")
        scope = remember or ("session" if always or rule is not None else None)
        return self.resolve(PermissionDecision(option, "user", scope, seconds, rule))

    def reject(self, *, always: bool = False, remember: Scope | None = None, seconds: float | None = None) -> bool:
        """Reject. If the agent offers no such option, the request is cancelled."""
        option = self.option_of_kind(*(reversed(REJECTING) if always else REJECTING))
        return self.resolve(PermissionDecision(option, "user", remember or ("session" if always else None), seconds))

    def choose(self, option_id: str) -> bool:
        """Choose the option with this id.

        Raises:
            ValueError: The agent offers no such option, or several of this id.
        """
        for option in self.usable_options:
            if option.option_id == option_id:
                return self.resolve(
                    PermissionDecision(option, "user", "session" if option.kind.endswith("_always") else None)
                )
        raise ValueError("this id is none of `options`, or several options have it")

    def cancel(self) -> bool:
        """Drop the request: answer the agent with "cancelled"."""
        return self.resolve(PermissionDecision(None, "user"))

    async def decided(self) -> PermissionDecision:
        """Wait for the decision."""
        await asyncio.wait([asyncio.wrap_future(self._future)])
        return self._future.result()

    def mark_shown(self) -> None:
        """Start the time for an answer again: for a user interface that shows the request later than it receives it."""
        self._shown_at = time.monotonic()

    # --- for the prompter

    def enable_after(self, seconds: float) -> None:
        """Ignore decisions to allow for some seconds: a key that is still held down decides nothing."""
        self._accept_delay = seconds
        self.mark_shown()

    def option_of_kind(self, *kinds: str) -> PermissionOption | None:
        """Return the first option of the first of these kinds that the agent offers."""
        return next((option for kind in kinds for option in self.usable_options if option.kind == kind), None)

    def resolve(self, decision: PermissionDecision) -> bool:
        """Set the decision; return False if there is one already, or if allowing is not enabled yet."""
        is_early = time.monotonic() < self._shown_at + self._accept_delay
        if is_early and decision.by == "user" and decision.outcome not in ("reject", "cancelled"):
            return False
        try:
            self._future.set_result(decision)
        except InvalidStateError:
            return False
        return True


def _target_of(action: Action) -> str | None:
    return action.path or action.spelling if action.command is None else action.command.line


def _line(action: Action) -> str:
    named = _target_of(action)
    return f"{action.kind}: {'no file or command is named' if named is None else escape_line(named, None)}"
