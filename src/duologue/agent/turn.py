"""One prompt, and everything that an agent may do to answer it.

Each method sends its update in order and before the turn's response; after the response the turn sends nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from duologue.agent.diagnostics.checks import check_compaction, check_severity, check_stop_reason
from duologue.agent.diagnostics.misused_results import TurnBlock, must_be_awaited
from duologue.agent.settings import S
from duologue.agent.turn_exceptions import StopTurn
from duologue.conversation import updates as u
from duologue.conversation.content import Content, JsonObject, as_content, text_of
from duologue.conversation.updates import UNSET, Location, PlanEntry, Role, Update
from duologue.conversation.work_state import OUTPUT_LIMIT, CompactionStatus, Severity, StopReason, TokenUsage, ToolKind
from duologue.protocol.meta import current_attachment
from duologue.protocol.values import ClientCapabilities
from duologue.runtime.text_template import TextTemplate
from duologue.sanitize import shorten

if TYPE_CHECKING:
    from duologue.agent.command import CommandResult
    from duologue.agent.files import Files
    from duologue.agent.session import Session
    from duologue.agent.terminal import TerminalHandle
    from duologue.agent.tool_call import ToolCallHandle
    from duologue.agent.turns.compactions import OpenCompactions
    from duologue.agent.turns.plan_progress import PlanProgress
    from duologue.agent.turns.steering import SteeringMessage, SteeringQueue
    from duologue.mcp.servers import McpServers

F = TypeVar("F")


class Turn(Generic[S]):
    """A prompt to answer. Returning from the handler ends the turn with `end_turn`.

    Attributes:
        session: The session that the prompt belongs to.
        message_id: The id of the user's message.
        prompt: The content blocks that the user sent.
        text: The text blocks of the prompt, joined.
        meta: The `_meta` that the client attached to the prompt.
        tokens: The tokens that this turn used; set it to report them with the response (unstable).
    """

    def __init__(self, session: Session[S], prompt: list[Content], meta: JsonObject | None) -> None:
        self.session = session
        self.message_id = session.new_id("msg")
        self.prompt = prompt
        self.text = text_of(prompt)
        self.meta = meta
        self.tokens: TokenUsage | None = None
        self._is_over = False
        self._at_end: list[Callable[[], object]] = []
        """Called when the turn is over, for what is kept until then."""
        self._mistake: str | None = None
        self._message: tuple[Role, str] | None = None
        self._chunks: tuple[Role, str, TextTemplate] | None = None
        self._compactions: OpenCompactions | None = None
        self._steering: SteeringQueue | None = None

    def __repr__(self) -> str:
        return f"<Turn of session {self.session.id!r}: {shorten(self.text, 60)!r}>"

    @property
    def cwd(self) -> Path:
        """The session's working directory."""
        return self.session.cwd

    @property
    def settings(self) -> S:
        """The current settings; the user may change them while the turn runs."""
        return self.session.settings

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """Capabilities that the client advertised; rarely needed, as every method here has a fallback."""
        return self.session.client_capabilities

    @property
    def files(self) -> Files:
        """Reads and writes files: through the client if it offers that, otherwise on disk."""
        from duologue.agent.files import Files

        return Files(self.session)

    @property
    def mcp(self) -> McpServers:
        """The session's MCP servers and their tools."""
        return self.session.mcp

    def absolute(self, path: str | Path) -> Path:
        """Return an absolute path, as the protocol requires; relative ones start at the session's directory."""
        return self.cwd / path

    # --- updates

    async def say(
        self, content: str | Content, *, message_id: str | None = None, meta: JsonObject | None = None
    ) -> None:
        """Send a chunk of the answer; wait while the client is slow."""
        if (waiting := self._chunk("agent", content, message_id, meta)) is not None:
            await waiting

    async def think(
        self, content: str | Content, *, message_id: str | None = None, meta: JsonObject | None = None
    ) -> None:
        """Send a chunk of the agent's reasoning."""
        if (waiting := self._chunk("thought", content, message_id, meta)) is not None:
            await waiting

    async def send_user_message(
        self, content: str | Content, *, message_id: str | None = None, meta: JsonObject | None = None
    ) -> None:
        """Send a chunk as the user's message, for input that did not come from this client."""
        if (waiting := self._chunk("user", content, message_id, meta)) is not None:
            await waiting

    @must_be_awaited
    async def plan(self, *entries: str | PlanEntry, plan_id: str | None = None) -> PlanProgress:
        """Send the complete plan, replacing the one before; `async with plan.step():` shows the progress."""
        from duologue.agent.turns.plan_progress import PlanProgress

        plan = PlanProgress(self, entries, plan_id)
        await plan.send()
        return plan

    async def plan_document(self, plan_id: str, *, uri: str | None = None, markdown: str | None = None) -> None:
        """Send a plan that is a file or a Markdown text instead of a list (unstable)."""
        await self.update(u.PlanUpdate(plan_id=plan_id, uri=uri, markdown=markdown))

    async def remove_plan(self, plan_id: str) -> None:
        """Remove a named plan (unstable)."""
        await self.update(u.PlanRemovedUpdate(plan_id=plan_id))

    async def report_usage(
        self, *, used: int, size: int, cost: float | None = None, currency: str | None = None
    ) -> None:
        """Report the tokens in the context window and the cost of the session so far.

        Args:
            used: Tokens in the context.
            size: Size of the context window in tokens.
            cost: Cost of the session so far.
            currency: ISO 4217 code; USD if not given.
        """
        known_cost, usual = (UNSET, None) if cost is None else (cost, "USD")
        await self.update(u.UsageUpdate(used=used, size=size, cost=known_cost, currency=currency or usual))

    async def notify(self, title: str, *, severity: Severity = "info", description: str | None = None) -> None:
        """Show a notice that is not part of the conversation; clients without notices ignore it (unstable)."""
        if not title:
            raise ValueError("the title of a notice must not be empty")
        check_severity(severity)
        await self.update(u.NoticeUpdate(severity=severity, title=title, description=description))

    async def set_title(self, title: str | None) -> None:
        """Set the title of the session, or remove it; a title that the user set stays."""
        await self.update(u.InfoUpdate(title=title))

    async def report_compaction(
        self,
        compaction_id: str,
        status: CompactionStatus,
        *,
        summary: str | list[Content] | None = None,
        error: str | None = None,
    ) -> None:
        """Report that the context is being compacted (unstable).

        Args:
            compaction_id: Id of this compaction, new for each.
            status: `in_progress`, then `completed`, `failed` or `cancelled`. A compaction that is in progress when the
                turn ends is reported as failed or cancelled.
            summary: What replaces the context.
            error: Why it failed.
        """
        check_compaction(status)
        blocks = [as_content(summary)] if isinstance(summary, str) else summary
        shown, reason = UNSET if blocks is None else blocks, UNSET if error is None else error
        await self.update(u.CompactionUpdate(compaction_id=compaction_id, status=status, summary=shown, error=reason))

    async def send_compaction_chunk(self, compaction_id: str, content: str | Content) -> None:
        """Send a chunk of the summary of a compaction that is in progress (unstable)."""
        await self.update(u.CompactionChunk(compaction_id=compaction_id, content=as_content(content)))

    async def update(self, update: Update) -> None:
        """Send any update.

        Raises:
            RuntimeError: The turn is over: its response has been sent.
        """
        self._check_open()
        if isinstance(update, u.CompactionUpdate):
            from duologue.agent.turns.compactions import OpenCompactions

            self._compactions = self._compactions or OpenCompactions(self.session._finished_compactions)
            self._compactions.note(update)
        self._message = None
        await self.session.update(update)

    async def send_final_update(self, update: Update) -> None:
        """Send an update while the turn is being cancelled, before its response, without waiting for a slow client."""
        if not self._is_over:
            await self.session._send_final_update(update)

    def _check_open(self) -> None:
        if self._is_over:
            raise RuntimeError("this turn has been answered; use `session.update` to send updates between turns")

    def _chunk(
        self, role: Role, content: str | Content, message_id: str | None, meta: JsonObject | None
    ) -> Awaitable[None] | None:
        """Send a chunk of a message; return what to await, if anything."""
        if self._is_over:
            self._check_open()
        if message_id is None:
            if self._message is None or self._message[0] != role:
                self._message = (role, self.session.new_id("msg"))
            message_id = self._message[1]
        if type(content) is not str or meta is not None or current_attachment() is not None:
            block, given = as_content(content), UNSET if meta is None else meta
            return self.session.update(u.MessageChunk(role=role, content=block, message_id=message_id, meta=given))
        chunks = self._chunks
        if chunks is None or chunks[1] != message_id or chunks[0] != role:
            template = self.session._client.text_chunks(self.session.id, role, message_id)
            chunks = self._chunks = (role, message_id, template)
        if self.session._is_stored:
            self.session._persistence.append_text(role, message_id, content)
        return chunks[2].send(content)

    # --- tool calls and commands

    def tool(
        self,
        title: str,
        kind: ToolKind = "other",
        *,
        name: str | None = None,
        tool_call_id: str | None = None,
        locations: Iterable[str | Path | Location] = (),
        raw_input: Any = UNSET,
        cancellable: bool = False,
        meta: JsonObject | None = None,
    ) -> ToolCallHandle:
        """Create a tool call: `async with turn.tool("Read notes.md", kind="read") as read: …`.

        Args:
            title: Shown to the user.
            kind: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode` or `other`.
            name: The name of the tool for programs.
            tool_call_id: Unique in the session; random if not given.
            locations: Files that the tool works on.
            raw_input: The input of the tool, any JSON value.
            cancellable: Let clients cancel this tool call alone. The block is then left with `ToolCancelled`, which
                ends the turn as cancelled unless it is caught.
            meta: Attached to the tool call.
        """
        from duologue.agent.tool_call import ToolCallHandle

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

    @must_be_awaited
    async def run(
        self,
        command: str,
        *args: str,
        cwd: str | Path | None = None,
        env: dict[str, str] | None = None,
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
        title: str | None = None,
        tool: ToolCallHandle | None = None,
    ) -> CommandResult:
        """Run a command in the client's terminal, or as a child process; shown as a tool call either way.

        Args:
            command: The program; no shell is involved.
            args: Its arguments.
            cwd: Working directory; the session's directory if not given.
            env: Variables added to a minimal environment.
            timeout: Seconds after which the command is killed.
            output_limit: Bytes of output to keep; the oldest are dropped.
            title: Title of the tool call; the command line if not given.
            tool: An open tool call in which to show the command, for example one that requested permission.
        """
        from duologue.agent.command import run_command

        return await run_command(
            self, [command, *args], cwd=cwd, env=env or {}, timeout=timeout, limit=output_limit, title=title, tool=tool
        )

    def terminal(
        self,
        command: str,
        *args: str,
        cwd: str | Path | None = None,
        env: dict[str, str] | None = None,
        output_limit: int = OUTPUT_LIMIT,
    ) -> AbstractAsyncContextManager[TerminalHandle]:
        """Start a command to watch while it runs: `async with turn.terminal("npm", "start") as terminal: …`.

        It runs where `run` would run it, and ends with the block. To show it, use `tool.show(terminal.part)`.
        """
        from duologue.agent.terminal import open_terminal

        directory = str(self.absolute(cwd or "."))
        opened = open_terminal(self.session, [command, *args], cwd=directory, env=env or {}, limit=output_limit)
        return TurnBlock(self, "turn.terminal", opened)

    async def set_option(self, **values: str | bool) -> None:
        """Change settings from the agent's side; the client is notified.

        Raises:
            InvalidParams: A setting or value does not exist.
        """
        await self.session.set_option(**values)

    def stop(self, reason: StopReason) -> NoReturn:
        """End the turn here with another stop reason: `refusal`, `max_tokens`, `max_turn_requests`."""
        check_stop_reason(reason)
        raise StopTurn(reason)

    # --- steering, and requests to the user

    async def take_steering(self) -> list[SteeringMessage]:
        """Take what the user has sent into the turn so far; call it before each model request (`steering=True`)."""
        return await self._steering_queue().take()

    def steering(self) -> AsyncIterator[SteeringMessage]:
        """Yield what the user sends into the turn, until it is over; cancel the task that iterates after the work."""
        return self._steering_queue().messages()

    def _steering_queue(self) -> SteeringQueue:
        from duologue.agent.turns.steering import SteeringQueue

        self._steering = self._steering or SteeringQueue(self)
        return self._steering

    @must_be_awaited
    async def elicit(self, form: type[F], message: str, *, tool: ToolCallHandle | None = None) -> F | None:
        """Ask the user to fill in a form that a dataclass describes; never for secrets, see `elicit_url`.

        Returns `None` if the user declined, the input is invalid, or the client does not support forms.

        Args:
            form: A dataclass; its fields are the fields of the form.
            message: Why the user is asked.
            tool: The tool call that needs the input.

        Raises:
            RequestError: The client answered with an error.
            TypeError: The dataclass cannot be a form, or asks for a secret.
        """
        from duologue.agent.elicitation import elicit_form

        self._check_open()
        tool_id = None if tool is None else tool.tool_call_id
        return await elicit_form(self.session._client, self.session.id, form, message, tool_id)

    @must_be_awaited
    async def elicit_url(self, message: str, url: str, *, elicitation_id: str | None = None) -> bool:
        """Ask the user to visit a URL; return True if they agreed.

        Call `session.complete_elicitation` with the id once the user has done there what was needed.

        Args:
            message: Why the user is asked.
            url: An `http` or `https` URL without user name or password.
            elicitation_id: Random if not given.

        Raises:
            InvalidParams: The client does not support URL elicitation; there is no other safe way to ask for secrets.
            RequestError: The client answered with an error.
            ValueError: The URL is not allowed.
        """
        from duologue.agent.elicitation import elicit_url

        self._check_open()
        session, chosen_id = self.session, elicitation_id or self.session.new_id("ask")
        return await elicit_url(session._client, session.id, message, url, chosen_id)
