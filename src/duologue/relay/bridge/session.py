"""One session between two versions: what is known of it here, and what its editor is told."""

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
    CommandsUpdate,
    CompactionUpdate,
    ContentPart,
    InfoUpdate,
    MessageChunk,
    MessageUpdate,
    ModeUpdate,
    NoticeUpdate,
    SettingsUpdate,
    StateUpdate,
    TerminalOutputChunk,
    TerminalUpdate,
    ToolCallUpdate,
    ToolContent,
    Update,
    UsageUpdate,
)
from duologue.relay.bridge.passthrough import is_carrying, passing_on
from duologue.relay.bridge.settings import BridgedSettings
from duologue.relay.bridge.terminal_text import TerminalsAsText
from duologue.relay.bridge.turns import Turns
from duologue.relay.bridge.v1_updates import UpdateDowngrader

if TYPE_CHECKING:
    from duologue.relay.bridge.state import BridgeState

__all__ = ["BridgedSession"]

T = TypeVar("T")

STATES = (CommandsUpdate, ModeUpdate, SettingsUpdate, InfoUpdate, UsageUpdate, NoticeUpdate)
"""What replaces what was there; all else would be there twice if it were told twice."""


class _Question(Struct):
    """What a question of version 2 says beside the tool call that it is about."""

    title: str | None = None
    description: str | None = None


_JUDGED = ("title", "kind", "content", "locations", "raw_input")
"""What a tool call is judged by."""


class _PendingPermission(Struct):
    params: _Question


class BridgedSession:
    """A session as a bridge sees it.

    Attributes:
        id: Its name, the same on both sides.
        setup: What it was opened with, if it was opened here.
        panel: What can be set in it.
        turns: The prompts on their way.
        prompts: What the editor has said in the turns that run.
        is_silent: The agent tells what it said before, and its editor does not want to hear it.
    """

    def __init__(self, session_id: str, between: BridgeState, setup: SessionParams | None = None) -> None:
        self.id = session_id
        self.setup = setup
        self.panel = BridgedSettings(session_id)
        self.prompts: list[list[Content]] = []
        self.is_silent = False
        self._echoes: set[str | None] = set()
        self._between = between
        self.turns = Turns(between.tasks, lambda: between.stop(session_id))
        self._transcript = Transcript()
        self._questions: set[asyncio.Task[Any]] = set()
        self._screens: TerminalsAsText | None = None
        self._plainly: UpdateDowngrader | None = None
        editor = between.editor
        if not editor.features.shows_terminals and between.agent_version > 1:
            self._screens = TerminalsAsText(self._transcript, self._tell, between.tasks)
            self._plainly = UpdateDowngrader(session_id, editor, V1Downgrader(), self._screens, between.losses)

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

    # --- what the agent tells

    async def hear(self, update: Update) -> None:
        """Pass on what the agent says."""
        if self.is_silent and not isinstance(update, STATES):
            return
        if type(update) is MessageChunk and update.role != "user":  # the short way for most of what an agent says
            await self._tell(update if self._plainly is None else (await self._plainly.tell(update))[0])
            return
        if isinstance(update, MessageChunk | MessageUpdate) and update.role == "user" and self._is_echo(update):
            return
        match update:
            case StateUpdate():
                await self._hear_state(update)
            case ModeUpdate():
                await self._hear_all(self.panel.mode_changed(update))
            case SettingsUpdate():
                await self._hear_all(self.panel.settings_changed(update))
            case _:
                await self._hear_all([update])

    def _is_echo(self, update: MessageChunk | MessageUpdate) -> bool:
        """Whether the editor has said this itself: it would be shown twice."""
        if isinstance(update, MessageChunk):
            return update.message_id in self._echoes or any(update.content in prompt for prompt in self.prompts)
        is_echo = isinstance(update.content, list) and merge_text(update.content) in map(merge_text, self.prompts)
        if is_echo:
            self._echoes.add(update.message_id)
        return is_echo or update.message_id in self._echoes

    async def _hear_all(self, updates: list[Update]) -> None:
        for update in updates:
            for told in await self._in_its_words(update):
                await self._tell(told)
            if self._screens is not None and isinstance(update, TerminalUpdate | TerminalOutputChunk):
                await self._screens.changed(update.terminal_id)

    async def _in_its_words(self, update: Update) -> list[Update]:
        if isinstance(update, CompactionUpdate):
            update = self._compaction(update)
        if not isinstance(update, MessageChunk | MessageUpdate):  # nobody asks here what was said
            self._transcript.apply(update)
        return [update] if self._plainly is None else await self._plainly.tell(update)

    async def _hear_state(self, state: StateUpdate) -> None:
        """The dialect of the editor tells states itself, because it knows of the prompts; it needs the rest."""
        if state.background is None:
            return
        await self._between.editor.work_in_background(self.id, state.background)
        if self._plainly is not None and state.background:
            await self._between.losses.tell("background", self._between.editor, self.id)

    def _compaction(self, change: CompactionUpdate) -> CompactionUpdate:
        """Version 1 replaces what is attached to a compaction, version 2 patches it key by key."""
        items = self._transcript.items
        known = [item for item in items if isinstance(item, Compaction) and item.compaction_id == change.compaction_id]
        before = known[0].meta if known else None
        if not isinstance(change.meta, dict) or before is None:
            return change
        if change.replaces_meta and self._plainly is None:
            return structs.replace(change, meta={**dict.fromkeys(before), **change.meta}, replaces_meta=False)
        if not change.replaces_meta and self._plainly is not None:
            return structs.replace(change, meta=patched_meta(before, change.meta), replaces_meta=True)
        return change

    async def _tell(self, update: Update) -> None:
        if not is_carrying():
            await self._between.editor.update(self.id, update)
            return
        with passing_on():
            await self._between.editor.update(self.id, update)

    async def catch_up(self) -> None:
        """Tell what waits to be told."""
        if self._screens is not None:
            await self._screens.catch_up()

    # --- what the agent asks

    def asked(self, tool: ToolCallUpdate) -> ToolCall | None:
        """The tool call of a question as it stands before the question."""
        return self._transcript.tool_call(tool.tool_call_id)

    async def question(self, tool: ToolCallUpdate, known: ToolCall | None, raw: bytes) -> ToolCallUpdate:
        """What a permission question is about, so that the user sees all of it, as it stood when it was asked."""
        self._transcript.apply(tool)
        asked = await self._in_words(tool, known, raw)
        # The editor may have been told more of the tool call since, and would judge it by that.
        before, now = known or ToolCall(tool_call_id=tool.tool_call_id), self._transcript.tool_call(tool.tool_call_id)
        changed = [name for name in _JUDGED if getattr(now, name) != getattr(before, name)]
        stood = {name: getattr(before, name) for name in changed if getattr(asked, name) is UNSET}
        return structs.replace(asked, **stood) if stood else asked

    async def _in_words(self, tool: ToolCallUpdate, known: ToolCall | None, raw: bytes) -> ToolCallUpdate:
        if self._plainly is None:
            needs_title = not tool.title and known is not None and known.title
            return structs.replace(tool, title=known.title) if known is not None and needs_title else tool
        words = _words(tool, raw)
        if words:
            content: list[ToolContent] = tool.content if isinstance(tool.content, list) else []
            if tool.content is UNSET and known is not None:
                content = known.content
            tool = structs.replace(tool, content=[ContentPart(TextContent(words)), *content])
        asked = await self._plainly.adapt(tool)
        assert isinstance(asked, ToolCallUpdate), "a tool call stays one"
        return asked

    async def ask(self, question: Coroutine[Any, Any, T]) -> T | None:
        """Ask the user; nothing if the turn was cancelled meanwhile."""
        asking = self._between.tasks.start(question)
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
        """The user ends what runs."""
        # protocol/v1/prompt-turn, Cancellation: the client MUST answer the permission requests still pending. Clients
        # of later versions wait to be told, one by one.
        if self._between.agent_version == 1:
            for asking in self._questions:
                asking.cancel()
        self.turns.cancel()


def _words(tool: ToolCallUpdate, raw: bytes) -> str:
    """What a question says beside its tool call, unless the tool call says the same."""
    asked = msgspec.json.decode(raw, type=_PendingPermission).params
    title = asked.title if asked.title != tool.title else None
    words = "\n\n".join(part for part in (title, asked.description) if part)
    parts = tool.content if isinstance(tool.content, list) else []
    texts = [
        part.content.text for part in parts if isinstance(part, ContentPart) and isinstance(part.content, TextContent)
    ]
    return "" if words in texts else words
