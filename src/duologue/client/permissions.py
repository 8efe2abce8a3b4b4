"""Who may do what: rules by kind of tool, and a user who is asked about the rest. Whatever goes wrong is a refusal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import TypeAlias

from duologue.conversation.items import ToolCall
from duologue.conversation.updates import Location
from duologue.dialects.terms import PermissionOption
from duologue.errors import InvalidRequest

__all__ = ["Permissions", "Question"]

TIMEOUT = 600.0
"""Seconds until an unanswered question is a refusal."""

_log = logging.getLogger("duologue.client")

Rule: TypeAlias = str | Mapping[str, str]


@dataclass(eq=False, kw_only=True)
class Question:
    """May the agent do this? Any thread may answer, once."""

    session_id: str
    cwd: str
    tool: ToolCall
    options: list[PermissionOption]
    raw: bytes = b""
    _answer: Future[str | None] = field(default_factory=Future["str | None"], repr=False)

    def allow(self, *, always: bool = False) -> bool:
        """Yes; whether this answer was the one that counts."""
        return self._settle(*(["allow_always"] if always else []), "allow_once")

    def reject(self, *, always: bool = False) -> bool:
        """No."""
        kinds = ["reject_once", "reject_always"]
        return self._settle(*(reversed(kinds) if always else kinds))

    def choose(self, option_id: str) -> bool:
        """The agent's own option with this id."""
        if option_id not in [option.option_id for option in self.options]:
            raise ValueError("no such option was offered")
        return self._set(option_id)

    def cancel(self) -> bool:
        """Neither yes nor no: the question is dropped."""
        return self._set(None)

    def _settle(self, *kinds: str) -> bool:
        found = [option.option_id for kind in kinds for option in self.options if option.kind == kind]
        return self._set(found[0] if found else None)

    def _set(self, option_id: str | None) -> bool:
        try:
            self._answer.set_result(option_id)
        except InvalidStateError:
            return False
        return True

    async def answered(self) -> str | None:
        """The chosen option's id, once there is an answer; `None` for a cancelled question."""
        return await asyncio.wrap_future(self._answer)


class Permissions:
    """Rules, and whom to ask."""

    def __init__(
        self,
        *,
        read: Rule = "allow",
        edit: Rule = "ask",
        execute: Rule = "ask",
        delete: Rule = "ask",
        move: Rule = "ask",
        search: Rule = "ask",
        fetch: Rule = "ask",
        think: Rule = "ask",
        switch_mode: Rule = "ask",
        other: Rule = "ask",
        on_ask: Callable[[Question], Awaitable[object]] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._rules = dict(read=read, edit=edit, execute=execute, delete=delete, move=move, search=search)
        self._rules |= dict(fetch=fetch, think=think, switch_mode=switch_mode, other=other)
        self._on_ask = on_ask
        self._timeout = timeout
        self._open: dict[str, set[Question]] = {}

    async def decide(self, question: Question) -> str | None:
        """The id of the option to answer with; `None` is "cancelled"."""
        judged = self._judge(question.tool.kind, "")
        if judged == "allow":
            question.allow()
        elif judged == "reject" or self._on_ask is None:
            question.reject()
        else:
            await self._ask(question, self._on_ask)
        return await question.answered()

    def cancel(self, session_id: str) -> None:
        """Answer the open questions of a session with "cancelled"."""
        for question in self._open.pop(session_id, set()):
            question.cancel()

    def forget_session(self, session_id: str) -> None:
        """Nothing that was said in this session counts any more."""
        self.cancel(session_id)

    async def check_read(self, session_id: str, cwd: str, path: str) -> None:
        """Raise unless this file may be read."""
        await self._check(session_id, cwd, "read", f"Read {path}", [Location(path)], path)

    async def check_write(self, session_id: str, cwd: str, path: str) -> None:
        """Raise unless this file may be written."""
        await self._check(session_id, cwd, "edit", f"Write {path}", [Location(path)], path)

    async def check_command(self, session_id: str, cwd: str, argv: Sequence[str], place: str) -> None:
        """Raise unless this command may be run."""
        line = " ".join(argv)
        await self._check(session_id, cwd, "execute", line, [], line)

    async def _check(
        self, session_id: str, cwd: str, kind: str, title: str, locations: list[Location], target: str
    ) -> None:
        tool = ToolCall(tool_call_id="", title=title, kind=kind, locations=locations)
        options = [
            PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
            PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
        ]
        judged = self._judge(kind, target)
        if judged == "allow":
            return
        if judged == "ask" and self._on_ask is not None:
            question = Question(session_id=session_id, cwd=cwd, tool=tool, options=options)
            await self._ask(question, self._on_ask)
            if await question.answered() == "allow":
                return
        raise InvalidRequest("not permitted by the client's rules")

    def _judge(self, kind: str, target: str) -> str:
        rule = self._rules.get(kind, self._rules["other"])
        return rule if isinstance(rule, str) else rule.get(target, rule.get("*", "ask"))

    async def _ask(self, question: Question, on_ask: Callable[[Question], Awaitable[object]]) -> None:
        own = self._open.setdefault(question.session_id, set())
        own.add(question)
        try:
            async with asyncio.timeout(self._timeout):
                answer = await on_ask(question)
            if answer is True or answer == "allow":
                question.allow()
        except Exception:
            _log.exception("a question was not answered")
        finally:
            own.discard(question)
            question.reject()
