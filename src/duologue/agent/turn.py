"""One prompt and everything an agent may do about it.

Each act leaves as one update, in order, before the turn's answer; after the answer nothing of the turn leaves any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar
from urllib.parse import urlsplit

from duologue.agent.elicitation import ask_elicitation, ask_form, form_schema
from duologue.agent.permissions import _PendingPermission
from duologue.agent.settings import Settings
from duologue.agent.stop_reasons import StopTurn
from duologue.agent.terminal import TerminalHandle, open_terminal
from duologue.agent.tool_call import ToolCallHandle
from duologue.agent.workspace import OUTPUT_LIMIT, CommandResult, Files, run_command
from duologue.conversation.content import Content, JsonObject, as_content, text_of
from duologue.conversation.updates import (
    UNSET,
    CompactionChunk,
    CompactionUpdate,
    InfoUpdate,
    Location,
    MessageChunk,
    NoticeUpdate,
    PlanEntry,
    PlanRemovedUpdate,
    PlanUpdate,
    Role,
    Update,
    UsageUpdate,
)
from duologue.conversation.urls import host_of
from duologue.conversation.work_state import STOP_REASONS
from duologue.errors import InvalidParams, ProtocolViolation, RequestError
from duologue.protocol.values import ClientCapabilities, Elicitation, PermissionOption, TokenUsage

if TYPE_CHECKING:
    from duologue.agent.session import Session
    from duologue.mcp.servers import McpServers

__all__ = ["Turn"]

S = TypeVar("S", bound=Settings)
F = TypeVar("F")


class Turn(Generic[S]):
    """A prompt to answer. Returning from the handler ends it with `end_turn`.

    Attributes:
        prompt: What the user sent, block by block.
        text: Its text blocks run together.
        session: The session it belongs to.
        meta: What the client attached.
    """

    def __init__(self, session: Session[S], prompt: list[Content], meta: JsonObject | None) -> None:
        self.session = session
        self.message_id = session.new_id("msg")
        """The id of the user's message."""
        self.prompt = prompt
        self.text = text_of(prompt)
        self.meta = meta
        self.files = Files(session)
        self.tokens: TokenUsage | None = None
        """What this turn used up; set it and it is told with the answer."""
        self.is_over = False
        self._message: tuple[Role, str] | None = None
        self._compactions: set[str] = set()

    # --- what is known

    @property
    def cwd(self) -> Path:
        """The session's directory."""
        return self.session.cwd

    @property
    def settings(self) -> S:
        """The settings now; the user may change them while the turn runs."""
        return self.session.settings

    @property
    def client(self) -> ClientCapabilities:
        """What the client can do. Rarely needed: everything below has a stated fallback."""
        return self.session.editor.features

    @property
    def mcp(self) -> McpServers:
        """The session's MCP servers and their tools."""
        return self.session.mcp

    def absolute(self, path: str | Path) -> Path:
        """A path as the protocol wants it: relative ones count from the session's directory."""
        return self.cwd / path

    # --- telling

    async def say(
        self, content: str | Content, *, message_id: str | None = None, meta: JsonObject | None = None
    ) -> None:
        """Send a piece of the answer. Waits when the client is slow."""
        await self._chunk("agent", content, message_id, meta)

    async def think(
        self, content: str | Content, *, message_id: str | None = None, meta: JsonObject | None = None
    ) -> None:
        """Send a piece of reasoning."""
        await self._chunk("thought", content, message_id, meta)

    async def send_user_message(
        self, content: str | Content, *, message_id: str | None = None, meta: JsonObject | None = None
    ) -> None:
        """Send words as the user's: for what reached the agent by another way."""
        await self._chunk("user", content, message_id, meta)

    async def plan(self, *entries: str | PlanEntry, plan_id: str | None = None) -> None:
        """Tell the whole plan, replacing the one before."""
        steps = [PlanEntry(entry) if isinstance(entry, str) else entry for entry in entries]
        await self.update(PlanUpdate(entries=steps, plan_id=plan_id))

    async def plan_document(self, plan_id: str, *, uri: str | None = None, markdown: str | None = None) -> None:
        """A plan that is a file or a text rather than a list (unstable)."""
        await self.update(PlanUpdate(plan_id=plan_id, uri=uri, markdown=markdown))

    async def remove_plan(self, plan_id: str) -> None:
        """A named plan is no more (unstable)."""
        await self.update(PlanRemovedUpdate(plan_id=plan_id))

    async def report_usage(
        self, *, used: int, size: int, cost: float | None = None, currency: str | None = None
    ) -> None:
        """How full the context is, and what the session has cost so far: in dollars, unless `currency` is given."""
        if cost is not None and currency is None:
            currency = "USD"
        known_cost = UNSET if cost is None else cost
        await self.update(UsageUpdate(used=used, size=size, cost=known_cost, currency=currency))

    async def notify(self, title: str, *, severity: str = "info", description: str | None = None) -> None:
        """Something to see now that is no part of the conversation; clients that do not know notices see nothing."""
        if not title:
            raise ValueError("a notice has a title")
        await self.update(NoticeUpdate(severity=severity, title=title, description=description))

    async def set_title(self, title: str | None) -> None:
        """Give the session a title, or take it away."""
        await self.update(InfoUpdate(title=title))

    async def compaction(
        self, compaction_id: str, status: str, *, summary: str | list[Content] | None = None, error: str | None = None
    ) -> None:
        """The context is being shortened: `in_progress`, then `completed`, `failed` or `cancelled`.

        One that is still in progress when the turn ends has failed, or was cancelled with it.
        """
        blocks = [as_content(summary)] if isinstance(summary, str) else summary
        await self.update(
            CompactionUpdate(
                compaction_id=compaction_id,
                status=status,
                summary=UNSET if blocks is None else blocks,
                error=UNSET if error is None else error,
            )
        )

    async def compaction_chunk(self, compaction_id: str, content: str | Content) -> None:
        """A piece of the summary while it is written."""
        await self.update(CompactionChunk(compaction_id=compaction_id, content=as_content(content)))

    async def update(self, update: Update) -> None:
        """Send any update; what the methods above are made of.

        Raises:
            RuntimeError: The turn is over: its answer has been given.
        """
        self._check_open()
        if isinstance(update, CompactionUpdate):
            self._note_compaction(update)
        self._message = None
        await self.session.update(update)

    async def send_final_update(self, update: Update) -> None:
        """An update while the turn is being cancelled: sent before its answer, without waiting for a slow client."""
        if not self.is_over:
            await self.session.send_final_update(update)

    async def end_compactions(self) -> None:
        """Leave no compaction in progress: the turn that did it ends here."""
        task = asyncio.current_task()
        status = "cancelled" if task is not None and task.cancelling() else "failed"
        for compaction_id in sorted(self._compactions):
            await self.send_final_update(CompactionUpdate(compaction_id=compaction_id, status=status))

    def _note_compaction(self, update: CompactionUpdate) -> None:
        if update.compaction_id in self.session.finished_compactions:
            raise ValueError(f"the compaction {update.compaction_id!r} has ended; a new one has a new id")
        if update.status == "in_progress":
            self._compactions.add(update.compaction_id)
        else:
            self._compactions.discard(update.compaction_id)
            self.session.finished_compactions.add(update.compaction_id)

    def _check_open(self) -> None:
        if self.is_over:
            raise RuntimeError("this turn has been answered; what happens between turns goes through `session.update`")

    async def _chunk(self, role: Role, content: str | Content, message_id: str | None, meta: JsonObject | None) -> None:
        self._check_open()
        if message_id is None:
            if self._message is None or self._message[0] != role:
                self._message = (role, self.session.new_id("msg"))
            message_id = self._message[1]
        await self.session.update(
            MessageChunk(
                role=role,
                content=as_content(content),
                message_id=message_id,
                meta=UNSET if meta is None else meta,
            )
        )

    # --- doing

    def tool(
        self,
        title: str,
        kind: str = "other",
        *,
        name: str | None = None,
        tool_call_id: str | None = None,
        locations: Iterable[str | Path | Location] = (),
        raw_input: Any = UNSET,
        cancellable: bool = False,
        meta: JsonObject | None = None,
    ) -> ToolCallHandle:
        """A tool call: `async with turn.tool("Read notes.md", kind="read") as read: …`.

        Kinds: read, edit, delete, move, search, execute, think, fetch, switch_mode, other. One that is `cancellable`
        may be cancelled alone, by clients that can: its block is left with `ToolCancelled`, which ends the turn as
        cancelled unless it is caught.
        """
        return ToolCallHandle(
            self,
            tool_call_id or self.session.new_id("call"),
            title,
            kind,
            name=name,
            locations=locations,
            raw_input=raw_input,
            cancellable=cancellable,
            meta=meta,
        )

    async def run(
        self,
        command: str,
        *args: str,
        cwd: str | Path | None = None,
        env: dict[str, str] | None = None,
        timeout: float | None = None,
        limit: int | None = None,
        title: str | None = None,
        tool: ToolCallHandle | None = None,
    ) -> CommandResult:
        """Run a command in the client's terminal, or as a process of our own; shown as a tool call either way.

        Args:
            command: The program; no shell runs.
            args: Its arguments.
            cwd: Where; the session's directory if not given.
            env: Variables beside the few any program gets.
            timeout: Seconds after which it is killed.
            limit: Bytes of output that are kept.
            title: Of the tool call; the command if not given.
            tool: A tool call that is already under way, to show it there: one that asked for permission, say.
        """
        return await run_command(
            self, [command, *args], cwd=cwd, env=env or {}, timeout=timeout, limit=limit, title=title, tool=tool
        )

    def terminal(
        self,
        command: str,
        *args: str,
        cwd: str | Path | None = None,
        env: dict[str, str] | None = None,
        limit: int = OUTPUT_LIMIT,
    ) -> AbstractAsyncContextManager[TerminalHandle]:
        """A command to watch while it runs: `async with turn.terminal("npm", "start") as terminal: …`.

        It runs where `run` would run it, and ends with the block. To show it, use `tool.show(terminal.part)`.
        """
        place = str(self.absolute(cwd or "."))
        return open_terminal(self.session, [command, *args], cwd=place, env=env or {}, limit=limit)

    async def set_option(self, **values: str | bool) -> None:
        """Change settings from the agent's side; the client is told."""
        await self.session.set_option(**values)

    def stop(self, reason: str) -> NoReturn:
        """End the turn here with another stop reason: `refusal`, `max_tokens`, `max_turn_requests`."""
        if reason not in STOP_REASONS:
            raise ValueError(f"{reason!r} is not a stop reason (there are: {', '.join(STOP_REASONS)})")
        raise StopTurn(reason)

    # --- asking

    async def ask_permission(
        self, asked: _PendingPermission, options: list[PermissionOption]
    ) -> PermissionOption | None:
        """What the user chose, or `None`: no answer, cancelled, or an answer that was never offered."""
        self._check_open()
        remembered = self.session.remembered.answer_to(asked)
        if remembered is not None:
            return remembered
        await self.session.commit()
        try:
            async with asyncio.timeout(self.session.permission_timeout):
                option_id = await self.session.editor.ask_permission(self.session.id, asked.tool, options, asked.meta)
        except (RequestError, ProtocolViolation, TimeoutError):
            return None
        chosen = next((option for option in options if option.option_id == option_id), None)
        if chosen is not None:
            self.session.remembered.note(asked, chosen)
        return chosen

    async def elicit(self, form: type[F], message: str, *, tool: ToolCallHandle | None = None) -> F | None:
        """Ask the user to fill in a form; a dataclass says what is asked. `None`: declined, or the client has no forms.

        Never ask for secrets this way: use `ask_url`.

        Raises:
            RequestError: The client failed to ask.
            TypeError: The dataclass cannot be a form, or asks for a secret.
        """
        self._check_open()
        schema = form_schema(form)
        if not self.client.forms:
            return None
        question = Elicitation(
            message=message,
            session_id=self.session.id,
            tool_call_id=None if tool is None else tool.tool_call_id,
            schema=schema,
        )
        return await ask_form(self.session.editor, question, form)

    async def elicit_url(self, message: str, url: str, *, elicitation_id: str | None = None) -> bool:
        """Ask the user to visit an address; whether they agreed. `editor.complete_elicitation` tells it is done.

        Raises:
            InvalidParams: The client cannot do that; there is no other safe way to ask for secrets.
            RequestError: The client failed to ask.
            ValueError: The address is none of the web (`http`, `https`), or holds a user's name or password.
        """
        self._check_open()
        host_of(url)
        if "@" in urlsplit(url).netloc:
            raise ValueError("an address that others see holds no name and no password")
        if not self.client.urls:
            raise InvalidParams("the client cannot open addresses for the user")
        question = Elicitation(
            message=message,
            session_id=self.session.id,
            url=url,
            elicitation_id=elicitation_id or self.session.new_id("ask"),
        )
        return (await ask_elicitation(self.session.editor, question)).action == "accept"
