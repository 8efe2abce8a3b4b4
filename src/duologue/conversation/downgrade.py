"""Conversion of updates for protocol version 1, which knows neither whole-message updates nor session states.

| update | for version 1 |
|---|---|
| a whole message that is new | chunks, one for each block |
| a whole message that extends the one sent | chunks with what is new |
| a whole message with other content | all of it as another message: sent chunks cannot be replaced |
| more content of a tool call | the tool call with all its content |
| the first update of a tool call | marked as new |
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


class V1Downgrader:
    """Converter for the updates of one session.

    Attributes:
        sent: The session as a version 1 client sees it.
    """

    def __init__(self) -> None:
        self.sent = Transcript()
        self._sent_ids: dict[tuple[Role, str], str] = {}

    def convert(self, update: Update) -> list[Update]:
        """Return the updates to send instead of this one."""
        converted = self._convert(update)
        for each in converted:
            self.sent.apply(each)
        return converted

    def _convert(self, update: Update) -> list[Update]:
        match update:
            case MessageUpdate():
                return [*self._chunks_for(update)]
            case MessageChunk(message_id=str() as message_id) if (update.role, message_id) in self._sent_ids:
                return [msgspec.structs.replace(update, message_id=self._sent_ids[update.role, message_id])]
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

    def _chunks_for(self, change: MessageUpdate) -> list[MessageChunk]:
        """Return chunks that extend the sent message to its new content, or that send it as another message."""
        key = (change.role, change.message_id)
        message_id = self._sent_ids.get(key, change.message_id)
        before = self.sent.message(change.role, message_id)
        if change.content is UNSET or before is None:
            return chunks_of(change, message_id)
        content = merge_text(change.content or [])
        rest = _rest(before.content, content)
        if rest is None:
            rest = content
            message_id = self._sent_ids[key] = f"{message_id}~"
        return chunks_of(msgspec.structs.replace(change, content=rest), message_id)


def chunks_of(change: MessageUpdate, message_id: str | None = None) -> list[MessageChunk]:
    """Split a whole message into chunks, one for each block."""
    content = change.content or []
    message_id = change.message_id if message_id is None else message_id
    return [MessageChunk(role=change.role, content=block, message_id=message_id) for block in content]


def _rest(before: list[Content], after: list[Content]) -> list[Content] | None:
    """Return what follows `before` in `after`, or `None` if `after` does not begin with it."""
    if before == after[: len(before)]:
        return after[len(before) :]
    last, continued = before[-1], after[len(before) - 1 : len(before)]
    if before[:-1] != after[: len(before) - 1] or not isinstance(last, TextContent):
        return None
    match continued:
        case [TextContent(text=text, annotations=last.annotations) as block] if text.startswith(last.text):
            return [msgspec.structs.replace(block, text=text[len(last.text) :]), *after[len(before) :]]
        case _:
            return None
