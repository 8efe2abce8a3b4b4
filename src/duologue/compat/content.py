"""Rules for content blocks and tool calls, wherever they occur."""

from __future__ import annotations

from duologue.compat.json_access import as_object, keep_in_meta, move, objects, replacing, string, take_from_meta
from duologue.compat.message import OpenMessage
from duologue.compat.rules import Rule, each, params, results
from duologue.conversation.content import BLOCK_TYPES
from duologue.schema import v1
from duologue.schema.base import JsonObject

TOOL_TAGS = frozenset({"tool_call", "tool_call_update"})

UNDEFINED_MEMBERS = {"diff": ("mimeType",), "terminal": ("command", "exitCode")}
"""The members that seed 004 adds to the content of tool calls, by its type."""


def update_of(message: OpenMessage) -> JsonObject:
    """Return the update in a `session/update`."""
    return as_object(message.fields.get("update")) if message.method == v1.SESSION_UPDATE.name else {}


def _tool_calls(message: OpenMessage) -> list[JsonObject]:
    """Return the tool call that is reported, or that a permission request is about, if there is one."""
    update = update_of(message)
    is_reported = string(update, "sessionUpdate") in TOOL_TAGS
    return objects([update if is_reported else message.fields.get("toolCall")])


def _tool_content(message: OpenMessage) -> list[JsonObject]:
    return [item for call in _tool_calls(message) for item in objects(call.get("content"))]


def _blocks(message: OpenMessage) -> list[JsonObject]:
    """Return every content block of a prompt, an answer, an update or a tool call, wrapped or not."""
    fields, update = message.fields, update_of(message)
    found = [as_object(update.get("content"))]
    for holder, key in (
        (fields, "prompt"),
        (fields, "content"),
        (update, "content"),
        (as_object(fields.get("toolCall")), "content"),
    ):
        found += objects(holder.get(key))
    return [as_object(item.get("content")) if item.get("type") == "content" else item for item in found]


def read_image(block: JsonObject) -> bool:
    """Move data and type of an image up from `source`."""
    source = as_object(block.get("source"))
    if block.get("type") != "image" or source.get("type") != "base64" or "data" not in source or "data" in block:
        return False
    move(source, "data", block, "data")
    move(source, "mediaType", block, "mimeType")
    del block["source"]
    return True


def write_image(block: JsonObject) -> bool:
    """Move data and type of an image down into `source`."""
    if block.get("type") != "image" or "data" not in block or "source" in block:
        return False
    source: JsonObject = {"type": "base64"}
    move(block, "mimeType", source, "mediaType")
    move(block, "data", source, "data")
    block["source"] = source
    return True


def write_update(message: OpenMessage) -> bool:
    """Write every change as a whole tool call, with what is remembered of it."""
    update = update_of(message)
    if update.get("sessionUpdate") != "tool_call_update":
        return False
    call_id = string(update, "toolCallId")
    known = message.known.tool_calls.get((str(message.fields.get("sessionId")), call_id), {})
    changed = {key: value for key, value in update.items() if value is not None}
    update.clear()
    update.update({"title": call_id, **known, **changed, "sessionUpdate": "tool_call"})
    return True


def read_location(call: JsonObject) -> bool:
    """Replace a location by a list of one."""
    if "locations" in call or not isinstance(call.get("location"), dict):
        return False
    call["locations"] = [call.pop("location")]
    return True


def write_location(call: JsonObject) -> bool:
    """Write the first location; if there are more, the list stays too."""
    targets = objects(call.get("locations"))
    if "location" in call or not targets:
        return False
    call["location"] = targets[0]
    if len(targets) == 1:
        del call["locations"]
    return True


def wrap_block(item: JsonObject) -> bool:
    """Wrap a block that is not wrapped in `content`."""
    if string(item, "type") not in BLOCK_TYPES:
        return False
    block = dict(item)
    item.clear()
    item.update(type="content", content=block)
    return True


def unwrap_block(item: JsonObject) -> bool:
    """Unwrap a block, unless the wrapper has members of its own."""
    block = as_object(item.get("content"))
    is_plain = item.keys() == {"type", "content"} and item["type"] == "content"
    if not is_plain or string(block, "type") not in BLOCK_TYPES:
        return False
    item.clear()
    item.update(block)
    return True


def read_undefined_members(item: JsonObject) -> bool:
    """Move members that today's schema does not define to `_meta`."""
    names = UNDEFINED_MEMBERS.get(string(item, "type"), ())
    extra = {name: item.pop(name) for name in names if name in item}
    if extra:
        keep_in_meta(item, **extra)
    return bool(extra)


def write_undefined_members(item: JsonObject) -> bool:
    """Restore the members from `_meta`."""
    extra = take_from_meta(item)
    item.update({name: value for name, value in extra.items() if name not in item})
    return bool(extra)


TOOL_CALLS = params(v1.SESSION_UPDATE, v1.SESSION_REQUEST_PERMISSION)

RULES = (
    Rule(
        "tool-status",
        ("seed-003",),
        "tool status `running`",
        "`in_progress`",
        TOOL_CALLS,
        # Unknown today, it would be dropped, and the tool call would seem to wait.
        each(_tool_calls, replacing("status", {"running": "in_progress"})),
        each(_tool_calls, replacing("status", {"in_progress": "running"})),
    ),
    Rule(
        "tool-update",
        ("seed-003",),
        "every change is a `tool_call`",
        "`tool_call_update`",
        params(v1.SESSION_UPDATE),
        write=write_update,
    ),
    Rule(
        "tool-location",
        ("seed-004",),
        "tool call with `location`, an object",
        "`locations`, a list",
        TOOL_CALLS,
        each(_tool_calls, read_location),
        each(_tool_calls, write_location),
    ),
    Rule(
        "tool-content",
        ("seed-001", "seed-004"),
        "a bare content block in a tool call's content",
        '`{"type": "content", "content": …}` around it',
        TOOL_CALLS,
        each(_tool_content, wrap_block),
        each(_tool_content, unwrap_block),
    ),
    Rule(
        "tool-content-members",
        ("seed-004",),
        "`mimeType` on a diff, `command` and `exitCode` on a terminal",
        'kept in `_meta["seed-004"]`',
        TOOL_CALLS,
        each(_tool_content, read_undefined_members),
        each(_tool_content, write_undefined_members),
    ),
    Rule(
        "image-source",
        ("seed-003",),
        "image with `source: {type, mediaType, data}`",
        "image with `mimeType` and `data`",
        (*params(v1.SESSION_PROMPT), *TOOL_CALLS, *results(v1.SESSION_PROMPT)),
        each(_blocks, read_image),
        each(_blocks, write_image),
    ),
)
