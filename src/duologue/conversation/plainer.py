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

from zlib import crc32

import msgspec
from msgspec import UNSET

from duologue.conversation.content import Content, TextContent
from duologue.conversation.growing import joined
from duologue.conversation.items import Message
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import (
    MessageChanged,
    MessageChunk,
    StateChanged,
    TerminalChanged,
    TerminalOutputChunk,
    ToolCallChanged,
    ToolContentChunk,
    Update,
)

__all__ = ["Plainer", "chunks_of"]


class Plainer:
    """One session, told plainly.

    Attributes:
        transcript: The session as it stands after everything that was told.
    """

    def __init__(self, transcript: Transcript | None = None) -> None:
        self.transcript = transcript or Transcript()

    def tell(self, update: Update) -> list[Update]:
        """The same in plainer words."""
        transcript = self.transcript
        match update:
            case MessageChanged():
                before = transcript.message(update.role, update.message_id)
                told: list[Update] = [*chunks_of(update, before)]
            case ToolCallChanged():
                is_new = update.is_new or transcript.tool_call(update.tool_call_id) is None
                told = [msgspec.structs.replace(update, is_new=is_new)]
            case ToolContentChunk():
                call = transcript.tool_call(update.tool_call_id)
                content = [*([] if call is None else call.content), *update.content]
                told = [ToolCallChanged(tool_call_id=update.tool_call_id, content=content, is_new=call is None)]
            case StateChanged() | TerminalChanged() | TerminalOutputChunk():
                told = []
            case _:
                told = [update]
        transcript.apply(update)
        return told


def chunks_of(change: MessageChanged, before: Message | None = None) -> list[MessageChunk]:
    """What a message that was so `before` has to say, in chunks, to be what it is now."""
    if change.content is UNSET or not change.content:
        return []
    content = joined(change.content)
    message_id = change.message_id
    rest = content if before is None else _rest(before.content, content)
    if rest is None:
        rest = content
        message_id = f"{message_id}~{crc32(msgspec.json.encode(content)):08x}"
    return [MessageChunk(role=change.role, content=block, message_id=message_id) for block in rest]


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
