"""A session told to somebody who knows neither upserts nor states: chunks append, and patches are whole.

| update | in plainer words |
|---|---|
| a whole message, heard of for the first time | its content, block by block |
| a whole message that goes on where it ended | chunks of what is new |
| a whole message that says something else | all of it, as another message: what was said cannot be taken back |
| more content of a tool call | the call with all it shows |
| the first word on a tool call | the call, begun |
| a state, a terminal of the agent | nothing |
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from duologue.conversation.content import Content, TextContent, merge_text
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import (
    MessageChunk,
    MessageUpdate,
    Role,
    StateUpdate,
    TerminalOutputChunk,
    TerminalUpdate,
    ToolCallUpdate,
    ToolContentChunk,
    Update,
)

__all__ = ["V1Downgrader", "chunks_of"]


class V1Downgrader:
    """One session, told plainly.

    Attributes:
        heard: The session as it stands for who hears only this.
    """

    def __init__(self) -> None:
        self.sent = Transcript()
        self._names: dict[tuple[Role, str], str] = {}

    def convert(self, update: Update) -> list[Update]:
        """The same in plainer words."""
        told = self._told(update)
        for each in told:
            self.sent.apply(each)
        return told

    def _told(self, update: Update) -> list[Update]:
        match update:
            case MessageUpdate():
                return [*self._what_is_new(update)]
            case MessageChunk(message_id=str() as message_id) if (update.role, message_id) in self._names:
                return [msgspec.structs.replace(update, message_id=self._names[update.role, message_id])]
            case ToolCallUpdate(tool_call_id=tool_call_id):
                is_new = self.sent.tool_call(tool_call_id) is None
                return [msgspec.structs.replace(update, is_new=is_new)]
            case ToolContentChunk(tool_call_id=tool_call_id):
                call = self.sent.tool_call(tool_call_id)
                content = [*([] if call is None else call.content), *update.content]
                return [ToolCallUpdate(tool_call_id=tool_call_id, content=content, is_new=call is None)]
            case StateUpdate() | TerminalUpdate() | TerminalOutputChunk():
                return []
            case _:
                return [update]

    def _what_is_new(self, change: MessageUpdate) -> list[MessageChunk]:
        """Chunks that make the message what it is now, or another message that is."""
        key = (change.role, change.message_id)
        message_id = self._names.get(key, change.message_id)
        before = self.sent.message(change.role, message_id)
        if change.content is UNSET or before is None:
            return chunks_of(change, message_id)
        content = merge_text(change.content or [])
        rest = _rest(before.content, content)
        if rest is None:
            rest = content
            message_id = self._names[key] = f"{message_id}~"
        return chunks_of(msgspec.structs.replace(change, content=rest), message_id)


def chunks_of(change: MessageUpdate, message_id: str | None = None) -> list[MessageChunk]:
    """A whole message in chunks, one for each block."""
    content = change.content or []
    message_id = change.message_id if message_id is None else message_id
    return [MessageChunk(role=change.role, content=block, message_id=message_id) for block in content]


def _rest(before: list[Content], after: list[Content]) -> list[Content] | None:
    """What comes after the beginning, if that is the beginning."""
    if before == after[: len(before)]:
        return after[len(before) :]
    last, going_on = before[-1], after[len(before) - 1 : len(before)]
    if before[:-1] != after[: len(before) - 1] or not isinstance(last, TextContent):
        return None
    match going_on:
        case [TextContent(text=text, annotations=last.annotations) as block] if text.startswith(last.text):
            return [msgspec.structs.replace(block, text=text[len(last.text) :]), *after[len(before) :]]
        case _:
            return None
