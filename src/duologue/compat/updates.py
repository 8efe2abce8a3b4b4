"""Rules for session updates: their tags, and messages."""

from __future__ import annotations

from typing import get_args

from duologue.compat.content import update_of
from duologue.compat.json_access import objects, rename, renaming, string
from duologue.compat.message import OpenMessage
from duologue.compat.rules import Rule, each, params, results
from duologue.schema import v1
from duologue.schema.base import JsonObject

TAGS = frozenset(kind.__struct_config__.tag for kind in get_args(v1.SessionUpdate))

CHUNK_OF_ROLE = {
    "agent": "agent_message_chunk",
    "user": "user_message_chunk",
    "thought": "agent_thought_chunk",
}
ROLE_OF_CHUNK = {chunk: role for role, chunk in CHUNK_OF_ROLE.items()}


def _updates(message: OpenMessage) -> list[JsonObject]:
    return [update_of(message)]


def read_tag(update: JsonObject) -> bool:
    """Rename `type` if it is the tag of an update."""
    return string(update, "type") in TAGS and rename(update, "type", "sessionUpdate")


def _mode_updates(message: OpenMessage) -> list[JsonObject]:
    return [update for update in _updates(message) if update.get("sessionUpdate") == "current_mode_update"]


def read_message(message: OpenMessage) -> bool:
    """Replace a message by one chunk for each block; a message without blocks is dropped."""
    update = update_of(message)
    is_message = update.get("type") == "message" and "sessionUpdate" not in update
    tag = CHUNK_OF_ROLE.get(string(update, "role"))
    if not is_message or tag is None or not isinstance(update.get("content"), list):
        return False
    rest = {key: value for key, value in update.items() if key not in ("type", "role", "content")}
    messages = [
        {**message.fields, "update": {"sessionUpdate": tag, "content": block, **rest}}
        for block in objects(update["content"])
    ]
    message.before += messages[:-1]
    message.body = messages[-1] if messages else None
    message.is_dropped = not messages
    return True


def write_message(message: OpenMessage) -> bool:
    """Write a chunk as a message of one block."""
    update = update_of(message)
    role = ROLE_OF_CHUNK.get(string(update, "sessionUpdate"))
    if role is None or "content" not in update:
        return False
    block = update.pop("content")
    rest = {key: value for key, value in update.items() if key != "sessionUpdate"}
    update.clear()
    update.update({"type": "message", "role": role, "content": [block], **rest})
    return True


def read_prompt_answer(message: OpenMessage) -> bool:
    """Deliver the content as chunks first, unless it was streamed already, and add the stop reason."""
    fields = message.fields
    if "stopReason" in fields or not isinstance(fields.get("content"), list):
        return False
    blocks = objects(fields.pop("content"))
    fields["stopReason"] = "end_turn"
    if not message.request.text.repeats(blocks):
        message.before += [_chunk(message.request.session_id, block) for block in blocks]
    return True


def _chunk(session_id: str, block: JsonObject) -> JsonObject:
    return {"sessionId": session_id, "update": {"sessionUpdate": "agent_message_chunk", "content": block}}


def write_prompt_answer(message: OpenMessage) -> bool:
    """Add what was streamed; if it was too much to remember, the client has received it anyway."""
    text = message.request.text
    if "stopReason" not in message.fields or "content" in message.fields or not text.is_whole:
        return False
    message.fields["content"] = text.blocks()
    return True


TAG_RULES = (
    Rule(
        "update-tag",
        ("seed-004",),
        "`update.type`",
        "`update.sessionUpdate`",
        params(v1.SESSION_UPDATE),
        each(_updates, read_tag),
        each(_updates, renaming(sessionUpdate="type")),
    ),
    Rule(
        "mode-update",
        ("seed-001", "seed-004"),
        "`current_mode_update` with `modeId`",
        "`currentModeId`",
        params(v1.SESSION_UPDATE),
        each(_mode_updates, renaming(modeId="currentModeId")),
        each(_mode_updates, renaming(currentModeId="modeId")),
    ),
)
"""Applied before all other rules about updates, which know today's tags only."""

MESSAGE_RULES = (
    Rule(
        "message",
        ("seed-004",),
        "update `message` with `role` and a list of blocks",
        "one `agent_message_chunk`, `user_message_chunk` or `agent_thought_chunk` per block",
        params(v1.SESSION_UPDATE),
        read_message,
        write_message,
    ),
    Rule(
        "prompt-answer",
        ("seed-003",),
        "`session/prompt` answers `content` and no `stopReason`",
        "chunks first (unless they were streamed), then `end_turn`",
        results(v1.SESSION_PROMPT),
        read_prompt_answer,
        write_prompt_answer,
    ),
)
"""Applied after the rules about content, because they turn one message into several."""
