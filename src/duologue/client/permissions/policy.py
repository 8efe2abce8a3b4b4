"""Who may do what: rules first, then remembered answers, then the user. Whatever goes wrong is a refusal.

The same judgement meets an agent that asks (`session/request_permission`) and one that just acts through us (files,
commands). A yes to a tool call covers the one act it announced: the file it named, the command it showed, in the same
turn, once. Anything else is a question of its own.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from duologue.client.permissions.actions import CHANGING, KINDS, Action, ActionContext, command_effect, path_effects
from duologue.client.permissions.audit_log import AuditLog
from duologue.client.permissions.command_line import argv_of
from duologue.client.permissions.patterns import named_files
from duologue.client.permissions.prompter import Handler, PermissionPrompter, PermissionRequestStream, refusal
from duologue.client.permissions.remembered import RememberedDecisions, TurnGrants
from duologue.client.permissions.request import PermissionDecision, PermissionRequest
from duologue.client.permissions.rules import Rule, Rules, Verdict, evaluate, strictest
from duologue.client.permissions.rules_file import read_rules
from duologue.conversation.items import ToolCall
from duologue.conversation.updates import Location
from duologue.errors import InvalidRequest
from duologue.private_files import PrivateFile
from duologue.protocol.values import PermissionOption
from duologue.recording.redaction import redact

__all__ = ["PermissionRequest", "Permissions"]

TIMEOUT = 600.0
"""Seconds until a question without an answer is a refusal."""
MAX_OPEN = 100
"""Open questions of one session; more than anybody answers one by one."""

OUR_OPTIONS = [
    PermissionOption(option_id="allow_once", name="Allow", kind="allow_once"),
    PermissionOption(option_id="allow_always", name="Allow always", kind="allow_always"),
    PermissionOption(option_id="reject_once", name="Reject", kind="reject_once"),
    PermissionOption(option_id="reject_always", name="Reject always", kind="reject_always"),
]
"""What can be said about an act that nobody asked for."""

_log = logging.getLogger("duologue.client")


class Permissions:
    """Rules, answers and whom to ask; for one agent or, by `for_agent`, for several.

    Each kind of act has a word, `"allow"`, `"ask"` or `"reject"`, or a table of patterns with a word each, where `"*"`
    is for all others. A plain `"allow"` of files is about those inside the session's directories. What is not given
    is `"ask"`, except reading, which is `"allow"`. Nobody to ask means no.

    Args:
        read, edit, delete, move, search: Patterns are globs of files, relative to the session's directory.
        execute: Patterns are commands; ` *` at the end of one that allows stands for arguments that are known to be
            harmless, and is accepted for the commands of `duologue.client.permissions.reviewed_commands` only.
        think, fetch, switch_mode, other: Other kinds of tool calls.
        secrets: Reading files whose names say that they hold secrets, beside what `read` says.
        protected: Changing files that other programs act on (hooks, settings, start files), beside what `edit` says.
        on_request: Is awaited with each `PermissionRequest`.
        timeout: Seconds until a question without an answer is refused.
        audit: A file, or a function, that gets a record of every decision.
        memory: A file for answers that are remembered for a project.
        dry_run: Ask nobody and allow nothing; the audit says what would have been.
        max_pending: Most open questions of one session; those beyond are refused.
        max_concurrent: How many questions `on_request` gets at the same time.
        accept_delay: Seconds after a question was shown in which a yes does not count, against keys held down.
        rules: More sets of rules; of several the strictest counts.

    Raises:
        ValueError: A rule that is none, or a file that is not ours alone.
    """

    def __init__(
        self,
        *,
        read: Rule | None = None,
        edit: Rule | None = None,
        execute: Rule | None = None,
        delete: Rule | None = None,
        move: Rule | None = None,
        search: Rule | None = None,
        fetch: Rule | None = None,
        think: Rule | None = None,
        switch_mode: Rule | None = None,
        other: Rule | None = None,
        secrets: Rule | None = None,
        protected: Rule | None = None,
        on_request: Handler | None = None,
        timeout: float = TIMEOUT,
        audit: str | Path | Callable[[dict[str, Any]], None] | None = None,
        memory: str | Path | None = None,
        dry_run: bool = False,
        max_pending: int = MAX_OPEN,
        max_concurrent: int = 1,
        accept_delay: float = 0.0,
        rules: Sequence[Rules] = (),
    ) -> None:
        given: dict[str, Rule | None] = {
            "read": read,
            "edit": edit,
            "execute": execute,
            "delete": delete,
            "move": move,
            "search": search,
            "fetch": fetch,
            "think": think,
            "switch_mode": switch_mode,
            "other": other,
            "secrets": secrets,
            "protected": protected,
        }
        self._rules = [Rules({kind: rule for kind, rule in given.items() if rule is not None}), *rules]
        self._asking = PermissionPrompter(
            on_request, timeout=timeout, at_once=max_concurrent, accept_delay=accept_delay
        )
        self._memory = RememberedDecisions(None if memory is None else PrivateFile(memory))
        self._audit = AuditLog(audit)
        self._is_dry_run = dry_run
        self._max_open = max_pending
        self._agent = ""
        self._turns: dict[str, TurnGrants] = {}
        self._open: dict[str, set[PermissionRequest]] = {}

    @classmethod
    def from_file(cls, *paths: str | Path, defaults: Mapping[str, Any] | None = None, **options: Any) -> Self:
        """The rules of one or more files; of several the strictest counts.

        Args:
            paths: The files.
            defaults: Settings for what the files leave open.
            options: Further arguments of `Permissions`; they win over the settings of the files.

        Raises:
            ValueError: A file is not ours alone, or says something that is no rule.
            FileNotFoundError: There is none.
        """
        read = [read_rules(path) for path in paths]
        settings = {name: value for _, found in reversed(read) for name, value in found.items()}
        sets = [*(rules for rules, _ in read), *options.pop("rules", ())]
        return cls(rules=sets, **{**(defaults or {}), **settings, **options})

    @classmethod
    def allow_everything(cls, **options: Any) -> Self:
        """Yes to all of it, wherever it is and whatever it may break; other rules among `options` still count."""
        everything: dict[str, Rule] = dict.fromkeys(KINDS, "allow")
        return cls(rules=[Rules(everything, is_bounded=False), *options.pop("rules", ())], **options)

    def for_agent(self, name: str) -> Self:
        """The same rules and the same user for one agent more; what is said to one does not count for another."""
        other = copy.copy(self)
        other._agent = redact(name)  # a command line, perhaps with a key in it, and this is written down
        other._turns, other._open = {}, {}
        return other

    # --- for user interfaces

    def questions(self) -> PermissionRequestStream:
        """The questions from now on, unless `on_request` gets them: `with permissions.questions() as questions: …`."""
        return self._asking.listen()

    def reject_all(self) -> None:
        """Say no to every question that is open."""
        self._asking.reject_all()

    # --- for the client

    async def decide(self, question: PermissionRequest) -> str | None:
        """The id of the option to answer an agent with; `None` is "cancelled"."""
        turn = self._turn(question.session_id)
        answer = await self._answer(question, turn)
        if answer.is_allowed:
            turn.grant(question.effects)
        return None if answer.option is None else answer.option.option_id

    def cancel(self, session_id: str) -> None:
        """The turn is over: its open questions are cancelled, and what was said in it no longer counts."""
        turn = self._turns.pop(session_id, None)
        if turn is not None:
            turn.is_over = True
        for question in self._open.pop(session_id, set()):
            question.resolve(PermissionDecision(None, "cancelled"))

    def forget_session(self, session_id: str) -> None:
        """The session is over: nothing that was said in it counts any more."""
        self.cancel(session_id)
        self._memory.forget_session(self._agent, session_id)

    async def check_read(
        self, session_id: str, cwd: str, path: str, *, resolved: str | None = None, roots: Sequence[str] = ()
    ) -> None:
        """Raise unless this file may be read; `resolved` is where the path really leads.

        Raises:
            InvalidRequest: It may not.
        """
        await self._check_path("read", "fs/read_text_file", session_id, cwd, path, resolved, roots)

    async def check_write(
        self, session_id: str, cwd: str, path: str, *, resolved: str | None = None, roots: Sequence[str] = ()
    ) -> None:
        """Raise unless this file may be written; `resolved` is where the path really leads.

        Raises:
            InvalidRequest: It may not.
        """
        await self._check_path("edit", "fs/write_text_file", session_id, cwd, path, resolved, roots)

    async def check_command(
        self,
        session_id: str,
        cwd: str,
        argv: Sequence[str],
        place: str,
        *,
        env: Mapping[str, str] | None = None,
        roots: Sequence[str] = (),
    ) -> None:
        """Raise unless this may be run in `place`, which is the real path of a directory that is open.

        Raises:
            InvalidRequest: It may not.
        """
        effect = command_effect(argv_of(argv[0], argv[1:]), place, env)
        title = effect.command.line if effect.command is not None else ""
        tool = ToolCall(tool_call_id="", title=title, kind="execute")
        await self._check(tool, [effect], "terminal/create", session_id, cwd, roots)

    # --- how it is decided

    async def _check_path(
        self, kind: str, method: str, session_id: str, cwd: str, path: str, resolved: str | None, roots: Sequence[str]
    ) -> None:
        scene = ActionContext.of(session_id, cwd, roots)
        effects = path_effects(kind, path, scene, resolved=resolved)
        tool = ToolCall(tool_call_id="", title=f"{kind} {path}", kind=kind, locations=[Location(path)])
        await self._check(tool, effects, method, session_id, cwd, roots)

    async def _check(
        self, tool: ToolCall, effects: list[Action], method: str, session_id: str, cwd: str, roots: Sequence[str]
    ) -> None:
        question = PermissionRequest(
            session_id=session_id,
            cwd=cwd,
            tool=tool,
            options=OUR_OPTIONS,
            roots=roots,
            method=method,
            given_effects=effects,
        )
        answer = await self._answer(question, self._turn(session_id))
        if not answer.is_allowed:
            raise InvalidRequest("not permitted by the client's rules")

    async def _answer(self, question: PermissionRequest, turn: TurnGrants) -> PermissionDecision:
        """Decide, write it down, and remember it. Nothing is allowed that could not be written down."""
        ruling, effects = Verdict("reject", "error"), list[Action]()
        try:
            effects = question.effects
            self._report_changes()
            ruling = self._judge(question, turn)
            answer = await self._settled(question, ruling)
            if turn.is_over:
                answer = PermissionDecision(None, "cancelled")
        except asyncio.CancelledError:
            self._write_down(question, effects, ruling, PermissionDecision(None, "cancelled"))
            raise
        except Exception:
            _log.exception("a decision failed, which is a refusal")
            answer = refusal(question, "error")
        if not self._write_down(question, effects, ruling, answer) and answer.is_allowed:
            return refusal(question, "not written down")
        if answer.by == "user" and answer.outcome == "reject":
            turn.refuse(effects)
        self._remember(answer, question, turn)
        return answer

    def _write_down(
        self, question: PermissionRequest, effects: list[Action], ruling: Verdict, answer: PermissionDecision
    ) -> bool:
        return self._audit.record(
            effects=effects,
            agent=self._agent,
            session=question.session_id,
            tool_call=question.tool.tool_call_id,
            method=question.method,
            rule=ruling.rule,
            said=ruling.word,
            decision=answer.outcome,
            by=answer.by,
        )

    def _judge(self, question: PermissionRequest, turn: TurnGrants) -> Verdict:
        """The strictest word about all effects, after what was said before."""
        judged = [(effect, self._judge_effect(effect, question, turn)) for effect in question.effects]
        worst = strictest(ruling for _, ruling in judged)
        if worst.word != "ask" or question.method == "session/request_permission" or self._is_dry_run:
            return worst
        unsettled = [effect for effect, ruling in judged if ruling.word == "ask"]
        # Whoever was told no and does it all the same is not asked about again.
        if turn.is_refused(unsettled):
            return Verdict("reject", "refused")
        return Verdict("allow", "granted") if turn.consume(unsettled) else worst

    def _judge_effect(self, effect: Action, question: PermissionRequest, turn: TurnGrants) -> Verdict:
        if effect.kind in CHANGING and effect.path is not None and self._is_own_file(effect.path):
            return Verdict("reject", "the client's own files")
        ruling = evaluate(self._rules, effect, question.scene)
        said = self._memory.recall(effect, question, self._agent, turn)
        if ruling.word != "reject" and (said == "reject" or (said == "allow" and ruling.word == "ask")):
            ruling = Verdict(said, "remembered")
        if ruling.word == "allow" and self._reads_rejected(effect, question.scene):
            return Verdict("ask", f"{ruling.rule}, but reading a file that it names is rejected")
        return ruling

    def _reads_rejected(self, effect: Action, scene: ActionContext) -> bool:
        """Whether a command that may take arguments names a file that the rules for reading reject."""
        if effect.command is None:
            return False
        effects = [each for path in named_files(effect.command) for each in path_effects("read", path, scene)]
        return any(evaluate(self._rules, each, scene).word == "reject" for each in effects)

    async def _settled(self, question: PermissionRequest, ruling: Verdict) -> PermissionDecision:
        if self._is_dry_run:
            return refusal(question, "dry run")
        if ruling.word == "reject":
            return refusal(question, "rule")
        if ruling.word == "allow" and (option := question.option_of_kind("allow_once")) is not None:
            return PermissionDecision(option, "rule")
        # Allowed, but only for ever: what the agent remembers is no longer judged here, so a person has to say it.
        return await self._ask(question)

    async def _ask(self, question: PermissionRequest) -> PermissionDecision:
        own = self._open.setdefault(question.session_id, set())
        if len(own) >= self._max_open:
            return refusal(question, "too many questions")
        own.add(question)
        try:
            return await self._asking.ask(question)
        finally:
            own.discard(question)

    def _remember(self, answer: PermissionDecision, question: PermissionRequest, turn: TurnGrants) -> None:
        try:
            self._memory.remember(answer, question, self._agent, turn)
        except (OSError, ValueError):
            _log.exception("an answer could not be remembered")

    def _turn(self, session_id: str) -> TurnGrants:
        return self._turns.setdefault(session_id, TurnGrants())

    def _is_own_file(self, path: str) -> bool:
        own = [self._audit.file, self._memory.file, *(rules.file for rules in self._rules)]
        return any(file.is_at(path) for file in own if file is not None)

    def _report_changes(self) -> None:
        for rules in self._rules:
            if rules.file is not None and rules.notice_change():
                _log.warning("the rules in %s were changed; those that were read at the start hold", rules.file.path)
                self._audit.record(event="rules changed", file=str(rules.file.path))
