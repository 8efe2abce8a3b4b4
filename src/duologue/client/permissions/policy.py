"""The permission policy: rules first, then remembered decisions, then the user. Every failure is a rejection.

The policy decides the requests of an agent that asks (`session/request_permission`) and of one that acts without asking
(files, commands). Allowing a tool call covers the one action it announced: the file it named or the command it showed,
once, in the same turn. Any other action is a request of its own.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from msgspec import structs

from duologue.client.permissions.actions import CHANGING, KINDS, Action, ActionContext, command_action, path_actions
from duologue.client.permissions.audit_log import AuditLog
from duologue.client.permissions.command_line import argv_of
from duologue.client.permissions.patterns import named_files
from duologue.client.permissions.prompter import Handler, PermissionPrompter, PermissionRequestStream, rejection
from duologue.client.permissions.remembered import RememberedDecisions, TurnGrants
from duologue.client.permissions.request import PermissionDecision, PermissionRequest, Preview
from duologue.client.permissions.rules import Rule, Rules, Verdict, evaluate, strictest
from duologue.conversation.items import ToolCall
from duologue.conversation.updates import Location
from duologue.errors import InvalidRequest
from duologue.private_files import PrivateFile
from duologue.protocol.values import PERMISSION_OPTIONS, PERMISSION_SECONDS
from duologue.recording.redaction import redact

MAX_PENDING = 100
"""Pending requests of one session: more than a user decides one by one."""

_log = logging.getLogger("duologue.client")


class Permissions:
    """Policy for what an agent may do: rules, remembered decisions, and a user to ask.

    A rule is `"allow"`, `"ask"` or `"reject"`, or a table of patterns with one of these each, in which `"*"` is for all
    others. `"allow"` for files covers those inside the session's directories. Without a rule, reading is allowed and
    everything else is asked about. If there is no user to ask, the request is rejected.

    Args:
        read: Rule for reading files; patterns are globs, relative to the session's directory.
        edit: Rule for writing files; patterns as for `read`.
        delete: Rule for deleting files; patterns as for `read`.
        move: Rule for moving files; patterns as for `read`.
        search: Rule for searching files; patterns as for `read`.
        execute: Rule for commands; patterns are commands. ` *` at the end of an allowed one stands for arguments, and
            is accepted for the commands of `duologue.client.permissions.reviewed_commands` only.
        fetch: Rule for fetching from the network.
        think: Rule for tool calls that only reason.
        switch_mode: Rule for switching the session's mode.
        other: Rule for tool calls of any other kind.
        secrets: Rule for reading files whose names suggest secrets, in addition to `read`.
        protected: Rule for changing files that other programs act on (hooks, settings), in addition to `edit`.
        on_request: Called with each `PermissionRequest` that the user has to decide.
        timeout: Seconds after a request was shown until it is rejected without a decision.
        audit: File, or function, that receives a record of every decision.
        memory: File for decisions that are remembered for a project.
        dry_run: Reject everything without asking; the audit log shows what the rules would have decided.
        max_pending: Largest number of pending requests of one session; further ones are rejected.
        max_concurrent: Number of requests of one session that `on_request` receives at the same time.
        accept_delay: Seconds after a request was shown in which allowing it has no effect, against keys held down.
        rules: Further sets of rules; the strictest outcome of all sets counts.

    Raises:
        ValueError: A rule is not valid, or other users can read or write one of the files.
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
        timeout: float = PERMISSION_SECONDS,
        audit: str | Path | Callable[[dict[str, Any]], None] | None = None,
        memory: str | Path | None = None,
        dry_run: bool = False,
        max_pending: int = MAX_PENDING,
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
        self._prompter = PermissionPrompter(
            on_request, timeout=timeout, max_concurrent=max_concurrent, accept_delay=accept_delay
        )
        self._memory = RememberedDecisions(None if memory is None else PrivateFile(memory))
        self._audit = AuditLog(audit)
        self._is_dry_run = dry_run
        self._max_pending = max_pending
        self._agent = ""
        self._turns: dict[str, TurnGrants] = {}
        self._pending: dict[str, set[PermissionRequest]] = {}

    @classmethod
    def from_file(cls, *paths: str | Path, defaults: Mapping[str, Any] | None = None, **options: Any) -> Self:
        """Make a policy from one or more files of rules; the strictest outcome of all files counts.

        Args:
            paths: The files.
            defaults: Arguments of `Permissions` for what the files do not set.
            options: Arguments of `Permissions` that override the files.

        Raises:
            ValueError: Other users can read or write a file, or it has a rule that is not valid.
            FileNotFoundError: A file does not exist.
        """
        from duologue.client.permissions.rules_file import read_rules  # with the parser of TOML

        read = [read_rules(path) for path in paths]
        settings = {name: value for _, found in reversed(read) for name, value in found.items()}
        sets = [*(rules for rules, _ in read), *options.pop("rules", ())]
        return cls(rules=sets, **{**(defaults or {}), **settings, **options})

    @classmethod
    def allow_everything(cls, **options: Any) -> Self:
        """Make a policy that allows everything everywhere, except for what `rules` in `options` reject or ask about."""
        everything: dict[str, Rule] = dict.fromkeys(KINDS, "allow")
        return cls(rules=[Rules(everything, is_bounded=False), *options.pop("rules", ())], **options)

    def for_agent(self, name: str) -> Self:
        """Return the same policy for one more agent: rules and user are shared, decisions are not."""
        other = copy.copy(self)
        other._agent = redact(name)  # a command line, perhaps with a key in it, that goes into the audit log
        other._prompter = self._prompter.for_agent()
        other._turns, other._pending = {}, {}
        return other

    # --- for user interfaces

    def requests(self) -> PermissionRequestStream:
        """Stream the requests from now on, unless `on_request` receives them.

        with permissions.requests() as requests:
            async for request in requests: ...
        """
        return self._prompter.listen()

    def reject_all(self) -> None:
        """Reject every pending request."""
        self._prompter.reject_all()

    # --- for the client

    async def decide(self, request: PermissionRequest) -> str | None:
        """Decide a request and return the id of the option to answer the agent with; `None` is "cancelled"."""
        turn = self._turn(request.session_id)
        decision = await self._decide(request, turn)
        if decision.is_allowed:
            turn.grant(request.actions)
        return None if decision.option is None else decision.option.option_id

    def cancel(self, session_id: str) -> None:
        """Cancel the pending requests of a turn that is over, and drop what was allowed in it."""
        turn = self._turns.pop(session_id, None)
        if turn is not None:
            turn.is_over = True
        for request in self._pending.pop(session_id, set()):
            request.resolve(PermissionDecision(None, "cancelled"))

    def forget_session(self, session_id: str) -> None:
        """Drop all decisions of a closed session."""
        self.cancel(session_id)
        self._memory.forget_session(self._agent, session_id)

    async def check_read(
        self, session_id: str, cwd: str, path: str, *, resolved: str | None = None, roots: Sequence[str] = ()
    ) -> None:
        """Check that a file may be read; `resolved` is the path without links.

        Raises:
            InvalidRequest: It may not.
        """
        await self._check_path("read", "fs/read_text_file", session_id, cwd, path, resolved, roots)

    async def check_write(
        self,
        session_id: str,
        cwd: str,
        path: str,
        *,
        resolved: str | None = None,
        roots: Sequence[str] = (),
        preview: Preview | None = None,
    ) -> None:
        """Check that a file may be written; `resolved` is the path without links, `preview` returns the change to show.

        Raises:
            InvalidRequest: It may not.
        """
        await self._check_path("edit", "fs/write_text_file", session_id, cwd, path, resolved, roots, preview)

    async def check_command(
        self,
        session_id: str,
        cwd: str,
        argv: Sequence[str],
        directory: str,
        *,
        env: Mapping[str, str] | None = None,
        roots: Sequence[str] = (),
    ) -> None:
        """Check that a command may run in `directory`, the real path of a directory that is open.

        Raises:
            InvalidRequest: It may not.
        """
        action = command_action(argv_of(argv[0], argv[1:]), directory, env)
        title = action.command.line if action.command is not None else ""
        tool = ToolCall(tool_call_id="", title=title, kind="execute")
        await self._check(tool, [action], "terminal/create", session_id, cwd, roots)

    # --- deciding

    async def _check_path(
        self,
        kind: str,
        method: str,
        session_id: str,
        cwd: str,
        path: str,
        resolved: str | None,
        roots: Sequence[str],
        preview: Preview | None = None,
    ) -> None:
        context = ActionContext.of(session_id, cwd, roots)
        actions = path_actions(kind, path, context, resolved=resolved)
        tool = ToolCall(tool_call_id="", title=f"{kind} {path}", kind=kind, locations=[Location(path)])
        await self._check(tool, actions, method, session_id, cwd, roots, preview)

    async def _check(
        self,
        tool: ToolCall,
        actions: list[Action],
        method: str,
        session_id: str,
        cwd: str,
        roots: Sequence[str],
        preview: Preview | None = None,
    ) -> None:
        request = PermissionRequest(
            session_id=session_id,
            cwd=cwd,
            tool=tool,
            options=list(PERMISSION_OPTIONS),
            roots=roots,
            method=method,
            given_actions=actions,
            preview=preview,
        )
        decision = await self._decide(request, self._turn(session_id))
        if not decision.is_allowed:
            raise InvalidRequest("not permitted by the client's rules")

    async def _decide(self, request: PermissionRequest, turn: TurnGrants) -> PermissionDecision:
        """Decide, record and remember. An action whose decision cannot be recorded is not allowed."""
        verdict, actions = Verdict("reject", "error"), list[Action]()
        try:
            actions = request.actions
            self._report_changes()
            verdict = self._evaluate(request, turn)
            decision = await self._apply_verdict(request, verdict)
            if turn.is_over:
                decision = PermissionDecision(None, "cancelled")
        except asyncio.CancelledError:
            self._record(request, actions, verdict, PermissionDecision(None, "cancelled"))
            raise
        except Exception:
            _log.exception("the permission policy failed, so the request is rejected")
            decision = rejection(request, "error")
        if not self._record(request, actions, verdict, decision) and decision.is_allowed:
            return rejection(request, "audit log failed")
        if decision.by == "user" and decision.outcome == "reject":
            turn.reject(actions)
        self._remember(decision, request, turn)
        return decision

    def _record(
        self, request: PermissionRequest, actions: list[Action], verdict: Verdict, decision: PermissionDecision
    ) -> bool:
        return self._audit.record(
            actions=actions,
            agent=self._agent,
            session=request.session_id,
            tool_call=request.tool.tool_call_id,
            method=request.method,
            rule=verdict.rule,
            verdict=verdict.outcome,
            decision=decision.outcome,
            by=decision.by,
        )

    def _evaluate(self, request: PermissionRequest, turn: TurnGrants) -> Verdict:
        """Return the strictest verdict on all actions of a request, after earlier decisions."""
        evaluated = [(action, self._evaluate_action(action, request, turn)) for action in request.actions]
        result = strictest(verdict for _, verdict in evaluated)
        if result.outcome != "ask" or request.method == "session/request_permission" or self._is_dry_run:
            return result
        unanswered = [action for action, verdict in evaluated if verdict.outcome == "ask"]
        # The user is not asked about an action that was rejected in this turn and is tried all the same.
        if turn.is_rejected(unanswered):
            return Verdict("reject", "rejected in this turn")
        return Verdict("allow", "allowed tool call") if turn.consume(unanswered) else result

    def _evaluate_action(self, action: Action, request: PermissionRequest, turn: TurnGrants) -> Verdict:
        if action.kind in CHANGING and action.path is not None and self._is_own_file(action.path):
            return Verdict("reject", "the client's own files")
        verdict = evaluate(self._rules, action, request.context)
        before = self._memory.recall(action, request, self._agent, turn)
        if verdict.outcome != "reject" and (before == "reject" or (before == "allow" and verdict.outcome == "ask")):
            verdict = Verdict(before, "remembered")
        if verdict.outcome == "allow" and self._reads_rejected_file(action, request.context):
            return Verdict("ask", f"{verdict.rule}, but reading a file that it names is rejected")
        return verdict

    def _reads_rejected_file(self, action: Action, context: ActionContext) -> bool:
        """Return True if a command that may take arguments names a file that the rules for reading reject."""
        if action.command is None:
            return False
        actions = [each for path in named_files(action.command) for each in path_actions("read", path, context)]
        return any(evaluate(self._rules, each, context).outcome == "reject" for each in actions)

    async def _apply_verdict(self, request: PermissionRequest, verdict: Verdict) -> PermissionDecision:
        if self._is_dry_run:
            return rejection(request, "dry run")
        if verdict.outcome == "reject":
            return rejection(request, "rule")
        if verdict.outcome == "allow" and (option := request.option_of_kind("allow_once")) is not None:
            return PermissionDecision(option, "rule")
        # The agent offers only "always": later actions would not reach this policy, so the user has to decide.
        return await self._ask(request)

    async def _ask(self, request: PermissionRequest) -> PermissionDecision:
        pending = self._pending.setdefault(request.session_id, set())
        if len(pending) >= self._max_pending:
            return rejection(request, "too many requests")
        pending.add(request)
        try:
            if request.preview is not None:
                request.tool = structs.replace(request.tool, content=[await request.preview()])
            return await self._prompter.ask(request)
        finally:
            pending.discard(request)

    def _remember(self, decision: PermissionDecision, request: PermissionRequest, turn: TurnGrants) -> None:
        try:
            self._memory.remember(decision, request, self._agent, turn)
        except (OSError, ValueError):
            _log.exception("a decision could not be remembered")

    def _turn(self, session_id: str) -> TurnGrants:
        return self._turns.setdefault(session_id, TurnGrants())

    def _is_own_file(self, path: str) -> bool:
        own = [self._audit.file, self._memory.file, *(rules.file for rules in self._rules)]
        return any(file.is_at(path) for file in own if file is not None)

    def _report_changes(self) -> None:
        for rules in self._rules:
            if rules.file is not None and rules.notice_change():
                _log.warning(
                    "the rules in %s have changed; the rules read at the start stay in force until a restart",
                    rules.file.path,
                )
                self._audit.record(event="rules changed", file=str(rules.file.path))
