"""One session of a bridge: its known state, and the updates for the client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, structs

from duologue.conversation.builders import patched_meta
from duologue.conversation.content import Content, TextContent, merge_text
from duologue.conversation.downgrade import V1Downgrader
from duologue.conversation.items import Compaction, ToolCall
from duologue.conversation.session_setup import SessionInfo, SessionParams
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import (
    CompactionUpdate,
    ContentPart,
    MessageChunk,
    MessageUpdate,
    ModeUpdate,
    SettingsUpdate,
    StateUpdate,
    TerminalOutputChunk,
    TerminalUpdate,
    ToolCallUpdate,
    ToolContent,
    Update,
)
from duologue.relay.bridge.passthrough import forwarded_meta, has_meta
from duologue.relay.bridge.settings import BridgedSettings
from duologue.relay.bridge.terminal_text import TerminalsAsText
from duologue.relay.bridge.turns import Turns
from duologue.relay.bridge.v1_updates import UpdateDowngrader

if TYPE_CHECKING:
    from duologue.relay.bridge.state import BridgeState

T = TypeVar("T")


class _Question(Struct):
    """The text of a permission request of version 2, in addition to its tool call."""

    title: str | None = None
    description: str | None = None


_DECISIVE = ("title", "kind", "content", "locations", "raw_input")
"""Fields of a tool call on which the user bases a decision."""


class _PendingPermission(Struct):
    params: _Question


class BridgedSession:
    """One session of a bridge.

    Attributes:
        id: Its id, the same on both sides.
        setup: Its parameters, if it was opened here.
        settings: Its settings in both versions.
        turns: Its queued and running prompts.
        prompts: The content of the running prompts.
        is_silent: The agent replays the session, and the client does not want the replay.
    """

    def __init__(self, session_id: str, state: BridgeState, setup: SessionParams | None = None) -> None:
        self.id = session_id
        self.setup = setup
        self.settings = BridgedSettings(session_id)
        self.prompts: list[list[Content]] = []
        self.is_silent = False
        self._echoes: set[str | None] = set()
        self._state = state
        self.turns = Turns(state.tasks, lambda: state.stop(session_id))
        self._transcript = Transcript()
        self._questions: set[asyncio.Task[Any]] = set()
        self._terminals: TerminalsAsText | None = None
        self._downgrader: UpdateDowngrader | None = None
        client = state.client
        if not client.capabilities.shows_terminals and state.agent_version > 1:
            self._terminals = TerminalsAsText(self._transcript, self._send, state.tasks)
            self._downgrader = UpdateDowngrader(session_id, client, V1Downgrader(), self._terminals, state.losses)

    @property
    def info(self) -> SessionInfo | None:
        """The session as a list shows it, if it was opened here."""
        if self.setup is None:
            return None
        transcript = self._transcript
        return SessionInfo(
            session_id=self.id,
            cwd=self.setup.cwd,
            additional_directories=self.setup.additional_directories,
            title=transcript.title,
            updated_at=transcript.updated_at,
        )

    # --- updates of the agent

    async def on_update(self, update: Update) -> None:
        """Pass on an update of the agent."""
        if self.is_silent and not update.is_state:
            return
        if type(update) is MessageChunk and update.role != "user":  # the fast path for most updates
            await self._send(update if self._downgrader is None else (await self._downgrader.convert(update))[0])
            return
        if isinstance(update, MessageChunk | MessageUpdate) and update.role == "user" and self._is_echo(update):
            return
        match update:
            case StateUpdate():
                await self._on_state(update)
            case ModeUpdate():
                await self._convert_and_send(self.settings.mode_changed(update))
            case SettingsUpdate():
                await self._convert_and_send(self.settings.settings_changed(update))
            case _:
                await self._convert_and_send([update])

    def _is_echo(self, update: MessageChunk | MessageUpdate) -> bool:
        """Return whether this is the client's own prompt, which would be shown twice."""
        if isinstance(update, MessageChunk):
            return update.message_id in self._echoes or any(update.content in prompt for prompt in self.prompts)
        is_echo = isinstance(update.content, list) and merge_text(update.content) in map(merge_text, self.prompts)
        if is_echo:
            self._echoes.add(update.message_id)
        return is_echo or update.message_id in self._echoes

    async def _convert_and_send(self, updates: list[Update]) -> None:
        for update in updates:
            for converted in await self._convert(update):
                await self._send(converted)
            if self._terminals is not None and isinstance(update, TerminalUpdate | TerminalOutputChunk):
                await self._terminals.changed(update.terminal_id)

    async def _convert(self, update: Update) -> list[Update]:
        if isinstance(update, CompactionUpdate):
            update = self._compaction(update)
        if not isinstance(update, MessageChunk | MessageUpdate):  # the text of messages is not needed here
            self._transcript.apply(update)
        return [update] if self._downgrader is None else await self._downgrader.convert(update)

    async def _on_state(self, state: StateUpdate) -> None:
        """Pass on background work; the states of turns are sent by the client's version, which knows the prompts."""
        if state.background is None:
            return
        await self._state.client.work_in_background(self.id, state.background)
        if self._downgrader is not None and state.background:
            await self._state.losses.report("background", self._state.client, self.id)

    def _compaction(self, change: CompactionUpdate) -> CompactionUpdate:
        """Convert the `_meta` of a compaction: version 1 replaces it, version 2 merges it key by key."""
        items = self._transcript.items
        known = [item for item in items if isinstance(item, Compaction) and item.compaction_id == change.compaction_id]
        before = known[0].meta if known else None
        if not isinstance(change.meta, dict) or before is None:
            return change
        if change.replaces_meta and self._downgrader is None:
            return structs.replace(change, meta={**dict.fromkeys(before), **change.meta}, replaces_meta=False)
        if not change.replaces_meta and self._downgrader is not None:
            return structs.replace(change, meta=patched_meta(before, change.meta), replaces_meta=True)
        return change

    async def _send(self, update: Update) -> None:
        if not has_meta():
            await self._state.client.update(self.id, update)
            return
        with forwarded_meta():
            await self._state.client.update(self.id, update)

    async def catch_up(self) -> None:
        """Send output of terminals that was not sent yet."""
        if self._terminals is not None:
            await self._terminals.catch_up()

    # --- requests of the agent

    def known_tool_call(self, tool: ToolCallUpdate) -> ToolCall | None:
        """Return the tool call of a permission request as it was before the request."""
        return self._transcript.tool_call(tool.tool_call_id)

    async def permission_subject(self, tool: ToolCallUpdate, known: ToolCall | None, raw: bytes) -> ToolCallUpdate:
        """Return the complete tool call of a permission request, as it was when the agent sent the request."""
        self._transcript.apply(tool)
        asked = await self._with_text(tool, known, raw)
        # The client may have got later updates of the tool call, and would show those.
        before, now = known or ToolCall(tool_call_id=tool.tool_call_id), self._transcript.tool_call(tool.tool_call_id)
        changed = [name for name in _DECISIVE if getattr(now, name) != getattr(before, name)]
        earlier = {name: getattr(before, name) for name in changed if getattr(asked, name) is UNSET}
        return structs.replace(asked, **earlier) if earlier else asked

    async def _with_text(self, tool: ToolCallUpdate, known: ToolCall | None, raw: bytes) -> ToolCallUpdate:
        if self._downgrader is None:
            needs_title = not tool.title and known is not None and known.title
            return structs.replace(tool, title=known.title) if known is not None and needs_title else tool
        text = _request_text(tool, raw)
        if text:
            content: list[ToolContent] = tool.content if isinstance(tool.content, list) else []
            if tool.content is UNSET and known is not None:
                content = known.content
            tool = structs.replace(tool, content=[ContentPart(TextContent(text)), *content])
        asked = await self._downgrader.adapt(tool)
        assert isinstance(asked, ToolCallUpdate)
        return asked

    async def ask(self, question: Coroutine[Any, Any, T]) -> T | None:
        """Send a request to the client; return `None` if the turn was cancelled meanwhile."""
        asking = self._state.tasks.start(question)
        self._questions.add(asking)
        try:
            await asyncio.wait({asking})
            return None if asking.cancelled() else asking.result()
        except asyncio.CancelledError:
            asking.cancel()
            raise
        finally:
            self._questions.discard(asking)

    def cancel(self) -> None:
        """Cancel the running turn."""
        # protocol/v1/prompt-turn, Cancellation: the client MUST answer the permission requests still pending. In later
        # versions the agent withdraws them one by one.
        if self._state.agent_version == 1:
            for asking in self._questions:
                asking.cancel()
        self.turns.cancel()


def _request_text(tool: ToolCallUpdate, raw: bytes) -> str:
    """Return the text of a permission request that its tool call does not contain."""
    asked = msgspec.json.decode(raw, type=_PendingPermission).params
    title = asked.title if asked.title != tool.title else None
    text = "\n\n".join(part for part in (title, asked.description) if part)
    parts = tool.content if isinstance(tool.content, list) else []
    texts = [
        part.content.text for part in parts if isinstance(part, ContentPart) and isinstance(part.content, TextContent)
    ]
    return "" if text in texts else text
