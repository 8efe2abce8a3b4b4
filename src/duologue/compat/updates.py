"""What an agent tells: the tags of its updates, and its messages."""

from __future__ import annotations

from duologue.compat.content import update_of
from duologue.compat.json_access import JsonObject, objects, rename, word
from duologue.compat.message import OpenMessage
from duologue.compat.methods import SESSION_PROMPT, SESSION_UPDATE
from duologue.compat.rules import Rule, params, results

__all__ = ["MESSAGE_RULES", "TAG_RULES"]

TAGS = frozenset(
    {
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "plan_update",
        "plan_removed",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
        "notice",
        "compaction_update",
        "compaction_summary_chunk",
        "subagent_update",
        "session_message",
        "session_message_chunk",
    }
)

CHUNK_OF_ROLE = {
    "agent": "agent_message_chunk",
    "user": "user_message_chunk",
    "thought": "agent_thought_chunk",
}
ROLE_OF_CHUNK = {chunk: role for role, chunk in CHUNK_OF_ROLE.items()}


def read_tag(letter: OpenMessage) -> bool:
    """`type` is the tag where it is one we know."""
    update = update_of(letter)
    return word(update, "type") in TAGS and rename(update, "type", "sessionUpdate")


def write_tag(letter: OpenMessage) -> bool:
    """Every tag, known or not."""
    return rename(update_of(letter), "sessionUpdate", "type")


def read_mode(letter: OpenMessage) -> bool:
    """Examples say `modeId`, the schema `currentModeId`."""
    update = update_of(letter)
    return update.get("sessionUpdate") == "current_mode_update" and rename(update, "modeId", "currentModeId")


def write_mode(letter: OpenMessage) -> bool:
    """The way back."""
    update = update_of(letter)
    return update.get("sessionUpdate") == "current_mode_update" and rename(update, "currentModeId", "modeId")


def read_message(letter: OpenMessage) -> bool:
    """One chunk per block; of a message without blocks nothing is left."""
    update = update_of(letter)
    is_message = update.get("type") == "message" and "sessionUpdate" not in update
    tag = CHUNK_OF_ROLE.get(word(update, "role"))
    if not is_message or tag is None or not isinstance(update.get("content"), list):
        return False
    rest = {key: value for key, value in update.items() if key not in ("type", "role", "content")}
    letters = [
        {**letter.fields, "update": {"sessionUpdate": tag, "content": block, **rest}}
        for block in objects(update["content"])
    ]
    letter.ahead += letters[:-1]
    letter.body = letters[-1] if letters else None
    letter.is_void = not letters
    return True


def write_message(letter: OpenMessage) -> bool:
    """A chunk is a message of one block."""
    update = update_of(letter)
    role = ROLE_OF_CHUNK.get(word(update, "sessionUpdate"))
    if role is None or "content" not in update:
        return False
    block = update.pop("content")
    rest = {key: value for key, value in update.items() if key != "sessionUpdate"}
    update.clear()
    update.update({"type": "message", "role": role, "content": [block], **rest})
    return True


def read_prompt_answer(letter: OpenMessage) -> bool:
    """What was said comes as chunks first, unless it was streamed already; then the turn has ended."""
    fields = letter.fields
    if "stopReason" in fields or not isinstance(fields.get("content"), list):
        return False
    blocks = objects(fields.pop("content"))
    fields["stopReason"] = "end_turn"
    if not letter.request.speech.repeats(blocks):
        letter.ahead += [_chunk(letter.request.session_id, block) for block in blocks]
    return True


def _chunk(session_id: str, block: JsonObject) -> JsonObject:
    return {"sessionId": session_id, "update": {"sessionUpdate": "agent_message_chunk", "content": block}}


def write_prompt_answer(letter: OpenMessage) -> bool:
    """Repeat what was streamed; where that is too much to keep, the client has seen it anyway."""
    speech = letter.request.speech
    if "stopReason" not in letter.fields or "content" in letter.fields or not speech.is_whole:
        return False
    letter.fields["content"] = speech.blocks()
    return True


TAG_RULES = (
    Rule(
        "update-tag",
        ("seed-004",),
        "`update.type`",
        "`update.sessionUpdate`",
        params(SESSION_UPDATE),
        read_tag,
        write_tag,
    ),
    Rule(
        "mode-update",
        ("seed-001", "seed-004"),
        "`current_mode_update` with `modeId`",
        "`currentModeId`",
        params(SESSION_UPDATE),
        read_mode,
        write_mode,
    ),
)
"""Before all other rules about updates: those know today's tags only."""

MESSAGE_RULES = (
    Rule(
        "message",
        ("seed-004",),
        "update `message` with `role` and a list of blocks",
        "one `agent_message_chunk`, `user_message_chunk` or `agent_thought_chunk` per block",
        params(SESSION_UPDATE),
        read_message,
        write_message,
    ),
    Rule(
        "prompt-answer",
        ("seed-003",),
        "`session/prompt` answers `content` and no `stopReason`",
        "chunks first (unless they were streamed), then `end_turn`",
        results(SESSION_PROMPT),
        read_prompt_answer,
        write_prompt_answer,
    ),
)
"""After the rules about content: they turn one letter into several."""
